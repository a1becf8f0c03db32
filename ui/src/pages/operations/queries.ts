// What this page reads beside the live list.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/api/client";

const PAGE = 100;

export const record = (node: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["record", "pages", node ?? ""] as const,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/operations/history", {
          params: {
            query: { limit: PAGE, ...(pageParam ? { before: pageParam } : {}), ...(node ? { node } : {}) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const intents = queryOptions({
  queryKey: ["intents"] as const,
  queryFn: () => answer(api.GET("/api/backend-intents")),
});

export const log = (id: string) =>
  queryOptions({
    queryKey: ["operations", "log", id] as const,
    queryFn: () =>
      answer(api.GET("/api/operations/{operation_id}/events", { params: { path: { operation_id: id } } })),
  });
