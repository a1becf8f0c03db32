// Converts the rows of the API to the columns of the chart and the rows of the table.
import type { UsageRowOut, UsageSumsOut } from "@/api/schema";
import type { MEASURES } from "@/pages/usage/search";
import type { UsageGrouping } from "@/pages/usage/usageQuery";

export type Measure = (typeof MEASURES)[number];

export interface UsageGroup {
  /** The id of the group in the URL. */
  id: string;
  name: string;
  detail: string;
  sums: UsageSumsOut;
}

export function getMeasure(sums: UsageSumsOut, measure: Measure): number {
  return measure === "tokens" ? sums.prompt_tokens + sums.completion_tokens : sums[measure];
}

const FALLBACK_NAMES: Record<UsageGrouping, string> = {
  key: "no key",
  model: "no model",
  user: "no owner",
  call: "other endpoints",
  node: "no node",
};

function getRowId(row: UsageRowOut, by: UsageGrouping): string {
  return (by === "key" ? row.key_id : row[by]) ?? "";
}

function makeName(row: UsageRowOut, by: UsageGrouping): string {
  if (by === "key") return row.key || row.key_id || FALLBACK_NAMES.key;
  return row[by] || FALLBACK_NAMES[by];
}

/** The groups, largest first. */
export function groupRows(rows: UsageRowOut[], by: UsageGrouping, measure: Measure): UsageGroup[] {
  return rows
    .map((row) => ({
      id: getRowId(row, by),
      name: makeName(row, by),
      detail: by === "key" ? (row.user ?? "") : "",
      sums: row,
    }))
    .sort(
      (one, other) =>
        getMeasure(other.sums, measure) - getMeasure(one.sums, measure) || one.name.localeCompare(other.name),
    );
}

export interface ChartLayer {
  id: string;
  name: string;
  values: number[];
}

const LAYERS_MAX = 4;
export const REST = "\u0000rest";

/** The parts of a stack: the largest groups, and the sum of the rest. */
export function makeLayers(
  rows: UsageRowOut[],
  groups: UsageGroup[],
  steps: number[],
  by: UsageGrouping,
  measure: Measure,
): ChartLayer[] {
  const places = new Map(steps.map((step, place) => [step, place]));
  const named = groups.length > LAYERS_MAX + 1 ? groups.slice(0, LAYERS_MAX) : groups;
  const layers = new Map<string, ChartLayer>(
    named.map((group) => [group.id, { id: group.id, name: group.name, values: steps.map(() => 0) }]),
  );
  const rest: ChartLayer = {
    id: REST,
    name: `${groups.length - named.length} others`,
    values: steps.map(() => 0),
  };
  const known = new Set(groups.map((group) => group.id));
  for (const row of rows) {
    const place = row.at ? places.get(Date.parse(row.at)) : undefined;
    const id = getRowId(row, by);
    if (place === undefined || !known.has(id)) continue;
    const { values } = layers.get(id) ?? rest;
    values[place] = (values[place] ?? 0) + getMeasure(row, measure);
  }
  return [...layers.values(), ...(named.length < groups.length ? [rest] : [])];
}

/** The highest column, rounded up to a number that is easy to read. */
export function findTop(layers: ChartLayer[], steps: number): number {
  let highest = 0;
  for (let place = 0; place < steps; place += 1) {
    highest = Math.max(
      highest,
      layers.reduce((sum, layer) => sum + (layer.values[place] ?? 0), 0),
    );
  }
  if (highest <= 4) return Math.max(1, highest);
  const size = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 2.5, 5, 10].map((part) => part * size).find((round) => round >= highest) ?? highest;
}

export function sumGroups(groups: UsageGroup[]): UsageSumsOut {
  const total: UsageSumsOut = {
    requests: 0,
    errors: 0,
    prompt_tokens: 0,
    cached_tokens: 0,
    completion_tokens: 0,
    estimated_tokens: 0,
  };
  for (const { sums } of groups) {
    for (const name of Object.keys(total) as (keyof UsageSumsOut)[]) total[name] += sums[name];
  }
  return total;
}
