import { expect, test } from "vitest";
import { drawnOf, inSight, reaching } from "@/kit/inSight";

test("at the beginning the first are drawn, and some more", () => {
  expect(inSight(0, 1000, 100, 200)).toEqual({ from: 0, to: 16 });
});

test("in the middle there are some on both sides, and every one that is seen", () => {
  for (let start = 0; start <= 19_000; start += 37) {
    const { from, to } = inSight(start, 1000, 100, 200);
    expect(from * 100).toBeLessThanOrEqual(start);
    expect(to * 100).toBeGreaterThanOrEqual(start + 1000);
    expect(to - from).toBeLessThanOrEqual(26);
  }
});

test("a little scrolling draws nothing anew", () => {
  expect(inSight(5010, 1000, 100, 200)).toEqual(inSight(5090, 1000, 100, 200));
});

test("nothing beyond the end, also when there were more a moment ago", () => {
  expect(inSight(19_000, 1000, 100, 200).to).toBe(200);
  expect(inSight(19_000, 1000, 100, 3)).toEqual({ from: 2, to: 3 });
  expect(inSight(0, 1000, 100, 0)).toEqual({ from: 0, to: 0 });
});

test("it is scrolled no farther than to see the whole of it", () => {
  expect(reaching(3, 0, 1000, 100)).toBe(0);
  expect(reaching(10, 0, 1000, 100)).toBe(100);
  expect(reaching(3, 500, 1000, 100)).toBe(300);
});

test("what is not drawn keeps its room, and what has the focus is drawn wherever it is", () => {
  expect(drawnOf({ from: 2, to: 4 }, 10, -1)).toEqual([
    { from: 0, skipped: 2 },
    { place: 2 },
    { place: 3 },
    { from: 4, skipped: 6 },
  ]);
  expect(drawnOf({ from: 2, to: 4 }, 10, 3)).toEqual(drawnOf({ from: 2, to: 4 }, 10, -1));
  expect(drawnOf({ from: 1, to: 3 }, 3, 0)).toEqual([{ place: 0 }, { place: 1 }, { place: 2 }]);
  for (const also of [-1, 0, 57, 199, 200]) {
    const all = drawnOf({ from: 40, to: 60 }, 200, also);
    expect(all.reduce((sum, one) => sum + ("skipped" in one ? one.skipped : 1), 0)).toBe(200);
  }
});
