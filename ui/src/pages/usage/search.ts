import { oneOf, said, text } from "@/text/search";

export const BY = ["key", "model", "node"] as const;
export const SPANS = ["day", "week", "month"] as const;

export function usageSearch(search: Record<string, unknown>) {
  return said({
    by: oneOf(search, "by", BY),
    span: oneOf(search, "span", SPANS),
    only: text(search, "only"),
  });
}
