import { expect, test } from "vitest";
import { type BackendFleet, buildMatrix, type MatrixCellData } from "@/pages/backends/fleet";
import { countCells, filterMatrix } from "@/pages/backends/matrixFilter";
import {
  assignment,
  backend,
  entry,
  fleet,
  installation,
  node,
  operation,
  target,
  upgrade,
} from "@/pages/backends/sample";
import { cellSentence } from "@/pages/backends/words";

function cell(given: BackendFleet, name: string, on: string): MatrixCellData {
  const found = buildMatrix(given)
    .rows.find((row) => row.name === name)
    ?.cells.find((one) => one.nodeName === on);
  if (!found) throw new Error("There is no such cell.");
  return found;
}

test("builds of one family share a row, and nodes stand in order", () => {
  const matrix = buildMatrix(
    fleet({
      installed: [
        backend("cpu-llama", [installation("a", "1")], { meta: "llama" }),
        backend("cuda-llama", [installation("b", "1")]),
      ],
      entries: [entry("cuda-llama", { metaBackendFor: "llama" }), entry("llama", { isMeta: true })],
    }),
  );
  expect(matrix.columns.map((one) => one.name)).toEqual(["a", "b"]);
  expect(matrix.rows.map((row) => row.name)).toEqual(["llama"]);
  expect(matrix.rows[0]?.cells.map((one) => one.build)).toEqual(["cpu-llama", "cuda-llama"]);
});

test("an operation on one node marks only that node", () => {
  const given = fleet({
    installed: [backend("fake", [installation("a", "1")])],
    operations: [operation("fake", [target("b", "working", { percentage: 40, phase: "downloading" })])],
  });
  expect(cell(given, "fake", "b")).toMatchObject({ state: "busy", percent: 40, phase: "downloading" });
  expect(cell(given, "fake", "a").state).toBe("installed");
});

test("an operation about something else marks nothing, also if its nodes are the same", () => {
  const given = fleet({
    installed: [backend("fake", [installation("a", "1")])],
    operations: [
      operation("fake", [target("a", "working")], { isBackend: false, kind: "model_load" }),
      operation("piper", [target("a", "working")]),
    ],
  });
  expect(cell(given, "fake", "a").state).toBe("installed");
  expect(cell(given, "piper", "a").state).toBe("busy");
});

test("a failure is shown with its error until the node has got something newer", () => {
  const failed = operation("fake", [target("a", "error", { error: "Wrong digest." })], { state: "failed" });
  const before = fleet({ installed: [backend("fake", [installation("a", "1")])], operations: [failed] });
  expect(cell(before, "fake", "a")).toMatchObject({ state: "failed", error: "Wrong digest.", percent: null });
  const later = installation("a", "2", { installed_at: "2026-01-03T00:00:00Z" });
  const after = fleet({ installed: [backend("fake", [later])], operations: [failed] });
  expect(cell(after, "fake", "a").state).toBe("installed");
});

test("nodes that a failed operation did not begin with, or was done with, are as they were", () => {
  const given = fleet({
    installed: [backend("fake", [installation("a", "1")])],
    entries: [entry("fake")],
    operations: [operation("fake", [target("a", "success"), target("b", "skipped")], { state: "failed" })],
  });
  expect(cell(given, "fake", "a").state).toBe("installed");
  expect(cell(given, "fake", "b").state).toBe("missing");
});

test("the newest of two operations speaks for a node", () => {
  const old = operation("fake", [target("a", "error", { error: "Old." })], { id: "1", state: "failed" });
  const now = operation("fake", [target("a", "working")], { id: "2", createdAt: "2026-01-05T00:00:00Z" });
  for (const operations of [
    [old, now],
    [now, old],
  ])
    expect(cell(fleet({ operations }), "fake", "a")).toMatchObject({ state: "busy", operationId: "2" });
});

test("a pending assignment is shown, and a dead one is a failure", () => {
  const given = fleet({
    assignments: [
      assignment("a", "fake"),
      assignment("b", "fake", { state: "dead", error: "Disk is full." }),
    ],
  });
  expect(cell(given, "fake", "a")).toMatchObject({
    state: "pending",
    targetVersion: "2.0",
    assignedBackend: "fake",
  });
  expect(cell(given, "fake", "b")).toMatchObject({ state: "failed", isDead: true, error: "Disk is full." });
});

test("each cell has the rank of its version, its drift and its upgrade", () => {
  const given = fleet({
    installed: [
      backend("fake", [installation("a", "1.1"), installation("b", "1.0", { drifts: true })], {
        version: "1.1",
      }),
    ],
    upgrades: { fake: upgrade("fake", "2.0") },
  });
  expect(cell(given, "fake", "a")).toMatchObject({ shade: 1, drifts: false, upgrade: "2.0" });
  expect(cell(given, "fake", "b")).toMatchObject({ shade: 2, drifts: true, usual: "1.1" });
  expect(buildMatrix(given).rows[0]).toMatchObject({
    versions: ["1.1", "1.0"],
    available: "2.0",
    drifting: 1,
  });
});

test("a node whose hardware has no build is not missing it", () => {
  const given = fleet({
    nodes: [node("a"), node("b", { capability: "nvidia-cuda-13" })],
    installed: [backend("cuda13-vllm", [installation("b", "1")], { meta: "vllm" })],
    entries: [entry("vllm", { isMeta: true, capabilities: { "nvidia-cuda-13": "cuda13-vllm" } })],
  });
  expect(cell(given, "vllm", "a").state).toBe("unfit");
});

test("a backend that is in no gallery is missing on no node, because it cannot be installed by name", () => {
  const given = fleet({ installed: [backend("own", [installation("a", "1")])] });
  expect(cell(given, "own", "b")).toMatchObject({
    state: "unfit",
    reason: expect.stringContaining("Not in any gallery"),
  });
});

test("a cell that is retried after a failure says so", () => {
  const again = target("a", "queued", { error: "The source does not respond." });
  const given = fleet({ operations: [operation("fake", [again])] });
  expect(cellSentence(cell(given, "fake", "a"), "fake")).toContain(
    "retrying after: The source does not respond.",
  );
});

test("agents and nodes that wait for approval have no column", () => {
  const given = fleet({
    nodes: [node("a"), node("x", { node_type: "agent" }), node("y", { status: "pending" })],
  });
  expect(buildMatrix(given).columns.map((one) => one.name)).toEqual(["a"]);
});

test("a filter keeps the rows and columns in which something of its kind is", () => {
  const matrix = buildMatrix(
    fleet({
      installed: [
        backend("fake", [installation("a", "1"), installation("b", "0", { drifts: true })]),
        backend("piper", [installation("a", "1")]),
      ],
      entries: [entry("fake"), entry("piper")],
    }),
  );
  expect(countCells(matrix)).toMatchObject({ drift: 1, missing: 1, failed: 0 });
  const drift = filterMatrix(matrix, "drift", "");
  expect([drift.rows.map((row) => row.name), drift.columns.map((one) => one.name)]).toEqual([
    ["fake"],
    ["b"],
  ]);
  expect(drift.rows[0]?.cells.map((one) => one.nodeName)).toEqual(["b"]);
});

test("words find backends, or nodes if no backend is called so", () => {
  const matrix = buildMatrix(
    fleet({
      nodes: [node("gpu-1"), node("cpu-1")],
      installed: [backend("fake", [installation("gpu-1", "1")])],
    }),
  );
  expect(filterMatrix(matrix, undefined, "FAK").columns).toHaveLength(2);
  expect(filterMatrix(matrix, undefined, "gpu").columns.map((one) => one.name)).toEqual(["gpu-1"]);
});

test("every colour of a cell has a sentence too", () => {
  const given = fleet({
    installed: [backend("fake", [installation("a", "1.0", { drifts: true })], { version: "1.1" })],
    upgrades: { fake: upgrade("fake", "2.0") },
  });
  expect(cellSentence(cell(given, "fake", "a"), "fake")).toBe(
    "fake on a, version 1.0, drifts from 1.1, upgrade to 2.0",
  );
});
