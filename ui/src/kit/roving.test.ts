import { expect, test } from "vitest";
import { along } from "@/kit/roving";

test("arrows go on at the other end", () => {
  expect(along(0, "ArrowRight", 3, "across")).toBe(1);
  expect(along(2, "ArrowRight", 3, "across")).toBe(0);
  expect(along(0, "ArrowUp", 3, "down")).toBe(2);
  expect(along(1, "Home", 3, "down")).toBe(0);
  expect(along(1, "End", 3, "down")).toBe(2);
});

test("without a focus the first or the last gets it", () => {
  expect(along(-1, "ArrowDown", 3, "down")).toBe(0);
  expect(along(-1, "ArrowUp", 3, "down")).toBe(2);
});

test("arrows of the other way, other keys and an empty line move nothing", () => {
  expect(along(0, "ArrowDown", 3, "across")).toBeNull();
  expect(along(0, "Enter", 3, "across")).toBeNull();
  expect(along(0, "ArrowRight", 0, "across")).toBeNull();
});
