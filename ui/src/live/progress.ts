// Applies a progress delta to a cached operation. A delta of an older revision, and a target that would leave its final
// state, are ignored.
import type { OperationOut, TargetOut } from "@/api/schema";

type Delta = Partial<Omit<OperationOut, "nodes">> & { nodes?: Partial<TargetOut>[] };

/** Whether the delta has nodes that the operation lacks, because the operation was read before its nodes were chosen. */
export function hasUnknownTargets(operation: OperationOut, delta: Delta): boolean {
  const known = new Set((operation.nodes ?? []).map((target) => target.node_id));
  return (delta.nodes ?? []).some((target) => target.node_id !== undefined && !known.has(target.node_id));
}

const OVER = new Set(["completed", "failed", "cancelled", "superseded"]);
const FINAL = new Set(["success", "error", "cancelled", "superseded", "skipped"]);

/** Whether the delta ends the operation. The caller then refetches it, because deltas of its nodes may come in any order. */
export function isFinalDelta(delta: Delta): boolean {
  return delta.state !== undefined && OVER.has(delta.state);
}

export function applyProgress<T extends OperationOut>(operation: T, delta: Delta): T {
  if (delta.rev !== undefined && delta.rev < operation.rev) return operation;
  const isNewer = delta.rev !== undefined && delta.rev > operation.rev;
  // Late progress has the revision of the end, and would reopen the operation.
  if (!isNewer && OVER.has(operation.state)) return operation;
  const { nodes, ...rest } = delta;
  const byNode = new Map((nodes ?? []).map((target) => [target.node_id, target]));
  const isOutdated = (target: TargetOut) =>
    !isNewer && FINAL.has(target.state) && !FINAL.has(byNode.get(target.node_id)?.state ?? target.state);
  return {
    ...operation,
    ...rest,
    nodes: (operation.nodes ?? []).map((target) =>
      byNode.has(target.node_id) && !isOutdated(target)
        ? { ...target, ...byNode.get(target.node_id) }
        : target,
    ),
  };
}
