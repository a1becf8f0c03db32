import { oneOf, text } from "@/text/search";

export const KINDS = ["models", "backends", "cluster"] as const;
export const OUTCOMES = ["completed", "failed", "cancelled", "superseded"] as const;

export function operationsSearch(search: Record<string, unknown>) {
  return {
    kind: oneOf(search, "kind", KINDS),
    outcome: oneOf(search, "outcome", OUTCOMES),
    q: text(search, "q"),
    node: text(search, "node"),
    operation: text(search, "operation"),
  };
}
