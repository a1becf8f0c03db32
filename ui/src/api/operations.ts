// Acting on operations and on what nodes owe. What they change is read anew at once; the stream tells the other tabs.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import type { Topic } from "@/api/queries";
import type { IntentOut } from "@/api/schema";

export type Act = "cancel" | "pause" | "resume" | "retry" | "dismiss" | "undismiss";

const MADE_OLD: readonly Topic[] = ["operations", "record", "intents"];

export function act(id: string, what: Act): Promise<unknown> {
  const params = { params: { path: { operation_id: id } } };
  switch (what) {
    case "cancel":
      return answer(api.POST("/api/operations/{operation_id}/cancel", params));
    case "pause":
      return answer(api.POST("/api/operations/{operation_id}/pause", params));
    case "resume":
      return answer(api.POST("/api/operations/{operation_id}/resume", params));
    case "retry":
      return answer(api.POST("/api/operations/{operation_id}/retry", params));
    case "dismiss":
      return answer(api.POST("/api/operations/{operation_id}/dismiss", params));
    case "undismiss":
      return answer(api.POST("/api/operations/{operation_id}/undismiss", params));
  }
}

export function useMadeOld(): () => void {
  const cache = useQueryClient();
  return () => {
    for (const topic of MADE_OLD) void cache.invalidateQueries({ queryKey: [topic] });
  };
}

export function useAct(id: string) {
  return useMutation({ mutationFn: (what: Act) => act(id, what), onSettled: useMadeOld() });
}

export function useClearRecord() {
  return useMutation({
    mutationFn: () => answer(api.DELETE("/api/operations/history")),
    onSettled: useMadeOld(),
  });
}

type Owed = Pick<IntentOut, "node_id" | "backend">;

export function useRevive() {
  return useMutation({
    mutationFn: ({ node_id, backend }: Owed) =>
      answer(
        api.POST("/api/backend-intents/{node}/{backend}/revive", {
          params: { path: { node: node_id, backend } },
        }),
      ),
    onSettled: useMadeOld(),
  });
}

export function useDrop() {
  return useMutation({
    mutationFn: ({ node_id, backend }: Owed) =>
      answer(
        api.DELETE("/api/backend-intents/{node}/{backend}", { params: { path: { node: node_id, backend } } }),
      ),
    onSettled: useMadeOld(),
  });
}
