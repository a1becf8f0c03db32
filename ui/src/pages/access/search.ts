import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

const TABS = ["keys", "users", "secrets", "mcp"] as const;
const SHOWN = ["working", "all"] as const;

export function accessSearch(search: Record<string, unknown>) {
  return dropUndefined({
    tab: parseChoice(search, "tab", TABS),
    q: parseText(search, "q"),
    show: parseChoice(search, "show", SHOWN),
    /** Whose secrets; without it, those of the caller. */
    of: parseChoice(search, "of", ["cluster"] as const),
    /** Whether the dialog that creates a key, a user, a secret or an MCP server is open. */
    new: parseFlag(search, "new"),
    /** The id of the key that is being edited. */
    key: parseText(search, "key"),
  });
}
