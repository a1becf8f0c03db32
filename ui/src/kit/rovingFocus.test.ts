import { expect, test } from "vitest";
import { computeNextFocusIndex } from "@/kit/rovingFocus";

test("arrows go on at the other end", () => {
  expect(computeNextFocusIndex(0, "ArrowRight", 3, "across")).toBe(1);
  expect(computeNextFocusIndex(2, "ArrowRight", 3, "across")).toBe(0);
  expect(computeNextFocusIndex(0, "ArrowUp", 3, "down")).toBe(2);
  expect(computeNextFocusIndex(1, "Home", 3, "down")).toBe(0);
  expect(computeNextFocusIndex(1, "End", 3, "down")).toBe(2);
});

test("without a focus the first or the last gets it", () => {
  expect(computeNextFocusIndex(-1, "ArrowDown", 3, "down")).toBe(0);
  expect(computeNextFocusIndex(-1, "ArrowUp", 3, "down")).toBe(2);
});

test("arrows of the other way, other keys and an empty line move nothing", () => {
  expect(computeNextFocusIndex(0, "ArrowDown", 3, "across")).toBeNull();
  expect(computeNextFocusIndex(0, "Enter", 3, "across")).toBeNull();
  expect(computeNextFocusIndex(0, "ArrowRight", 0, "across")).toBeNull();
});
