import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { EVENT_KINDS, listStaleTopics, listStaleTopicsAfterEnd } from "@/live/staleTopics";

test("the page knows every kind that the registry writes", () => {
  const page = readFileSync("../docs/reference/events.md", "utf8");
  const written = [...page.matchAll(/^\| `([a-z]+\.[a-z_]+)` \|/gm)].map((match) => match[1]);
  expect([...EVENT_KINDS]).toEqual(written);
});

test("every kind but those of sessions makes something old", () => {
  for (const kind of EVENT_KINDS)
    expect(listStaleTopics(kind).length > 0 || kind.startsWith("session."), kind).toBe(true);
});

test("an operation that ended makes old what it was about, one that goes on does not", () => {
  expect(listStaleTopicsAfterEnd("operation.changed", "completed")).toContain("backends");
  expect(listStaleTopicsAfterEnd("operation.changed", "failed")).toContain("models");
  expect(listStaleTopicsAfterEnd("operation.changed", "running")).toEqual([]);
});
