import { flag, oneOf, said, text } from "@/text/search";

export const TABS = ["cluster", "configuration", "galleries", "tokens", "audit"] as const;

export function settingsSearch(search: Record<string, unknown>) {
  return said({
    tab: oneOf(search, "tab", TABS),
    q: text(search, "q"),
    /** Settings that somebody has set, and no others. */
    set: flag(search, "set"),
    /** Tokens that do not work any more, too. */
    all: flag(search, "all"),
  });
}

export type SettingsSearch = ReturnType<typeof settingsSearch>;
