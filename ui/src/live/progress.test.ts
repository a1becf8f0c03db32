import { expect, test } from "vitest";
import type { OperationOut } from "@/api/schema";
import { applyProgress, hasUnknownTargets } from "@/live/progress";

const operation = {
  id: "1",
  rev: 4,
  progress: 10,
  message: "",
  nodes: [
    { node_id: "a", node_name: "a", state: "working", status: "downloading", percentage: 10, version: "2" },
    { node_id: "b", node_name: "b", state: "queued", status: "queued", percentage: 0 },
  ],
} as unknown as OperationOut;

test("progress moves its node only and keeps what it does not speak of", () => {
  const after = applyProgress(operation, { rev: 4, progress: 30, nodes: [{ node_id: "a", percentage: 60 }] });
  expect(after.progress).toBe(30);
  expect(after.nodes?.[0]).toMatchObject({ percentage: 60, version: "2" });
  expect(after.nodes?.[1]).toBe(operation.nodes?.[1]);
});

test("an older revision changes nothing", () => {
  expect(applyProgress(operation, { rev: 3, progress: 90 })).toBe(operation);
});

test("nodes that were chosen after the operation was read are noticed", () => {
  expect(hasUnknownTargets(operation, { nodes: [{ node_id: "a" }, { node_id: "c" }] })).toBe(true);
  expect(hasUnknownTargets(operation, { nodes: [{ node_id: "a" }] })).toBe(false);
  expect(hasUnknownTargets({ ...operation, nodes: [] }, { progress: 3 })).toBe(false);
});

test("late progress does not reopen a finished target or operation", () => {
  const done = { ...operation, nodes: [{ node_id: "a", state: "success", percentage: 100 }] } as OperationOut;
  const late = { rev: 4, nodes: [{ node_id: "a", state: "working", percentage: 50 }] };
  expect(applyProgress(done, late).nodes?.[0]).toMatchObject({ state: "success", percentage: 100 });
  expect(applyProgress(done, { ...late, rev: 5 }).nodes?.[0]).toMatchObject({ state: "working" });
  const ended = { ...operation, state: "completed" } as OperationOut;
  expect(applyProgress(ended, late)).toBe(ended);
});
