// Progress of an operation, laid over what is known of it. An older revision, or a target that goes back, is left out.
import type { OperationOut, TargetOut } from "@/api/schema";

type Delta = Partial<Omit<OperationOut, "nodes">> & { nodes?: Partial<TargetOut>[] };

/** Whether it tells of nodes that are not known: the operation was read before its nodes were chosen. */
export function tellsOfOthers(operation: OperationOut, delta: Delta): boolean {
  const known = new Set((operation.nodes ?? []).map((target) => target.node_id));
  return (delta.nodes ?? []).some((target) => target.node_id !== undefined && !known.has(target.node_id));
}

export function withProgress<T extends OperationOut>(operation: T, delta: Delta): T {
  if (delta.rev !== undefined && delta.rev < operation.rev) return operation;
  const { nodes, ...rest } = delta;
  const byNode = new Map((nodes ?? []).map((target) => [target.node_id, target]));
  return {
    ...operation,
    ...rest,
    nodes: (operation.nodes ?? []).map((target) =>
      byNode.has(target.node_id) ? { ...target, ...byNode.get(target.node_id) } : target,
    ),
  };
}
