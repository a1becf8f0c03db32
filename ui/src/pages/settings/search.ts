import { oneOf, text } from "@/text/search";

export const TABS = ["configuration", "galleries", "tokens", "audit"] as const;

export function settingsSearch(search: Record<string, unknown>) {
  return { tab: oneOf(search, "tab", TABS), q: text(search, "q") };
}
