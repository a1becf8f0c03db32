// The fleet in numbers. Pure. What is not known of a node is left out of a sum, never counted as zero.
import type { LiveModel, LiveOut, NodeOut, PaceOut } from "@/api/schema";

export interface Amount {
  used: number | null;
  total: number | null;
  reserved: number;
}

export interface Fleet {
  nodes: { healthy: number; all: number };
  vram: Amount;
  ram: Amount;
  threads: number;
  replicas: { loaded: number; all: number; models: number };
  inFlight: number;
  waiting: number;
}

/** Nodes that are there: what an absent one has is no capacity. */
const THERE = new Set(["healthy", "draining"]);

export function fleet(nodes: readonly NodeOut[], live: LiveOut | undefined): Fleet {
  const there = nodes.filter((node) => THERE.has(node.status) && node.node_type === "backend");
  const replicas = (live?.models ?? []).flatMap((model) => model.replicas);
  const sum = (numbers: readonly number[]) => numbers.reduce((one, other) => one + other, 0);
  return {
    nodes: {
      healthy: nodes.filter((node) => node.status === "healthy").length,
      all: nodes.filter((node) => node.status !== "pending").length,
    },
    vram: amount(
      there,
      (node) => node.total_vram,
      (node) => node.reported_available_vram ?? node.available_vram,
      (node) => node.reserved_vram,
    ),
    ram: amount(
      there,
      (node) => node.total_ram,
      (node) => node.available_ram,
    ),
    threads: sum(there.map((node) => node.cpu_threads ?? 0)),
    replicas: {
      loaded: replicas.filter((replica) => replica.state === "loaded").length,
      all: replicas.length,
      models: (live?.models ?? []).filter((model) => model.replicas.length > 0).length,
    },
    inFlight: sum((live?.models ?? []).map((model) => model.in_flight ?? 0)),
    waiting: sum((live?.models ?? []).map((model) => model.waiting ?? 0)),
  };
}

type Of = (node: NodeOut) => number | null | undefined;

function amount(nodes: readonly NodeOut[], total: Of, free: Of, reserved: Of = () => 0): Amount {
  let known: Amount = { used: null, total: null, reserved: 0 };
  for (const node of nodes) {
    const all = total(node);
    const left = free(node);
    if (!all || left == null) continue;
    known = {
      used: (known.used ?? 0) + Math.max(0, all - left),
      total: (known.total ?? 0) + all,
      reserved: known.reserved + (reserved(node) ?? 0),
    };
  }
  return known;
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
