import { oneOf, text } from "@/text/search";

export const TABS = ["keys", "users"] as const;

export function accessSearch(search: Record<string, unknown>) {
  return { tab: oneOf(search, "tab", TABS), q: text(search, "q") };
}
