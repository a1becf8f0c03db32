// Queries of the operations page, besides the live list.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import { type OperationFilter, toHistoryQuery } from "@/pages/operations/sections";

const PAGE = 100;

/** The history. The frontend filters it, because matches may come after thousands of other operations. */
export const historyQuery = (filter: OperationFilter) =>
  infiniteQueryOptions({
    queryKey: ["record", "pages", filter] as const,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      unwrapResponse(
        api.GET("/api/operations/history", {
          params: {
            query: { limit: PAGE, ...(pageParam ? { before: pageParam } : {}), ...toHistoryQuery(filter) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const assignmentsQuery = queryOptions({
  queryKey: ["intents"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/backend-intents")),
});

export const logQuery = (id: string) =>
  queryOptions({
    queryKey: ["operations", "log", id] as const,
    queryFn: () =>
      unwrapResponse(
        api.GET("/api/operations/{operation_id}/events", { params: { path: { operation_id: id } } }),
      ),
  });
