// What this page reads beside what all pages do.
import { queryOptions } from "@tanstack/react-query";
import { request } from "@/api/client";
import type { Past } from "@/pages/overview/curves";

const MINUTES = 30;

export const history = queryOptions({
  queryKey: ["history", "cluster"] as const,
  queryFn: async () => (await (await request(`/api/history?minutes=${MINUTES}`)).json()) as Past,
});
