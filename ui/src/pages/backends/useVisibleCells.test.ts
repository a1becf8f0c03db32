import { expect, test } from "vitest";
import { listRangeItems } from "@/pages/backends/useVisibleCells";

const drawn = (...places: number[]) =>
  places.map((index) => ({ index, start: 60 + index * 10, end: 70 + index * 10 }));

test("rows that are not drawn keep their room before, between and after the drawn ones", () => {
  expect(listRangeItems(drawn(2, 3, 7), 60, 100)).toEqual([
    { from: 0, room: 20 },
    { place: 2 },
    { place: 3 },
    { from: 4, room: 30 },
    { place: 7 },
    { from: 8, room: 20 },
  ]);
});

test("a list that is drawn as a whole has no empty room", () => {
  expect(listRangeItems(drawn(0, 1), 60, 20)).toEqual([{ place: 0 }, { place: 1 }]);
  expect(listRangeItems([], 60, 0)).toEqual([]);
});
