import { oneOf, said, text } from "@/text/search";

export const TABS = ["keys", "users"] as const;

export function accessSearch(search: Record<string, unknown>) {
  return said({ tab: oneOf(search, "tab", TABS), q: text(search, "q") });
}
