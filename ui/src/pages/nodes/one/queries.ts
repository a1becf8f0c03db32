// Queries of the page of one node, besides the list of nodes. Processes and logs come from the worker itself.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";

const at = (node: string) => ({ params: { path: { node } } });

export const replicasQuery = (node: string) =>
  queryOptions({
    queryKey: ["nodes", "replicas", node] as const,
    queryFn: () => unwrapResponse(api.GET("/api/nodes/{node}/models", at(node))),
  });

export const backendsQuery = (node: string) =>
  queryOptions({
    queryKey: ["backends", "node", node] as const,
    queryFn: () => unwrapResponse(api.GET("/api/nodes/{node}/backends", at(node))),
  });

export const processesQuery = (node: string) =>
  queryOptions({
    queryKey: ["nodes", "processes", node] as const,
    queryFn: () => unwrapResponse(api.GET("/api/nodes/{node}/processes", at(node))),
    staleTime: 0,
    retry: false,
  });

export const logKeysQuery = (node: string) =>
  queryOptions({
    queryKey: ["nodes", "logs", node] as const,
    queryFn: () => unwrapResponse(api.GET("/api/nodes/{node}/backend-logs", at(node))),
    staleTime: 0,
    retry: false,
  });

export const nodeHistoryQuery = (node: string) =>
  queryOptions({
    queryKey: ["history", "node", node] as const,
    queryFn: () =>
      unwrapResponse(
        api.GET("/api/nodes/{node}/history", { params: { path: { node }, query: { minutes: 30 } } }),
      ),
    staleTime: 0,
  });

export const endedOperationsQuery = (node: string) =>
  queryOptions({
    queryKey: ["record", "node", node] as const,
    queryFn: () =>
      unwrapResponse(api.GET("/api/operations/history", { params: { query: { limit: 100, node } } })),
  });
