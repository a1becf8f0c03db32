import { expect, test } from "vitest";
import type { NodeOut, OperationOut } from "@/api/schema";
import { first, MODEL } from "@/pages/overview/first";

const node = (more: Partial<NodeOut>): NodeOut =>
  ({
    name: "a",
    node_type: "backend",
    status: "healthy",
    schedulable: true,
    status_reason: "",
    ...more,
  }) as NodeOut;
const operation = (kind: string, state: string, name = MODEL): OperationOut =>
  ({ id: kind, kind, state, name }) as OperationOut;

test("without nodes one joins, a waiting one is let in, one that is away is named", () => {
  expect(first([], [], [])).toEqual({ step: "join" });
  expect(first([node({ status: "pending", schedulable: false })], [], [])).toEqual({ step: "approve" });
  expect(
    first([node({ status: "offline", schedulable: false, status_reason: "Not heard." })], [], []),
  ).toEqual({ step: "wait", reason: "a: Not heard." });
});

test("with a node a small model is one click away, and what comes of it is shown", () => {
  expect(first([node({})], [], [])).toEqual({ step: "try" });
  const both = [operation("model_load", "queued"), operation("model_install", "running")];
  expect(first([node({})], [MODEL], both)).toMatchObject({
    step: "working",
    operation: { id: "model_install" },
  });
});

test("whoever has models is left alone", () => {
  expect(first([node({})], [MODEL], [])).toBeNull();
  expect(first([node({})], ["other", MODEL], [operation("model_load", "running")])).toBeNull();
});
