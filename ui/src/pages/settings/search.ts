import { oneOf, said, text } from "@/text/search";

export const TABS = ["configuration", "galleries", "tokens", "audit"] as const;

export function settingsSearch(search: Record<string, unknown>) {
  return said({ tab: oneOf(search, "tab", TABS), q: text(search, "q") });
}
