import { day, oneOf, said, text } from "@/text/search";

export const KINDS = ["models", "backends", "cluster"] as const;
export const OUTCOMES = ["completed", "failed", "cancelled", "superseded"] as const;

export function operationsSearch(search: Record<string, unknown>) {
  return said({
    kind: oneOf(search, "kind", KINDS),
    outcome: oneOf(search, "outcome", OUTCOMES),
    q: text(search, "q"),
    node: text(search, "node"),
    since: day(search, "since"),
    until: day(search, "until"),
    operation: text(search, "operation"),
  });
}

export type OperationsSearch = ReturnType<typeof operationsSearch>;
