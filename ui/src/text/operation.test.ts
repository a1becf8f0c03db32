import { expect, test } from "vitest";
import type { OperationOut, RecordOut } from "@/api/schema";
import { bar, called, detail, fault, phrase, stateWord, subject, targetWord, verb } from "@/text/operation";

const operation = (more: Partial<OperationOut>): OperationOut =>
  ({
    kind: "backend_install",
    state: "running",
    name: "hello",
    message: "",
    nodes: [],
    ...more,
  }) as OperationOut;
const node = (name: string, state: string, status = state) => ({
  node_id: name,
  node_name: name,
  state,
  status,
});

test("the verb tells what is done, what failed and what was done", () => {
  expect(verb(operation({}))).toBe("Installing");
  expect(verb(operation({ state: "failed", kind: "backend_delete" }))).toBe("Failed removal");
  expect(verb(operation({ state: "queued" }))).toBe("Queued install");
  expect(verb(operation({ state: "completed", kind: "model_stage" }))).toBe("Staged");
  expect(verb(operation({ state: "completed", kind: "backend_delete" }))).toBe("Removed");
  expect(verb(operation({ kind: "model_dance" }))).toBe("model_dance");
});

test("an operation of one node says which", () => {
  expect(subject(operation({ nodeName: "gpu-a" }))).toBe("hello on gpu-a");
  expect(subject(operation({ nodeName: "gpu-a", kind: "model_stage" }))).toBe("hello to gpu-a");
  expect(called(operation({ nodeName: "gpu-a" }))).toBe("install of hello on gpu-a");
});

test("the detail is the error, then the nodes, then where to, then the phase, then that it waits", () => {
  const nodes = [node("a", "success"), node("b", "working"), node("c", "queued")] as OperationOut["nodes"];
  expect(detail(operation({ state: "failed", error: "No disk.", nodes }))).toBe("No disk.");
  expect(detail(operation({ nodes, phase: "downloading" }))).toBe("1 of 3 nodes done");
  expect(detail(operation({ kind: "model_stage", nodeName: "a", phase: "staging" }))).toBe("to node a");
  expect(detail(operation({ phase: "making_room" }))).toBe("making room");
  expect(detail(operation({ state: "queued" }))).toBe("waiting for installer");
});

test("pills tell the states of a node apart, and unknown ones are shown as they are", () => {
  const pill = (state: string, status: string, phase: string | null = null) =>
    targetWord({ state, status, phase }).text;
  expect(pill("queued", "queued")).toBe("queued");
  expect(pill("working", "downloading", "downloading")).toBe("downloading");
  expect(pill("working", "downloading", "checking")).toBe("checking");
  expect(pill("unconfirmed", "running_on_worker")).toBe("worker busy");
  expect(pill("success", "success")).toBe("done");
  expect(pill("error", "error")).toBe("failed");
  expect(pill("dancing", "dancing")).toBe("dancing");
  expect(stateWord("dancing")).toEqual({ text: "dancing", tone: "still" });
});

test("the record says how it ended, and how long it took only if that makes sense", () => {
  const record = (more: Partial<RecordOut>): RecordOut =>
    ({
      kind: "backend_install",
      outcome: "completed",
      message: "",
      startedAt: "2026-01-01T00:00:00Z",
      finishedAt: "2026-01-01T00:01:12Z",
      ...more,
    }) as RecordOut;
  expect(phrase(record({}))).toBe("installed in 1 min 12 s");
  expect(phrase(record({ kind: "backend_delete" }))).toBe("removed");
  expect(phrase(record({ outcome: "cancelled" }))).toBe("cancelled");
  expect(phrase(record({ outcome: "superseded", message: "Model chat was edited." }))).toBe(
    "superseded: Model chat was edited.",
  );
  expect(phrase(record({ outcome: "failed", error: "No disk." }))).toBe("failed: No disk.");
  expect(phrase(record({ finishedAt: "2026-01-03T00:00:00Z" }))).toBe("installed");
  expect(phrase(record({ finishedAt: "2025-12-31T00:00:00Z" }))).toBe("installed");
});

test("what several nodes failed with alike is said once", () => {
  const failed = (name: string, error: string) => ({ ...node(name, "error"), error });
  const nodes = [failed("a", "No disk."), failed("b", "No disk."), failed("c", "Gone.")];
  expect(fault({ error: "a: No disk.; b: No disk.; c: Gone.", nodes: nodes as OperationOut["nodes"] })).toBe(
    "a and b: No disk. c: Gone.",
  );
  expect(fault({ error: "Nobody can.", nodes: [] })).toBe("Nobody can.");
  expect(fault({ error: null, nodes: [] })).toBeNull();
});

test("only what moves has a bar", () => {
  expect(bar(operation({ progress: 30 }))).toBe(30);
  expect(bar(operation({ progress: 0 }))).toBeNull();
  const waits = [node("a", "queued")] as OperationOut["nodes"];
  expect(bar(operation({ progress: 0, nodes: waits }))).toBeUndefined();
  for (const state of ["queued", "failed", "completed", "paused"]) {
    expect(bar(operation({ state, progress: 30 })), state).toBeUndefined();
  }
});
