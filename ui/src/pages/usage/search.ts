import { dropUndefined, parseChoice, parseText } from "@/text/search";

export const BY = ["model", "key", "user", "call", "node"] as const;
export const SPANS = ["day", "week", "month"] as const;
export const MEASURES = ["tokens", "requests", "errors"] as const;

export function usageSearch(search: Record<string, unknown>) {
  return dropUndefined({
    by: parseChoice(search, "by", BY),
    span: parseChoice(search, "span", SPANS),
    of: parseChoice(search, "of", MEASURES),
    /** One of them alone: the name of a model or node, the id of a key. */
    only: parseText(search, "only"),
    /** What I have used, for those who may see what all have. */
    mine: search.mine === true ? true : undefined,
  });
}

export type UsageSearch = ReturnType<typeof usageSearch>;
