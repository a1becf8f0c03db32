import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

const TABS = ["cluster", "configuration", "galleries", "tokens", "audit"] as const;

export function settingsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    tab: parseChoice(search, "tab", TABS),
    q: parseText(search, "q"),
    /** Whether only settings are listed that were set explicitly. */
    set: parseFlag(search, "set"),
    /** Whether expired, used and revoked tokens are listed too. */
    all: parseFlag(search, "all"),
  });
}
