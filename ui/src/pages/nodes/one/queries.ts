// What the page of one node reads beside the list of nodes. Processes and logs are asked of the worker itself.
import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/api/client";

const at = (node: string) => ({ params: { path: { node } } });
export const LINES_MAX = 1000;

export const replicasOf = (node: string) =>
  queryOptions({
    queryKey: ["nodes", "replicas", node] as const,
    queryFn: () => answer(api.GET("/api/nodes/{node}/models", at(node))),
  });

export const backendsOf = (node: string) =>
  queryOptions({
    queryKey: ["backends", "node", node] as const,
    queryFn: () => answer(api.GET("/api/nodes/{node}/backends", at(node))),
  });

export const processesOf = (node: string) =>
  queryOptions({
    queryKey: ["nodes", "processes", node] as const,
    queryFn: () => answer(api.GET("/api/nodes/{node}/processes", at(node))),
    staleTime: 0,
    retry: false,
  });

export const logKeysOf = (node: string) =>
  queryOptions({
    queryKey: ["nodes", "logs", node] as const,
    queryFn: () => answer(api.GET("/api/nodes/{node}/backend-logs", at(node))),
    staleTime: 0,
    retry: false,
  });

export const historyOf = (node: string) =>
  queryOptions({
    queryKey: ["history", "node", node] as const,
    queryFn: () =>
      answer(api.GET("/api/nodes/{node}/history", { params: { path: { node }, query: { minutes: 30 } } })),
    staleTime: 0,
  });

export const recordOf = (node: string) =>
  queryOptions({
    queryKey: ["record", "node", node] as const,
    queryFn: () => answer(api.GET("/api/operations/history", { params: { query: { limit: 100, node } } })),
  });

export const linesOf = (node: string, key: string) =>
  answer(
    api.GET("/api/nodes/{node}/backend-logs/{key}", {
      params: { path: { node, key }, query: { lines: LINES_MAX } },
    }),
  );
