// The queries that pages share. A query key begins with a `Topic`, by which the stream invalidates it
// (live/staleTopics.ts).
import { queryOptions } from "@tanstack/react-query";
import { api, type Problem, unwrapResponse } from "@/api/client";

export type Topic =
  | "agents"
  | "audit"
  | "backends"
  | "cluster"
  | "collections"
  | "files"
  | "galleries"
  | "history"
  | "intents"
  | "keys"
  | "live"
  | "mcp-servers"
  | "me"
  | "models"
  | "nodes"
  | "operations"
  | "record"
  | "rules"
  | "runs"
  | "secrets"
  | "settings"
  | "skills"
  | "tasks"
  | "tokens"
  | "usage"
  | "users";

export const me = queryOptions({
  queryKey: ["me"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/me")),
  staleTime: Number.POSITIVE_INFINITY,
  retry: (count, error) => (error as Problem).isLost && count < 1000,
});

export const cluster = queryOptions({
  queryKey: ["cluster"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/cluster")),
});

export const nodes = queryOptions({
  queryKey: ["nodes"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/nodes")),
});

/** Every replica, in any state: the live view has them all. The stream keeps it fresh. */
export const live = queryOptions({
  queryKey: ["live"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/live")),
});

/** Operations that are under way or wait to be acknowledged. The stream keeps it fresh. */
export const operations = queryOptions({
  queryKey: ["operations", "live"] as const,
  queryFn: async () => (await unwrapResponse(api.GET("/api/operations"))).operations,
});

export const operation = (id: string) =>
  queryOptions({
    queryKey: ["operations", "one", id] as const,
    queryFn: () =>
      unwrapResponse(api.GET("/api/operations/{operation_id}", { params: { path: { operation_id: id } } })),
  });

export const rules = queryOptions({
  queryKey: ["rules"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/rules")),
});

export const modelConfigs = queryOptions({
  queryKey: ["models", "configs"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/models/configs")),
});

export const installedBackends = queryOptions({
  queryKey: ["backends", "installed"] as const,
  queryFn: () => unwrapResponse(api.GET("/backends")),
});

export const upgrades = queryOptions({
  queryKey: ["backends", "upgrades"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/backends/upgrades")),
});
