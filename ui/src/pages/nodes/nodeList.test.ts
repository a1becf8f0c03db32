import { expect, test } from "vitest";
import type { LiveOut, NodeOut, OperationOut } from "@/api/schema";
import {
  filterNodes,
  isSameChips,
  operationByNode,
  replicasByNode,
  sumInFlight,
} from "@/pages/nodes/nodeList";

const node = (name: string, status: string, more: Partial<NodeOut> = {}) =>
  ({ id: name, name, status, address: "", labels: {}, ...more }) as NodeOut;

test("nodes that wait for an admin come first, then those with a problem", () => {
  const nodes = [node("b", "healthy"), node("a", "healthy"), node("z", "pending"), node("y", "offline")];
  expect(filterNodes(nodes, "", undefined).map((one) => one.name)).toEqual(["z", "y", "a", "b"]);
});

test("every word of a search must be found, also in labels", () => {
  const nodes = [node("gpu-a", "healthy", { labels: { zone: "b" } }), node("gpu-b", "healthy")];
  expect(filterNodes(nodes, "gpu zone=b", undefined).map((one) => one.name)).toEqual(["gpu-a"]);
  expect(filterNodes(nodes, "", "offline")).toEqual([]);
});

test("agent nodes and backend nodes are shown apart", () => {
  const nodes = [
    node("a", "healthy", { node_type: "agent" }),
    node("b", "healthy", { node_type: "backend" }),
  ];
  expect(filterNodes(nodes, "", undefined, "agent").map((one) => one.name)).toEqual(["a"]);
  expect(filterNodes(nodes, "", undefined, "backend").map((one) => one.name)).toEqual(["b"]);
});

test("replicas are found by the name of their node", () => {
  const live = {
    models: [{ name: "m", replicas: [{ id: "1", node: "a", state: "loaded" }] }],
  } as unknown as LiveOut;
  expect(replicasByNode(live).get("a")?.[0]?.model).toBe("m");
  expect(replicasByNode(undefined).size).toBe(0);
});

test("an operation marks the nodes that it has something to do on, and no other", () => {
  const operation = (id: string, ...targets: [string, string][]) =>
    ({ id, nodes: targets.map(([node_id, state]) => ({ node_id, state })) }) as unknown as OperationOut;
  const found = operationByNode([
    operation("running", ["a", "working"], ["b", "success"]),
    operation("failed", ["a", "error"], ["c", "error"]),
  ]);
  expect([...found].map(([node, operation]) => [node, operation.id]).sort()).toEqual([
    ["a", "running"],
    ["c", "failed"],
  ]);
});

test("the same replicas are no change", () => {
  const chip = { id: "1", model: "m", index: 0, state: "loaded", inFlight: 0 };
  expect(isSameChips([chip], [{ ...chip }])).toBe(true);
  expect(isSameChips([chip], [{ ...chip, state: "unloading" }])).toBe(false);
  expect(isSameChips([chip], [{ ...chip, inFlight: 1 }])).toBe(false);
  expect(isSameChips([chip], [])).toBe(false);
  expect(sumInFlight([chip, { ...chip, inFlight: 2 }])).toBe(2);
});
