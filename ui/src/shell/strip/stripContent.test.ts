import { expect, test } from "vitest";
import type { OperationOut } from "@/api/schema";
import { findJustEnded, isCompleted, pickStripContent } from "@/shell/strip/stripContent";

const operation = (id: string, state: string, progress = 0, more: Partial<OperationOut> = {}): OperationOut =>
  ({ id, state, progress, updatedAt: "2026-01-01T00:00:00Z", ...more }) as OperationOut;
const NONE = new Set<string>();

test("a failure never replaces a running operation, and is counted beside it, the newest first", () => {
  const all = [
    operation("a", "running", 5),
    operation("b", "failed", 0, { finishedAt: "2026-01-01T00:00:01Z" }),
    operation("c", "failed", 0, { finishedAt: "2026-01-01T00:00:02Z" }),
  ];
  const { shown, more, failed } = pickStripContent(all, NONE);
  expect(shown?.id).toBe("a");
  expect(more).toBe(0);
  expect(failed.map(({ id }) => id)).toEqual(["c", "b"]);
});

test("the strip shows the least advanced running operation, and then the queue", () => {
  const all = [operation("a", "running", 60), operation("b", "running", 20), operation("c", "queued")];
  expect(pickStripContent(all, NONE).shown?.id).toBe("b");
  expect(pickStripContent([operation("c", "queued")], NONE)).toMatchObject({ shown: { id: "c" }, more: 0 });
});

test("two operations with similar progress do not alternate in the strip", () => {
  const all = [operation("a", "running", 24), operation("b", "running", 20)];
  expect(pickStripContent(all, NONE, "a").shown?.id).toBe("a");
  const apart = [operation("a", "running", 40), operation("b", "running", 20)];
  expect(pickStripContent(apart, NONE, "a").shown?.id).toBe("b");
});

test("a hidden operation is not shown, still counts, and is listed when it fails", () => {
  const hidden = new Set(["a"]);
  expect(pickStripContent([operation("a", "running")], hidden)).toEqual({ shown: null, more: 1, failed: [] });
  expect(pickStripContent([operation("a", "running"), operation("b", "running")], hidden)).toMatchObject({
    shown: { id: "b" },
    more: 1,
  });
  expect(pickStripContent([operation("a", "failed")], hidden).failed.map(({ id }) => id)).toEqual(["a"]);
});

test("the strip shows neither paused operations nor changes pending on absent nodes", () => {
  const all = [operation("a", "paused"), operation("b", "completed_with_pending", 50)];
  expect(pickStripContent(all, NONE)).toEqual({ shown: null, more: 0, failed: [] });
});

test("the last operation that ended stays shown only if nothing else is active", () => {
  const before = operation("a", "running", 90);
  expect(findJustEnded(before, [], NONE)).toBe("a");
  expect(findJustEnded(before, [operation("a", "completed", 100)], NONE)).toBe("a");
  expect(findJustEnded(before, [operation("b", "running")], NONE)).toBeNull();
  expect(findJustEnded(before, [operation("a", "running", 95)], NONE)).toBeNull();
  expect(findJustEnded(before, [operation("a", "paused", 95)], NONE)).toBeNull();
  expect(findJustEnded(before, [], new Set(["a"]))).toBeNull();
  expect(findJustEnded(null, [], NONE)).toBeNull();
});

test("isCompleted is false for cancelled, superseded and failed operations", () => {
  expect(["completed", "cancelled", "superseded", "failed"].map(isCompleted)).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
