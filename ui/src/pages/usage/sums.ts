// From the rows of the API to what is drawn and listed.
import type { SumsOut, UsageRowOut } from "@/api/schema";
import type { By } from "@/pages/usage/question";
import type { MEASURES } from "@/pages/usage/search";

export type Measure = (typeof MEASURES)[number];

export interface Group {
  /** What the address calls it. */
  id: string;
  name: string;
  detail: string;
  sums: SumsOut;
}

export function measured(sums: SumsOut, measure: Measure): number {
  return measure === "tokens" ? sums.prompt_tokens + sums.completion_tokens : sums[measure];
}

const NAMELESS: Record<By, string> = {
  key: "without a key",
  model: "no model",
  user: "nobody's keys",
  call: "other calls",
  node: "no node",
};

export function idOf(row: UsageRowOut, by: By): string {
  return (by === "key" ? row.key_id : row[by]) ?? "";
}

function nameOf(row: UsageRowOut, by: By): string {
  if (by === "key") return row.key || row.key_id || NAMELESS.key;
  return row[by] || NAMELESS[by];
}

/** The groups with most of what is measured first. */
export function groupsOf(rows: UsageRowOut[], by: By, measure: Measure): Group[] {
  return rows
    .map((row) => ({
      id: idOf(row, by),
      name: nameOf(row, by),
      detail: by === "key" ? (row.user ?? "") : "",
      sums: row,
    }))
    .sort(
      (one, other) =>
        measured(other.sums, measure) - measured(one.sums, measure) || one.name.localeCompare(other.name),
    );
}

export interface Layer {
  id: string;
  name: string;
  values: number[];
}

const LAYERS_MAX = 4;
export const REST = "\u0000rest";

/** What is stacked: the biggest groups by themselves, the rest together. */
export function layersOf(
  rows: UsageRowOut[],
  groups: Group[],
  steps: number[],
  by: By,
  measure: Measure,
): Layer[] {
  const places = new Map(steps.map((step, place) => [step, place]));
  const named = groups.length > LAYERS_MAX + 1 ? groups.slice(0, LAYERS_MAX) : groups;
  const layers = new Map<string, Layer>(
    named.map((group) => [group.id, { id: group.id, name: group.name, values: steps.map(() => 0) }]),
  );
  const rest: Layer = {
    id: REST,
    name: `${groups.length - named.length} others`,
    values: steps.map(() => 0),
  };
  const known = new Set(groups.map((group) => group.id));
  for (const row of rows) {
    const place = row.at ? places.get(Date.parse(row.at)) : undefined;
    const id = idOf(row, by);
    if (place === undefined || !known.has(id)) continue;
    const { values } = layers.get(id) ?? rest;
    values[place] = (values[place] ?? 0) + measured(row, measure);
  }
  return [...layers.values(), ...(named.length < groups.length ? [rest] : [])];
}

/** The highest column, rounded up to a number that is easy to read. */
export function topOf(layers: Layer[], steps: number): number {
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

export function sumOf(groups: Group[]): SumsOut {
  const total: SumsOut = {
    requests: 0,
    errors: 0,
    prompt_tokens: 0,
    cached_tokens: 0,
    completion_tokens: 0,
    estimated_tokens: 0,
  };
  for (const { sums } of groups) {
    for (const name of Object.keys(total) as (keyof SumsOut)[]) total[name] += sums[name];
  }
  return total;
}
