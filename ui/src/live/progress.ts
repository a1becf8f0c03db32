// Progress of an operation, laid over what is known of it. An older revision, or a target that goes back, is left out.
import type { OperationOut, TargetOut } from "@/api/schema";

type Delta = Partial<Omit<OperationOut, "nodes">> & { nodes?: Partial<TargetOut>[] };

/** Whether it tells of nodes that are not known: the operation was read before its nodes were chosen. */
export function tellsOfOthers(operation: OperationOut, delta: Delta): boolean {
  const known = new Set((operation.nodes ?? []).map((target) => target.node_id));
  return (delta.nodes ?? []).some((target) => target.node_id !== undefined && !known.has(target.node_id));
}

const OVER = new Set(["completed", "failed", "cancelled", "superseded"]);
const FINAL = new Set(["success", "error", "cancelled", "superseded", "skipped"]);

/** Whether it tells the end, which is read whole: what is told of its nodes may come before or after. */
export function tellsTheEnd(delta: Delta): boolean {
  return delta.state !== undefined && OVER.has(delta.state);
}

export function withProgress<T extends OperationOut>(operation: T, delta: Delta): T {
  if (delta.rev !== undefined && delta.rev < operation.rev) return operation;
  const isNewer = delta.rev !== undefined && delta.rev > operation.rev;
  // Progress that a frontend heard late has the revision of the end, and would take it back.
  if (!isNewer && OVER.has(operation.state)) return operation;
  const { nodes, ...rest } = delta;
  const byNode = new Map((nodes ?? []).map((target) => [target.node_id, target]));
  const goesBack = (target: TargetOut) =>
    !isNewer && FINAL.has(target.state) && !FINAL.has(byNode.get(target.node_id)?.state ?? target.state);
  return {
    ...operation,
    ...rest,
    nodes: (operation.nodes ?? []).map((target) =>
      byNode.has(target.node_id) && !goesBack(target) ? { ...target, ...byNode.get(target.node_id) } : target,
    ),
  };
}
