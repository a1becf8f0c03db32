// Progress of an operation, laid over what is known of it. An older revision, or a target that goes back, is left out.
import type { OperationOut, TargetOut } from "@/api/schema";

type Delta = Partial<Omit<OperationOut, "nodes">> & { nodes?: Partial<TargetOut>[] };

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
