import { expect, test } from "vitest";
import type { AssignmentOut, OperationOut, TargetOut } from "@/api/schema";
import { listOperationOffers } from "@/pages/operations/offers";
import {
  buildSections,
  describeOperations,
  describeTries,
  findFamily,
  groupTitledWaves,
  listOtherPendingChanges,
  matchesFilter,
  toHistoryQuery,
} from "@/pages/operations/sections";

const operation = (more: Partial<OperationOut>): OperationOut =>
  ({
    id: "1",
    kind: "backend_install",
    state: "running",
    name: "hello",
    fullName: "hello",
    message: "",
    createdBy: "admin",
    createdAt: "2026-01-01T00:00:00Z",
    cancellable: true,
    nodes: [{ node_id: "n1", node_name: "gpu-a" }],
    ...more,
  }) as OperationOut;

test("loads and staging are the cluster's, installs those of models and backends", () => {
  expect(
    ["model_install", "model_delete", "model_load", "model_stage", "backend_upgrade"].map(findFamily),
  ).toEqual(["models", "models", "cluster", "cluster", "backends"]);
});

test("a filter looks at kind, outcome, text and any node of the operation", () => {
  expect(matchesFilter(operation({}), {} as never)).toBe(true);
  const filter = { kind: undefined, outcome: undefined, q: undefined, node: undefined };
  expect(matchesFilter(operation({}), { ...filter, kind: "models" })).toBe(false);
  expect(matchesFilter(operation({}), { ...filter, node: "gpu-a" })).toBe(true);
  expect(matchesFilter(operation({}), { ...filter, node: "gpu-b" })).toBe(false);
  expect(matchesFilter(operation({}), { ...filter, q: " GPU-A" })).toBe(true);
  expect(matchesFilter(operation({}), { ...filter, outcome: "failed" })).toBe(false);
  expect(matchesFilter(operation({ state: "failed" }), { ...filter, outcome: "failed" })).toBe(true);
  const failed = operation({ state: "failed", finishedAt: new Date(2026, 0, 2, 23, 30).toISOString() });
  expect(matchesFilter(failed, { ...filter, since: "2026-01-02", until: "2026-01-02" })).toBe(true);
  expect(matchesFilter(failed, { ...filter, since: "2026-01-03" })).toBe(false);
  expect(matchesFilter(failed, { ...filter, until: "2026-01-01" })).toBe(false);
});

test("the frontend filters the record by everything that the page can filter by", () => {
  expect(toHistoryQuery({})).toEqual({});
  expect(
    toHistoryQuery({
      kind: "cluster",
      outcome: "failed",
      q: " nope ",
      node: "gpu-a",
      since: "2026-01-31",
      until: "2026-01-31",
    }),
  ).toEqual({
    kind: "loads",
    outcome: "failed",
    search: "nope",
    node: "gpu-a",
    since: new Date(2026, 0, 31).toISOString(),
    until: new Date(2026, 1, 1).toISOString(),
  });
});

test("a failure is never under way, what runs comes before what waits, and what has ended is gone", () => {
  const { active, failed } = buildSections([
    operation({ id: "pending", state: "completed_with_pending" }),
    operation({ id: "queued", state: "queued" }),
    operation({ id: "failed", state: "failed" }),
    operation({ id: "running" }),
    operation({ id: "done", state: "completed" }),
  ]);
  expect(active.map(({ id }) => id)).toEqual(["running", "queued", "pending"]);
  expect(failed.map(({ id }) => id)).toEqual(["failed"]);
});

test("the counts say one and many, and nothing instead of zero", () => {
  expect(describeOperations([], 0)).toBe("No active operations.");
  expect(describeOperations([operation({})], 0)).toBe("1 in progress.");
  expect(describeOperations([operation({}), operation({ state: "failed" })], 0)).toBe(
    "1 in progress, 1 needs attention.",
  );
  expect(describeOperations([operation({ state: "failed" })], 1)).toBe("2 need attention.");
});

test("a pending change is listed if it is dead, has failed before, or belongs to no operation on screen", () => {
  const assignment = (more: Partial<AssignmentOut>): AssignmentOut =>
    ({
      node_id: "n1",
      backend: "hello",
      state: "open",
      attempts: 0,
      operation_id: "1",
      ...more,
    }) as AssignmentOut;
  const all = [
    assignment({}),
    assignment({ backend: "far", attempts: 2 }),
    assignment({ backend: "gone", state: "dead", attempts: 10 }),
    assignment({ backend: "pending", operation_id: "2" }),
  ];
  const { dead, open } = listOtherPendingChanges(all, [
    operation({}),
    operation({ id: "2", state: "completed_with_pending" }),
  ]);
  expect(dead.map(({ backend }) => backend)).toEqual(["gone"]);
  expect(open.map(({ backend }) => backend)).toEqual(["far", "pending"]);
});

test("waves have titles if there are several", () => {
  const target = (wave: number, state: string): TargetOut =>
    ({ wave, state, node_id: `${wave}` }) as TargetOut;
  expect(groupTitledWaves([target(0, "working")])[0]?.title).toBeNull();
  expect(
    groupTitledWaves([
      target(1, "error"),
      target(0, "success"),
      target(2, "skipped"),
      target(3, "queued"),
    ]).map(({ title }) => title),
  ).toEqual([
    "Wave 1 of 4: completed",
    "Wave 2 of 4: failed on 1 node",
    "Wave 3 of 4: skipped",
    "Wave 4 of 4: queued",
  ]);
});

test("a wave of a cancelled operation is not completed, and one that was never sent is skipped", () => {
  const target = (wave: number, state: string, begun: boolean): TargetOut =>
    ({ wave, state, begun, node_id: `${wave}` }) as TargetOut;
  const all = [target(0, "success", true), target(1, "cancelled", true), target(2, "cancelled", false)];
  expect(groupTitledWaves(all).map(({ title }) => title)).toEqual([
    "Wave 1 of 3: completed",
    "Wave 2 of 3: cancelled",
    "Wave 3 of 3: skipped",
  ]);
});

test("what can be done depends on how it stands", () => {
  const acts = (more: Partial<OperationOut> & { dismissedAt?: string }) =>
    listOperationOffers({ ...operation({}), ...more }).map((offer) => offer.action);
  expect(acts({})).toEqual(["pause", "cancel"]);
  expect(acts({ cancellable: false })).toEqual([]);
  expect(acts({ state: "paused" })).toEqual(["resume", "cancel"]);
  expect(acts({ state: "failed" })).toEqual(["retry", "dismiss"]);
  expect(acts({ state: "failed", dismissedAt: "2026-01-01T00:00:00Z" })).toEqual(["retry"]);
  expect(acts({ state: "completed_with_pending" })).toEqual(["cancel"]);
  expect(acts({ state: "completed" })).toEqual([]);
});

test("a try that begins or ends is noticed, and bytes that come are not", () => {
  const at = (state: string, current: number) =>
    describeTries([operation({ nodes: [{ node_id: "n1", state, current } as TargetOut] })]);
  expect(at("working", 1)).toBe(at("working", 2));
  expect(at("working", 1)).not.toBe(at("queued", 1));
});
