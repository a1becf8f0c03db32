// The commands for a new machine, by the software that it has, and the nodes that have joined since.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { JoinOut, NodeOut } from "@/api/schema";

export type Platform = "curl" | "python" | "installed";

export const PLATFORMS: { value: Platform; label: string }[] = [
  { value: "curl", label: "With curl" },
  { value: "python", label: "Without curl" },
  { value: "installed", label: "Corral is already installed" },
];

/** The commands for another machine, and whether it can reach this cluster. */
export const joinCommands = queryOptions({
  queryKey: ["join"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/join")),
  staleTime: 60_000,
});

const COMMANDS = { curl: "command", python: "command_without_curl", installed: "worker_command" } as const;

export function makeJoinCommand(platform: Platform, join: JoinOut, token: string): string {
  return join[COMMANDS[platform]].replace("{token}", token);
}

type KnownNode = Pick<NodeOut, "id" | "boot_id" | "status">;

/** The nodes that were absent or unreachable when the dialog opened. A known node that restarts counts as joined. */
export function listArrivals<T extends KnownNode>(before: readonly KnownNode[], now: readonly T[]): T[] {
  const were = new Map(before.map((node) => [node.id, node]));
  return now.filter((node) => {
    const was = were.get(node.id);
    return !was || (was.status === "offline" && was.boot_id !== node.boot_id);
  });
}
