import { expect, test } from "vitest";
import { findPairFault, makePairs, nextId, readPairs } from "@/kit/pairs";

test("rows become an object again, without those that are empty", () => {
  const pairs = makePairs({ Accept: "text/plain", "X-Herd": "12" });
  expect(readPairs([...pairs, { id: nextId(pairs), name: " ", value: "" }])).toEqual({
    Accept: "text/plain",
    "X-Herd": "12",
  });
  expect(makePairs(undefined)).toEqual([]);
});

test("a row without a name and a name that stands there twice are faults", () => {
  expect(findPairFault([{ id: 0, name: "", value: "" }], "header")).toBeNull();
  expect(findPairFault([{ id: 0, name: "", value: "x" }], "header")).toBe("A header needs a name.");
  expect(
    findPairFault(
      [
        { id: 0, name: "A", value: "x" },
        { id: 1, name: "A ", value: "y" },
      ],
      "header",
    ),
  ).toBe("A stands there twice. Remove one.");
});
