import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { KINDS, madeOld, madeOldByEnd } from "@/live/changes";

test("the page knows every kind that the registry writes", () => {
  const page = readFileSync("../docs/reference/events.md", "utf8");
  const written = [...page.matchAll(/^\| `([a-z]+\.[a-z_]+)` \|/gm)].map((match) => match[1]);
  expect([...KINDS]).toEqual(written);
});

test("every kind but those of sessions makes something old", () => {
  for (const kind of KINDS) expect(madeOld(kind).length > 0 || kind.startsWith("session."), kind).toBe(true);
});

test("an operation that ended makes old what it was about, one that goes on does not", () => {
  expect(madeOldByEnd("operation.changed", "completed")).toContain("backends");
  expect(madeOldByEnd("operation.changed", "failed")).toContain("models");
  expect(madeOldByEnd("operation.changed", "running")).toEqual([]);
});
