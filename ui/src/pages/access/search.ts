import { flag, oneOf, said, text } from "@/text/search";

export const TABS = ["keys", "users"] as const;
export const SHOWN = ["working", "all"] as const;

export function accessSearch(search: Record<string, unknown>) {
  return said({
    tab: oneOf(search, "tab", TABS),
    q: text(search, "q"),
    show: oneOf(search, "show", SHOWN),
    /** The dialog that makes one is open. */
    new: flag(search, "new"),
    /** The key that is being changed. */
    key: text(search, "key"),
  });
}

export type AccessSearch = ReturnType<typeof accessSearch>;
