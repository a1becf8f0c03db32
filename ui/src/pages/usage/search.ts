import { dropUndefined, parseChoice, parseText } from "@/text/search";

export const BY = ["model", "key", "user", "call", "node"] as const;
export const SPANS = ["day", "week", "month"] as const;
export const MEASURES = ["tokens", "requests", "errors"] as const;

export function usageSearch(search: Record<string, unknown>) {
  return dropUndefined({
    by: parseChoice(search, "by", BY),
    span: parseChoice(search, "span", SPANS),
    of: parseChoice(search, "of", MEASURES),
    /** The one group to show: the name of a model or node, or the id of a key. */
    only: parseText(search, "only"),
    /** Whether an admin sees only their own usage. */
    mine: search.mine === true ? true : undefined,
  });
}

export type UsageSearch = ReturnType<typeof usageSearch>;
