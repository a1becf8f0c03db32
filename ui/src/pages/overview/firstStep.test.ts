import { expect, test } from "vitest";
import type { NodeOut, OperationOut } from "@/api/schema";
import { FIRST_MODEL, findFirstStep } from "@/pages/overview/firstStep";

const node = (more: Partial<NodeOut>): NodeOut =>
  ({
    name: "a",
    node_type: "backend",
    status: "healthy",
    schedulable: true,
    status_reason: "",
    ...more,
  }) as NodeOut;
const operation = (kind: string, state: string, name = FIRST_MODEL): OperationOut =>
  ({ id: kind, kind, state, name }) as OperationOut;

test("without nodes one joins, a pending one is approved, an unreachable one is named", () => {
  expect(findFirstStep([], [], [])).toEqual({ step: "join" });
  expect(findFirstStep([node({ status: "pending", schedulable: false })], [], [])).toEqual({
    step: "approve",
  });
  expect(
    findFirstStep([node({ status: "offline", schedulable: false, status_reason: "No heartbeat." })], [], []),
  ).toEqual({ step: "wait", reason: "a: No heartbeat." });
});

test("with a node a small model is one click away, and what comes of it is shown", () => {
  expect(findFirstStep([node({})], [], [])).toEqual({ step: "try" });
  const both = [operation("model_load", "queued"), operation("model_install", "running")];
  expect(findFirstStep([node({})], [FIRST_MODEL], both)).toMatchObject({
    step: "working",
    operation: { id: "model_install" },
  });
});

test("no first step is shown to a cluster that has models", () => {
  expect(findFirstStep([node({})], [FIRST_MODEL], [])).toBeNull();
  expect(findFirstStep([node({})], ["other", FIRST_MODEL], [operation("model_load", "running")])).toBeNull();
});
