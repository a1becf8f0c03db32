// The fleet in numbers. Pure. Nodes and memory are counted by pages/nodes/fleetSummary.ts, as everywhere.
import type { LiveModelOut, LiveOut, NodeOut, RequestPaceOut } from "@/api/schema";
import { type FleetSummary, summariseFleet } from "@/pages/nodes/fleetSummary";

export interface FleetNumbers {
  nodes: FleetSummary;
  replicas: { loaded: number; all: number; models: number };
  inFlight: number;
  waiting: number;
}

export function computeFleetNumbers(nodes: readonly NodeOut[], live: LiveOut | undefined): FleetNumbers {
  const replicas = (live?.models ?? []).flatMap((model) => model.replicas);
  const sum = (numbers: readonly number[]) => numbers.reduce((one, other) => one + other, 0);
  return {
    nodes: summariseFleet(nodes),
    replicas: {
      loaded: replicas.filter((replica) => replica.state === "loaded").length,
      all: replicas.length,
      models: (live?.models ?? []).filter((model) => model.replicas.length > 0).length,
    },
    inFlight: sum((live?.models ?? []).map((model) => model.in_flight ?? 0)),
    waiting: sum((live?.models ?? []).map((model) => model.waiting ?? 0)),
  };
}

interface FleetPace {
  requests: number;
  errors: number;
  tokens: number;
  first50: number | null;
  first95: number | null;
}

/** Fills in zeros: the stream omits a pace of zeros, and each zero in one. */
export function toFleetPace(reported: Partial<RequestPaceOut> | undefined): FleetPace {
  return {
    requests: reported?.requests_per_s ?? 0,
    errors: reported?.errors_per_s ?? 0,
    tokens: reported?.tokens_per_s ?? 0,
    first50: reported?.first_byte_s?.p50 ?? null,
    first95: reported?.first_byte_s?.p95 ?? null,
  };
}

/** Sorts models with the most requests first. The order is stable while no model has requests. */
export function pickBusiest(models: readonly LiveModelOut[]): LiveModelOut[] {
  const load = (model: LiveModelOut) => (model.in_flight ?? 0) + (model.waiting ?? 0);
  return [...models].sort(
    (one, other) =>
      load(other) - load(one) ||
      toFleetPace(other.pace).tokens - toFleetPace(one.pace).tokens ||
      one.name.localeCompare(other.name),
  );
}
