// The MCP servers that a model's configuration names.
import type { ModelOut } from "@/api/schema";

/** Returns the names of a model's MCP servers, in the order of the configuration. */
export function listServerNames(config: ModelOut["config"]): string[] {
  const mcp = config.mcp;
  if (!isMapping(mcp)) return [];
  const declared = Array.isArray(mcp.servers) ? mcp.servers.map(String) : [];
  return [...declared, ...listKeys(mcp.remote), ...listKeys(mcp.stdio)];
}

const listKeys = (value: unknown): string[] => (isMapping(value) ? Object.keys(value) : []);

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
