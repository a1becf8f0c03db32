// The curves of a node: the last half hour, continued by the samples since the page was opened.
import type { HistorySeriesOut, NodeOut } from "@/api/schema";
import { computeUsed } from "@/pages/nodes/words";

export const NODE_CURVE_NAMES = ["vram_used", "ram_used", "disk_free", "in_flight", "models"] as const;
export type NodeCurveName = (typeof NODE_CURVE_NAMES)[number];
type NodeSample = Record<NodeCurveName, number | null>;

export interface NodeCurves {
  at: number[];
  series: Record<NodeCurveName, (number | null)[]>;
}

const SAMPLES_KEPT_S = 30 * 60;
/** A sample may be recorded a little after the heartbeat that brought it. */
const HEARTBEAT_S = 5;
const EMPTY_SAMPLE: NodeSample = {
  vram_used: null,
  ram_used: null,
  disk_free: null,
  in_flight: null,
  models: null,
};

/** A node without heartbeats gets an empty sample, because its last numbers are not its present ones. */
export function makeNodeSample(node: NodeOut, inFlight: number, hasHeartbeat: boolean): NodeSample {
  if (!hasHeartbeat) return EMPTY_SAMPLE;
  return {
    vram_used: computeUsed(node.total_vram, node.reported_available_vram ?? node.available_vram),
    ram_used: computeUsed(node.total_ram, node.available_ram),
    disk_free: node.available_disk ?? null,
    in_flight: inFlight,
    models: node.model_count,
  };
}

export function toCurves(past: HistorySeriesOut | undefined): NodeCurves {
  const at = past?.at ?? [];
  const blank = at.map(() => null);
  const series = {} as NodeCurves["series"];
  for (const name of NODE_CURVE_NAMES) series[name] = past?.series[name] ?? blank;
  return { at, series };
}

/** The curves of a node that is away: nothing is known of the time after its last heartbeat. */
export function cutCurves(curves: NodeCurves, lastHeartbeatS: number | null): NodeCurves {
  if (lastHeartbeatS === null) return curves;
  const series = {} as NodeCurves["series"];
  for (const name of NODE_CURVE_NAMES)
    series[name] = curves.series[name].map((value, place) =>
      (curves.at[place] ?? 0) > lastHeartbeatS + HEARTBEAT_S ? null : value,
    );
  return { at: curves.at, series };
}

/** Appends a sample. One that is older than the last, and samples older than half an hour, are dropped. */
export function appendNodeSample(curves: NodeCurves, at: number, sample: NodeSample): NodeCurves {
  if (at <= (curves.at.at(-1) ?? 0)) return curves;
  const first = curves.at.findIndex((time) => time >= at - SAMPLES_KEPT_S);
  const from = first === -1 ? curves.at.length : first;
  const series = {} as NodeCurves["series"];
  for (const name of NODE_CURVE_NAMES) series[name] = [...curves.series[name].slice(from), sample[name]];
  return { at: [...curves.at.slice(from), at], series };
}
