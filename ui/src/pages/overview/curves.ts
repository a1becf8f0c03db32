// The curves of the last half hour: what the frontend remembers, and then what this tab sees. Pure.
import type { LiveOut, NodeOut, PastOut } from "@/api/schema";
import { fleet, pace } from "@/pages/overview/fleet";

export const NAMES = [
  "tokens_per_s",
  "requests_per_s",
  "errors_per_s",
  "first_byte_p50_s",
  "first_byte_p95_s",
  "waiting",
  "in_flight",
  "vram_used",
  "vram_total",
] as const;
export type Name = (typeof NAMES)[number];
export type Sample = Record<Name, number | null>;

export interface Curves {
  /** Unix seconds, growing. */
  at: number[];
  series: Record<Name, (number | null)[]>;
}

export const KEPT_S = 30 * 60;
export const NO_CURVES: Curves = { at: [], series: perName(() => []) };
/** While nothing is heard nothing is known: a gap, not a flat line. */
export const GAP: Sample = perName(() => null);

function perName<T>(make: (name: Name) => T): Record<Name, T> {
  return Object.fromEntries(NAMES.map((name) => [name, make(name)])) as Record<Name, T>;
}

export function sampleOf(live: LiveOut | undefined, nodes: readonly NodeOut[] | undefined): Sample {
  if (!live) return GAP;
  const now = pace(live.pace);
  const { nodes: tally, waiting, inFlight } = fleet(nodes ?? [], live);
  return {
    tokens_per_s: now.tokens,
    requests_per_s: now.requests,
    errors_per_s: now.errors,
    first_byte_p50_s: now.first50,
    first_byte_p95_s: now.first95,
    waiting,
    in_flight: inFlight,
    vram_used: tally.vram.used,
    vram_total: tally.vram.total,
  };
}

export function withSample(curves: Curves, at: number, sample: Sample): Curves {
  if (at <= (curves.at.at(-1) ?? 0)) return curves;
  const first = curves.at.findIndex((moment) => moment > at - KEPT_S);
  const kept = first < 0 ? curves.at.length : first;
  return {
    at: [...curves.at.slice(kept), at],
    series: perName((name) => [...curves.series[name].slice(kept), sample[name]]),
  };
}

/** What the frontend remembers, continued by what was seen here after it. */
export function joined(past: PastOut | undefined, own: Curves): Curves {
  if (!past || past.at.length === 0) return own;
  const last = past.at.at(-1) ?? 0;
  const first = own.at.findIndex((moment) => moment > last);
  const from = first < 0 ? own.at.length : first;
  return {
    at: [...past.at, ...own.at.slice(from)],
    series: perName((name) => [
      ...(past.series[name] ?? past.at.map(() => null)),
      ...own.series[name].slice(from),
    ]),
  };
}

/** Seconds to add to this machine's clock, if it and the frontend's are clearly apart. */
export function skew(past: PastOut | undefined, readAt: number): number {
  const last = past?.at.at(-1);
  if (last === undefined) return 0;
  const apart = last - readAt / 1000;
  return Math.abs(apart) > 15 ? apart : 0;
}
