// Mutations of operations and of pending changes. Queries that a mutation makes stale are invalidated at once in this
// tab; other tabs learn of the change from the stream.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { Topic } from "@/api/queries";
import type { AssignmentOut } from "@/api/schema";

export type OperationAction = "cancel" | "pause" | "resume" | "retry" | "dismiss" | "undismiss";

const STALE_TOPICS: readonly Topic[] = ["operations", "record", "intents"];

export function runOperationAction(id: string, what: OperationAction): Promise<unknown> {
  const params = { params: { path: { operation_id: id } } };
  switch (what) {
    case "cancel":
      return unwrapResponse(api.POST("/api/operations/{operation_id}/cancel", params));
    case "pause":
      return unwrapResponse(api.POST("/api/operations/{operation_id}/pause", params));
    case "resume":
      return unwrapResponse(api.POST("/api/operations/{operation_id}/resume", params));
    case "retry":
      return unwrapResponse(api.POST("/api/operations/{operation_id}/retry", params));
    case "dismiss":
      return unwrapResponse(api.POST("/api/operations/{operation_id}/dismiss", params));
    case "undismiss":
      return unwrapResponse(api.POST("/api/operations/{operation_id}/undismiss", params));
  }
}

export function useInvalidateOperations(): () => void {
  const cache = useQueryClient();
  return () => {
    for (const topic of STALE_TOPICS) void cache.invalidateQueries({ queryKey: [topic] });
  };
}

export function useOperationAction(id: string) {
  return useMutation({
    mutationFn: (what: OperationAction) => runOperationAction(id, what),
    onSettled: useInvalidateOperations(),
  });
}

export function useClearHistory() {
  return useMutation({
    mutationFn: () => unwrapResponse(api.DELETE("/api/operations/history")),
    onSettled: useInvalidateOperations(),
  });
}

type AssignmentKey = Pick<AssignmentOut, "node_id" | "backend">;

export function useRetryAssignment() {
  return useMutation({
    mutationFn: ({ node_id, backend }: AssignmentKey) =>
      unwrapResponse(
        api.POST("/api/backend-intents/{node}/{backend}/revive", {
          params: { path: { node: node_id, backend } },
        }),
      ),
    onSettled: useInvalidateOperations(),
  });
}

export function useDiscardAssignment() {
  return useMutation({
    mutationFn: ({ node_id, backend }: AssignmentKey) =>
      unwrapResponse(
        api.DELETE("/api/backend-intents/{node}/{backend}", { params: { path: { node: node_id, backend } } }),
      ),
    onSettled: useInvalidateOperations(),
  });
}
