import { expect, test } from "vitest";
import type { NodeOut } from "@/api/schema";
import { appendNodeSample, cutCurves, makeNodeSample, toCurves } from "@/pages/nodes/one/nodeCurves";

const node = {
  total_ram: 10,
  available_ram: 4,
  available_disk: 7,
  in_flight_count: 2,
  model_count: 1,
} as NodeOut;

test("a reading goes behind what was there, and what is too old goes", () => {
  const past = toCurves({ step_s: 5, at: [100, 2000], series: { ram_used: [1, 2] } });
  const now = appendNodeSample(past, 2005, makeNodeSample(node, 2, true));
  expect(now.at).toEqual([2000, 2005]);
  expect(now.series.ram_used).toEqual([2, 6]);
  expect(now.series.vram_used).toEqual([null, null]);
});

test("a node that is away leaves a gap", () => {
  const now = appendNodeSample(toCurves(undefined), 5, makeNodeSample(node, 2, false));
  expect(now.series.in_flight).toEqual([null]);
});

test("time does not go back", () => {
  const past = toCurves({ step_s: 5, at: [10], series: {} });
  expect(appendNodeSample(past, 9, makeNodeSample(node, 2, true))).toBe(past);
});

test("the curves of a node that is away end with its last heartbeat", () => {
  const past = toCurves({ step_s: 5, at: [100, 105, 110, 115], series: { ram_used: [1, 2, 2, 2] } });
  expect(cutCurves(past, 101).series.ram_used).toEqual([1, 2, null, null]);
  expect(cutCurves(past, null)).toBe(past);
});
