// The curves of the last half hour: the frontend's history, continued by the samples of this tab. Pure.
import type { HistorySeriesOut, LiveOut, NodeOut } from "@/api/schema";
import { computeFleetNumbers, toFleetPace } from "@/pages/overview/fleetNumbers";

export const FLEET_CURVE_NAMES = [
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
export type FleetCurveName = (typeof FLEET_CURVE_NAMES)[number];
type FleetSample = Record<FleetCurveName, number | null>;

export interface FleetCurves {
  /** Unix seconds, growing. */
  at: number[];
  series: Record<FleetCurveName, (number | null)[]>;
}

const SAMPLES_KEPT_S = 30 * 60;
export const NO_CURVES: FleetCurves = { at: [], series: mapCurves(() => []) };
/** A sample while the stream is lost: the chart shows a gap, not a flat line. */
export const EMPTY_SAMPLE: FleetSample = mapCurves(() => null);

function mapCurves<T>(make: (name: FleetCurveName) => T): Record<FleetCurveName, T> {
  return Object.fromEntries(FLEET_CURVE_NAMES.map((name) => [name, make(name)])) as Record<FleetCurveName, T>;
}

export function makeFleetSample(
  live: LiveOut | undefined,
  nodes: readonly NodeOut[] | undefined,
): FleetSample {
  if (!live) return EMPTY_SAMPLE;
  const now = toFleetPace(live.pace);
  const { nodes: tally, waiting, inFlight } = computeFleetNumbers(nodes ?? [], live);
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

export function appendFleetSample(curves: FleetCurves, at: number, sample: FleetSample): FleetCurves {
  if (at <= (curves.at.at(-1) ?? 0)) return curves;
  const first = curves.at.findIndex((moment) => moment > at - SAMPLES_KEPT_S);
  const kept = first < 0 ? curves.at.length : first;
  return {
    at: [...curves.at.slice(kept), at],
    series: mapCurves((name) => [...curves.series[name].slice(kept), sample[name]]),
  };
}

/** The frontend's history, continued by the later samples of this tab. */
export function joinCurves(past: HistorySeriesOut | undefined, own: FleetCurves): FleetCurves {
  if (!past || past.at.length === 0) return own;
  const last = past.at.at(-1) ?? 0;
  const first = own.at.findIndex((moment) => moment > last);
  const from = first < 0 ? own.at.length : first;
  return {
    at: [...past.at, ...own.at.slice(from)],
    series: mapCurves((name) => [
      ...(past.series[name] ?? past.at.map(() => null)),
      ...own.series[name].slice(from),
    ]),
  };
}

/** Seconds to add to this machine's clock, if it clearly differs from the frontend's. */
export function computeSkew(past: HistorySeriesOut | undefined, readAt: number): number {
  const last = past?.at.at(-1);
  if (last === undefined) return 0;
  const apart = last - readAt / 1000;
  return Math.abs(apart) > 15 ? apart : 0;
}
