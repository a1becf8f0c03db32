// The last half hour of a node, and what has come since the page was opened.
import type { NodeOut, PastOut } from "@/api/schema";
import { usedOf } from "@/pages/nodes/words";

export const NAMES = ["vram_used", "ram_used", "disk_free", "in_flight", "models"] as const;
export type Name = (typeof NAMES)[number];
export type Sample = Record<Name, number | null>;

export interface Curves {
  at: number[];
  series: Record<Name, (number | null)[]>;
}

const KEPT_S = 30 * 60;
/** A reading may be noted a little after the heartbeat that brought it. */
const HEARTBEAT_S = 5;
const GAP: Sample = { vram_used: null, ram_used: null, disk_free: null, in_flight: null, models: null };

/** While a node is away, nothing is known of it: what it told last is not what is. */
export function sampleOf(node: NodeOut, inFlight: number, isHeard: boolean): Sample {
  if (!isHeard) return GAP;
  return {
    vram_used: usedOf(node.total_vram, node.reported_available_vram ?? node.available_vram),
    ram_used: usedOf(node.total_ram, node.available_ram),
    disk_free: node.available_disk ?? null,
    in_flight: inFlight,
    models: node.model_count,
  };
}

export function asCurves(past: PastOut | undefined): Curves {
  const at = past?.at ?? [];
  const blank = at.map(() => null);
  const series = {} as Curves["series"];
  for (const name of NAMES) series[name] = past?.series[name] ?? blank;
  return { at, series };
}

/** The curves of a node that is away: nothing is known of the time after its last heartbeat. */
export function endedAt(curves: Curves, lastHeardS: number | null): Curves {
  if (lastHeardS === null) return curves;
  const series = {} as Curves["series"];
  for (const name of NAMES)
    series[name] = curves.series[name].map((value, place) =>
      (curves.at[place] ?? 0) > lastHeardS + HEARTBEAT_S ? null : value,
    );
  return { at: curves.at, series };
}

/** A reading behind the others; times that go back are left out, and what is older than half an hour too. */
export function withSample(curves: Curves, at: number, sample: Sample): Curves {
  if (at <= (curves.at.at(-1) ?? 0)) return curves;
  const first = curves.at.findIndex((time) => time >= at - KEPT_S);
  const from = first === -1 ? curves.at.length : first;
  const series = {} as Curves["series"];
  for (const name of NAMES) series[name] = [...curves.series[name].slice(from), sample[name]];
  return { at: [...curves.at.slice(from), at], series };
}
