import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

const TABS = ["keys", "users"] as const;
const SHOWN = ["working", "all"] as const;

export function accessSearch(search: Record<string, unknown>) {
  return dropUndefined({
    tab: parseChoice(search, "tab", TABS),
    q: parseText(search, "q"),
    show: parseChoice(search, "show", SHOWN),
    /** Whether the dialog that creates a key or a user is open. */
    new: parseFlag(search, "new"),
    /** The id of the key that is being edited. */
    key: parseText(search, "key"),
  });
}
