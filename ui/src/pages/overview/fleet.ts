// The fleet in numbers. Pure. Nodes and memory are counted by pages/nodes/tally.ts, as everywhere.
import type { LiveModel, LiveOut, NodeOut, PaceOut } from "@/api/schema";
import { type Tally, tallyOf } from "@/pages/nodes/tally";

export interface Fleet {
  nodes: Tally;
  replicas: { loaded: number; all: number; models: number };
  inFlight: number;
  waiting: number;
}

export function fleet(nodes: readonly NodeOut[], live: LiveOut | undefined): Fleet {
  const replicas = (live?.models ?? []).flatMap((model) => model.replicas);
  const sum = (numbers: readonly number[]) => numbers.reduce((one, other) => one + other, 0);
  return {
    nodes: tallyOf(nodes),
    replicas: {
      loaded: replicas.filter((replica) => replica.state === "loaded").length,
      all: replicas.length,
      models: (live?.models ?? []).filter((model) => model.replicas.length > 0).length,
    },
    inFlight: sum((live?.models ?? []).map((model) => model.in_flight ?? 0)),
    waiting: sum((live?.models ?? []).map((model) => model.waiting ?? 0)),
  };
}

export interface Pace {
  requests: number;
  errors: number;
  tokens: number;
  first50: number | null;
  first95: number | null;
}

/** In the stream a pace of zeros is left out, and so is every zero of one. */
export function pace(told: Partial<PaceOut> | undefined): Pace {
  return {
    requests: told?.requests_per_s ?? 0,
    errors: told?.errors_per_s ?? 0,
    tokens: told?.tokens_per_s ?? 0,
    first50: told?.first_byte_s?.p50 ?? null,
    first95: told?.first_byte_s?.p95 ?? null,
  };
}

/** Those with most to do first; the same order as long as nobody has anything to do. */
export function busiest(models: readonly LiveModel[]): LiveModel[] {
  const load = (model: LiveModel) => (model.in_flight ?? 0) + (model.waiting ?? 0);
  return [...models].sort(
    (one, other) =>
      load(other) - load(one) ||
      pace(other.pace).tokens - pace(one.pace).tokens ||
      one.name.localeCompare(other.name),
  );
}
