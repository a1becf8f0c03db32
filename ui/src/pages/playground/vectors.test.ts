import { expect, test } from "vitest";
import { cosine, textsOf } from "@/pages/playground/vectors";

test("the same direction is 1, a right angle 0, the opposite -1", () => {
  expect(cosine([1, 0], [3, 0])).toBe(1);
  expect(cosine([1, 0], [0, 2])).toBe(0);
  expect(cosine([1, 0], [-1, 0])).toBe(-1);
  expect(cosine([0, 0], [1, 1])).toBe(0);
});

test("one text a line", () => {
  expect(textsOf(" a \n\nb\n")).toEqual(["a", "b"]);
});
