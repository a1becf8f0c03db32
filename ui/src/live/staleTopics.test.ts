import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { EVENT_KINDS, listStaleTopics, listStaleTopicsAfterEnd } from "@/live/staleTopics";

test("the page knows every kind that the registry writes", () => {
  const page = readFileSync("../docs/reference/events.md", "utf8");
  const written = [...page.matchAll(/^\| `([a-z_]+\.[a-z_]+)` \|/gm)].map((match) => match[1]);
  expect([...EVENT_KINDS]).toEqual(written);
});

test("every kind but those of sessions and agents, which no page shows yet, makes something old", () => {
  for (const kind of EVENT_KINDS)
    expect(listStaleTopics(kind).length > 0 || /^(session|agent)\./.test(kind), kind).toBe(true);
});

test("an operation that ended makes old what it was about, one that goes on does not", () => {
  expect(listStaleTopicsAfterEnd("operation.changed", "completed")).toContain("backends");
  expect(listStaleTopicsAfterEnd("operation.changed", "failed")).toContain("models");
  expect(listStaleTopicsAfterEnd("operation.changed", "running")).toEqual([]);
});

test("a run is in no list of operations, so its events make runs old and nothing else", () => {
  expect(listStaleTopics("operation.created", "run_task")).toEqual(["runs"]);
  expect(listStaleTopics("operation.changed", "run_agent_turn")).toEqual(["runs"]);
  expect(listStaleTopicsAfterEnd("operation.changed", "completed", "run_task")).toEqual([]);
  expect(listStaleTopics("operation.changed", "model_load")).toContain("operations");
});
