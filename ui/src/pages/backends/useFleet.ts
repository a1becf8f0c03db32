// Everything that the page shows, read together. What is there is shown; what is not there yet counts as empty.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { installedBackends, nodes, operations, upgrades } from "@/api/queries";
import { catalog, intents } from "@/pages/backends/data";
import { type Fleet, type Matrix, matrixOf } from "@/pages/backends/fleet";

export interface Known {
  fleet: Fleet;
  matrix: Matrix;
  /** Nodes and what they have are known: the rest is trimming. */
  isReady: boolean;
  error: Error | null;
  onRetry: () => void;
}

export function useFleet(): Known {
  const theNodes = useQuery(nodes);
  const installed = useQuery(installedBackends);
  const entries = useQuery(catalog);
  const found = useQuery(upgrades);
  const owed = useQuery(intents);
  const live = useQuery(operations);
  const fleet = useMemo<Fleet>(
    () => ({
      nodes: theNodes.data ?? [],
      installed: installed.data ?? [],
      entries: entries.data?.entries ?? [],
      upgrades: found.data ?? {},
      intents: owed.data ?? [],
      operations: live.data ?? [],
    }),
    [theNodes.data, installed.data, entries.data, found.data, owed.data, live.data],
  );
  const matrix = useMemo(() => matrixOf(fleet), [fleet]);
  const all = [theNodes, installed, entries, found, owed, live];
  return {
    fleet,
    matrix,
    isReady: theNodes.data !== undefined && installed.data !== undefined && entries.data !== undefined,
    error: all.find((query) => query.error)?.error ?? null,
    onRetry: () => {
      for (const query of all) if (query.error) void query.refetch();
    },
  };
}
