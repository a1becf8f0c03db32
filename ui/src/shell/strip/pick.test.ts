import { expect, test } from "vitest";
import type { OperationOut } from "@/api/schema";
import { isCelebrated, justEnded, pick } from "@/shell/strip/pick";

const operation = (id: string, state: string, progress = 0, more: Partial<OperationOut> = {}): OperationOut =>
  ({ id, state, progress, updatedAt: "2026-01-01T00:00:00Z", ...more }) as OperationOut;
const NONE = new Set<string>();

test("a failure never covers what runs, and is counted beside it, the newest first", () => {
  const all = [
    operation("a", "running", 5),
    operation("b", "failed", 0, { finishedAt: "2026-01-01T00:00:01Z" }),
    operation("c", "failed", 0, { finishedAt: "2026-01-01T00:00:02Z" }),
  ];
  const { shown, more, failed } = pick(all, NONE);
  expect(shown?.id).toBe("a");
  expect(more).toBe(0);
  expect(failed.map(({ id }) => id)).toEqual(["c", "b"]);
});

test("it is the least advanced of those that run, and then the queue", () => {
  const all = [operation("a", "running", 60), operation("b", "running", 20), operation("c", "queued")];
  expect(pick(all, NONE).shown?.id).toBe("b");
  expect(pick([operation("c", "queued")], NONE)).toMatchObject({ shown: { id: "c" }, more: 0 });
});

test("two that are about as far do not take turns", () => {
  const all = [operation("a", "running", 24), operation("b", "running", 20)];
  expect(pick(all, NONE, "a").shown?.id).toBe("a");
  const apart = [operation("a", "running", 40), operation("b", "running", 20)];
  expect(pick(apart, NONE, "a").shown?.id).toBe("b");
});

test("a hidden one stays away, still counts, and is among the failures when it fails", () => {
  const hidden = new Set(["a"]);
  expect(pick([operation("a", "running")], hidden)).toEqual({ shown: null, more: 1, failed: [] });
  expect(pick([operation("a", "running"), operation("b", "running")], hidden)).toMatchObject({
    shown: { id: "b" },
    more: 1,
  });
  expect(pick([operation("a", "failed")], hidden).failed.map(({ id }) => id)).toEqual(["a"]);
});

test("what is paused or owed to absent nodes is not in the strip", () => {
  const all = [operation("a", "paused"), operation("b", "completed_with_pending", 50)];
  expect(pick(all, NONE)).toEqual({ shown: null, more: 0, failed: [] });
});

test("the last one that ended is held, and only if nothing else is there", () => {
  const before = operation("a", "running", 90);
  expect(justEnded(before, [], NONE)).toBe("a");
  expect(justEnded(before, [operation("a", "completed", 100)], NONE)).toBe("a");
  expect(justEnded(before, [operation("b", "running")], NONE)).toBeNull();
  expect(justEnded(before, [operation("a", "running", 95)], NONE)).toBeNull();
  expect(justEnded(before, [operation("a", "paused", 95)], NONE)).toBeNull();
  expect(justEnded(before, [], new Set(["a"]))).toBeNull();
  expect(justEnded(null, [], NONE)).toBeNull();
});

test("nothing that was cancelled, superseded or has failed is celebrated", () => {
  expect(["completed", "cancelled", "superseded", "failed"].map(isCelebrated)).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
