import { expect, test } from "vitest";
import {
  BYTE_INCREMENTS,
  lastKnown,
  TIME_INCREMENTS,
  timeLabels,
  timeRange,
  valueRange,
} from "@/kit/chart/axes";
import { bytes } from "@/text/format";

/** Chooses as uPlot does: the smallest distance that leaves room for the labels. */
function ticksOf(low: number, high: number, increments: readonly number[], most: number): [number[], number] {
  const increment = increments.find((one) => (high - low) / one <= most) ?? 0;
  const first = Math.ceil(low / increment) * increment;
  const ticks = Array.from({ length: Math.floor((high - first) / increment) + 1 }, (_, place) => {
    return first + place * increment;
  });
  return [ticks, increment];
}

test("ticks of bytes are round in binary units, and there is more than zero", () => {
  for (const total of [24, 48, 93, 502]) {
    const [low, high] = valueRange(0, total * 2 ** 30, true);
    const [ticks] = ticksOf(low, high, BYTE_INCREMENTS, 2.4);
    expect(ticks.length).toBeGreaterThan(1);
    for (const tick of ticks) expect(bytes(tick)).toMatch(/^\d+ (B|GiB)$/);
  }
});

test("an axis of bytes without a value has a top", () => {
  expect(valueRange(null, null, true)).toEqual([0, 2 ** 30]);
  expect(valueRange(0, 0, false)).toEqual([0, 1]);
});

test("no two moments of an axis have the same label, from seconds to weeks", () => {
  const end = Date.parse("2026-11-16T10:00:30Z") / 1000;
  for (const span of [3, 20, 70, 240, 1800, 7200, 100_000, 7 * 86_400, 40 * 86_400]) {
    const [low, high] = timeRange(end - span, end);
    const [ticks, increment] = ticksOf(low, high, TIME_INCREMENTS, 5);
    const labels = timeLabels(ticks, increment);
    expect(labels.length, `${span} s`).toBeGreaterThan(1);
    expect(new Set(labels).size, `${span} s: ${labels.join(" ")}`).toBe(labels.length);
  }
});

test("the last known moment is before a gap at the end", () => {
  expect(lastKnown([[1, 2, null, null]])).toBe(1);
  expect(
    lastKnown([
      [1, null],
      [null, 3],
    ]),
  ).toBe(1);
  expect(lastKnown([[null, null]])).toBe(-1);
  expect(lastKnown([])).toBe(-1);
});
