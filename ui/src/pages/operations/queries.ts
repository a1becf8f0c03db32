// What this page reads beside the live list.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import { type Filter, historyFilter } from "@/pages/operations/sorting";

const PAGE = 100;

/** The frontend filters: what matches may be behind thousands of operations that do not. */
export const record = (filter: Filter) =>
  infiniteQueryOptions({
    queryKey: ["record", "pages", filter] as const,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/operations/history", {
          params: {
            query: { limit: PAGE, ...(pageParam ? { before: pageParam } : {}), ...historyFilter(filter) },
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
