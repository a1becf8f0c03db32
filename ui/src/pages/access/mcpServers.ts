// Queries and API calls about declared MCP servers. Everybody sees their names; admins see and change the rest.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { DeclaredServerIn } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";

/** Callers without the scope `operate` have no stream that announces changes. */
const NO_STREAM_POLL_MS = 15_000;

export const mcpServers = (hasStream: boolean) =>
  queryOptions({
    queryKey: ["mcp-servers"] as const,
    queryFn: async () => (await unwrapResponse(api.GET("/api/mcp/servers"))).servers,
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

const at = (name: string) => ({ params: { path: { name } } });

export const declareServer = (name: string, body: DeclaredServerIn) =>
  unwrapResponse(api.PUT("/api/mcp/servers/{name}", { ...at(name), body }));
export const deleteServer = (name: string) => unwrapResponse(api.DELETE("/api/mcp/servers/{name}", at(name)));
