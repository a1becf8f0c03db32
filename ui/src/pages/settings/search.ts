import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

const TABS = ["cluster", "configuration", "galleries", "tokens", "audit"] as const;

export function settingsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    tab: parseChoice(search, "tab", TABS),
    q: parseText(search, "q"),
    /** Settings that somebody has set, and no others. */
    set: parseFlag(search, "set"),
    /** Tokens that do not work any more, too. */
    all: parseFlag(search, "all"),
  });
}
