import { expect, test } from "vitest";
import type { EndedOperationOut, OperationOut } from "@/api/schema";
import {
  computeProgress,
  describeDetail,
  describeFault,
  describeVerb,
  nameForActions,
  phrase,
  stateWord,
  subject,
  targetWord,
} from "@/text/operation";

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

test("describeVerb names what runs, what failed and what is done", () => {
  expect(describeVerb(operation({}))).toBe("Installing");
  expect(describeVerb(operation({ state: "failed", kind: "backend_delete" }))).toBe("Failed removal");
  expect(describeVerb(operation({ state: "queued" }))).toBe("Queued install");
  expect(describeVerb(operation({ state: "completed", kind: "model_stage" }))).toBe("Staged");
  expect(describeVerb(operation({ state: "completed", kind: "backend_delete" }))).toBe("Removed");
  expect(describeVerb(operation({ kind: "model_dance" }))).toBe("model_dance");
});

test("an operation of one node says which", () => {
  expect(subject(operation({ nodeName: "gpu-a" }))).toBe("hello on gpu-a");
  expect(subject(operation({ nodeName: "gpu-a", kind: "model_stage" }))).toBe("hello to gpu-a");
  expect(nameForActions(operation({ nodeName: "gpu-a" }))).toBe("install of hello on gpu-a");
});

test("the detail is the error, then the nodes, then where to, then the phase, then that it waits", () => {
  const nodes = [node("a", "success"), node("b", "working"), node("c", "queued")] as OperationOut["nodes"];
  expect(describeDetail(operation({ state: "failed", error: "No disk.", nodes }))).toBe("No disk.");
  expect(describeDetail(operation({ nodes, phase: "downloading" }))).toBe("1 of 3 nodes completed");
  expect(describeDetail(operation({ kind: "model_stage", nodeName: "a", phase: "staging" }))).toBe(
    "to node a",
  );
  expect(describeDetail(operation({ phase: "making_room" }))).toBe("making room");
  expect(describeDetail(operation({ state: "queued" }))).toBe("queued");
});

test("each target state has its own word and colour, and an unknown state is shown as it is", () => {
  const pill = (state: string, phase: string | null = null) => targetWord({ state, phase }).text;
  expect(pill("queued")).toBe("queued");
  expect(pill("working", "downloading")).toBe("downloading");
  expect(pill("working", "making_room")).toBe("making room");
  expect(pill("unconfirmed")).toBe("unreachable");
  expect(pill("success")).toBe("completed");
  expect(pill("error")).toBe("failed");
  expect(pill("lost_in_space")).toBe("lost in space");
  expect(targetWord({ state: "queued", error: "No disk." }).text).toBe("retrying");
  expect(targetWord({ state: "success", is_rollback: true }).text).toBe("rolled back");
  expect(targetWord({ state: "cancelled", begun: false }).text).toBe("skipped");
  expect(targetWord({ state: "cancelled", begun: true }).text).toBe("cancelled");
  expect(stateWord("dancing")).toEqual({ text: "dancing", tone: "still" });
});

test("the history says how it ended, and how long it took only if that makes sense", () => {
  const record = (more: Partial<EndedOperationOut>): EndedOperationOut =>
    ({
      kind: "backend_install",
      outcome: "completed",
      message: "",
      startedAt: "2026-01-01T00:00:00Z",
      finishedAt: "2026-01-01T00:01:12Z",
      ...more,
    }) as EndedOperationOut;
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

test("an error that several nodes share is shown once", () => {
  const failed = (name: string, error: string) => ({ ...node(name, "error"), error });
  const nodes = [failed("a", "No disk."), failed("b", "No disk."), failed("c", "Gone.")];
  expect(
    describeFault({ error: "a: No disk.; b: No disk.; c: Gone.", nodes: nodes as OperationOut["nodes"] }),
  ).toBe("a and b: No disk. c: Gone.");
  expect(describeFault({ error: "No node can.", nodes: [] })).toBe("No node can.");
  expect(describeFault({ error: null, nodes: [] })).toBeNull();
});

test("only what moves has a bar", () => {
  expect(computeProgress(operation({ progress: 30 }))).toBe(30);
  expect(computeProgress(operation({ progress: 0 }))).toBeNull();
  const waits = [node("a", "queued")] as OperationOut["nodes"];
  expect(computeProgress(operation({ progress: 0, nodes: waits }))).toBeUndefined();
  for (const state of ["queued", "failed", "completed", "paused"]) {
    expect(computeProgress(operation({ state, progress: 30 })), state).toBeUndefined();
  }
});
