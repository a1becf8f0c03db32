// Queries of the overview page, besides the shared ones.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";

const MINUTES = 30;

export const history = queryOptions({
  queryKey: ["history", "cluster"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/history", { params: { query: { minutes: MINUTES } } })),
});
