import { oneOf, said, text } from "@/text/search";

export const KINDS = ["models", "backends", "cluster"] as const;
export const OUTCOMES = ["completed", "failed", "cancelled", "superseded"] as const;

export interface OperationsSearch {
  kind?: (typeof KINDS)[number] | undefined;
  outcome?: (typeof OUTCOMES)[number] | undefined;
  q?: string | undefined;
  node?: string | undefined;
  operation?: string | undefined;
}

export function operationsSearch(search: Record<string, unknown>): OperationsSearch {
  return said({
    kind: oneOf(search, "kind", KINDS),
    outcome: oneOf(search, "outcome", OUTCOMES),
    q: text(search, "q"),
    node: text(search, "node"),
    operation: text(search, "operation"),
  });
}
