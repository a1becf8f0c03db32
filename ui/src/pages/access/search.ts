import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

const TABS = ["keys", "users"] as const;
const SHOWN = ["working", "all"] as const;

export function accessSearch(search: Record<string, unknown>) {
  return dropUndefined({
    tab: parseChoice(search, "tab", TABS),
    q: parseText(search, "q"),
    show: parseChoice(search, "show", SHOWN),
    /** The dialog that makes one is open. */
    new: parseFlag(search, "new"),
    /** The key that is being changed. */
    key: parseText(search, "key"),
  });
}
