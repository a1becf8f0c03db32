// Ticks of charts. Bytes have ticks at powers of two, so that the labels are round in binary units; times have labels
// that differ from each other, however short the span is.
import { dayOf, minuteOfDay, timeOfDay } from "@/text/format";

const MINUTE_S = 60;
const DAY_S = 86_400;
/** A chart of a few seconds is drawn as the end of this span: two points next to each other are no curve yet. */
const SPAN_MIN_S = 60;

/** Distances between two ticks of an axis of bytes: powers of two, from one byte to a pebibyte. */
export const BYTE_INCREMENTS: number[] = Array.from({ length: 51 }, (_, power) => 2 ** power);

/** Distances between two ticks of an axis of time, in seconds. None is below a second, because labels have no parts of one. */
export const TIME_INCREMENTS: number[] = [
  ...[1, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_S),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3600),
  ...[1, 2, 7, 14, 30].map((days) => days * DAY_S),
];

/** The label of each tick, with as much of the time as distinguishes it from the others. */
export function timeLabels(ticks: readonly number[], increment: number): string[] {
  const span = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    const at = tick * 1000;
    if (increment >= DAY_S) return dayOf(at);
    if (increment < MINUTE_S) return timeOfDay(at);
    return span >= DAY_S ? `${dayOf(at)} ${minuteOfDay(at)}` : minuteOfDay(at);
  });
}

/** The range of the time axis: all values, or the last minute if there is less. */
export function timeRange(low: number | null, high: number | null): [number, number] {
  const end = high ?? Date.now() / 1000;
  return [Math.min(low ?? end, end - SPAN_MIN_S), end];
}

/** The range of the value axis. It begins at zero and leaves room above; an axis of bytes ends at a GiB at least. */
export function valueRange(low: number | null, high: number | null, isBytes: boolean): [number, number] {
  const least = isBytes ? 2 ** 30 : 1;
  return [Math.min(0, low ?? 0), high ? high * 1.1 : least];
}

/** The index of the last time at which some line has a value; -1 if none has. */
export function lastKnown(lines: readonly ArrayLike<number | null | undefined>[]): number {
  const length = Math.max(0, ...lines.map((line) => line.length));
  for (let place = length - 1; place >= 0; place -= 1) {
    if (lines.some((line) => line[place] != null)) return place;
  }
  return -1;
}
