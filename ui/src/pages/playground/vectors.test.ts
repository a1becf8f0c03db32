import { expect, test } from "vitest";
import { computeCosineSimilarity, parseTexts } from "@/pages/playground/vectors";

test("the same direction is 1, a right angle 0, the opposite -1", () => {
  expect(computeCosineSimilarity([1, 0], [3, 0])).toBe(1);
  expect(computeCosineSimilarity([1, 0], [0, 2])).toBe(0);
  expect(computeCosineSimilarity([1, 0], [-1, 0])).toBe(-1);
  expect(computeCosineSimilarity([0, 0], [1, 1])).toBe(0);
});

test("one text a line", () => {
  expect(parseTexts(" a \n\nb\n")).toEqual(["a", "b"]);
});
