import { dropUndefined, parseChoice, parseDay, parseText } from "@/text/search";

export const OPERATION_KINDS = ["models", "backends", "cluster"] as const;
export const OUTCOMES = ["completed", "failed", "cancelled", "superseded"] as const;

export function operationsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    kind: parseChoice(search, "kind", OPERATION_KINDS),
    outcome: parseChoice(search, "outcome", OUTCOMES),
    q: parseText(search, "q"),
    node: parseText(search, "node"),
    since: parseDay(search, "since"),
    until: parseDay(search, "until"),
    operation: parseText(search, "operation"),
  });
}

export type OperationsSearch = ReturnType<typeof operationsSearch>;
