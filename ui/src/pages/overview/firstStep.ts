// What to do first in a cluster that has no model. Pure.
import type { NodeOut, OperationOut } from "@/api/schema";
import { isActive } from "@/text/operationStates";

/** The smallest model that can chat; `corral try` uses the same. */
export const FIRST_MODEL = "smollm2-135m";

export type FirstStep =
  | { step: "join" }
  | { step: "approve" }
  /** There are nodes, but none of them takes work. */
  | { step: "wait"; reason: string }
  | { step: "try" }
  | { step: "working"; operation: OperationOut };

/** The first step to show; null if the cluster has a model already. */
export function findFirstStep(
  nodes: readonly NodeOut[],
  models: readonly string[],
  operations: readonly OperationOut[],
): FirstStep | null {
  const own = operations.filter(
    (operation) =>
      operation.name === FIRST_MODEL && isActive(operation.state) && operation.kind.startsWith("model_"),
  );
  // The load waits for the install, so the install is shown.
  const working = own.find((operation) => operation.state !== "queued") ?? own[0];
  if (working && models.every((model) => model === FIRST_MODEL))
    return { step: "working", operation: working };
  if (models.length > 0) return null;
  const engines = nodes.filter((node) => node.node_type === "backend");
  if (engines.some((node) => node.schedulable)) return { step: "try" };
  if (engines.some((node) => node.status === "pending")) return { step: "approve" };
  const [away] = engines;
  return away ? { step: "wait", reason: `${away.name}: ${away.status_reason}` } : { step: "join" };
}
