// Combines all queries of the backends page. Data that is not loaded yet counts as empty.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { installedBackends, nodes, operations, upgrades } from "@/api/queries";
import { assignments, catalog } from "@/pages/backends/calls";
import { type BackendFleet, buildMatrix, type MatrixData } from "@/pages/backends/fleet";

export interface FleetQueries {
  fleet: BackendFleet;
  matrix: MatrixData;
  /** Whether nodes and installed backends are loaded, which is enough to show the matrix. */
  isReady: boolean;
  error: Error | null;
  onRetry: () => void;
}

export function useFleet(): FleetQueries {
  const fleetNodes = useQuery(nodes);
  const installed = useQuery(installedBackends);
  const entries = useQuery(catalog);
  const found = useQuery(upgrades);
  const pending = useQuery(assignments);
  const live = useQuery(operations);
  const fleet = useMemo<BackendFleet>(
    () => ({
      nodes: fleetNodes.data ?? [],
      installed: installed.data ?? [],
      entries: entries.data?.entries ?? [],
      upgrades: found.data ?? {},
      assignments: pending.data ?? [],
      operations: live.data ?? [],
    }),
    [fleetNodes.data, installed.data, entries.data, found.data, pending.data, live.data],
  );
  const matrix = useMemo(() => buildMatrix(fleet), [fleet]);
  const all = [fleetNodes, installed, entries, found, pending, live];
  return {
    fleet,
    matrix,
    isReady: fleetNodes.data !== undefined && installed.data !== undefined && entries.data !== undefined,
    error: all.find((query) => query.error)?.error ?? null,
    onRetry: () => {
      for (const query of all) if (query.error) void query.refetch();
    },
  };
}
