import { expect, test } from "vitest";
import type { OperationOut } from "@/api/schema";
import {
  conditionWord,
  describeRunPlaces,
  describeSlotExcess,
  describeThreads,
  filterByNode,
  labelRows,
} from "@/pages/nodes/one/words";

test("draining is the one condition that is fine when it does not hold", () => {
  expect(conditionWord({ name: "alive", holds: false })).toEqual({ text: "Unreachable", tone: "bad" });
  expect(conditionWord({ name: "draining", holds: false }).tone).toBe("still");
  expect(conditionWord({ name: "draining", holds: true }).tone).toBe("warn");
  expect(conditionWord({ name: "on_bus", holds: null }).tone).toBe("still");
});

test("slots below what is loaded name the models", () => {
  const replicas = ["m", "m", "n"].map((model_name) => ({ model_name, state: "loaded" }));
  expect(describeSlotExcess(replicas, 1)).toEqual(["m"]);
  expect(describeSlotExcess(replicas, 2)).toEqual([]);
  expect(describeSlotExcess([...replicas, { model_name: "n", state: "failed" }], 1)).toEqual(["m"]);
});

test("operations are found by the node's id, as their only node or one of many", () => {
  const operations = [
    { id: "1", nodeID: "a" },
    { id: "2", nodes: [{ node_id: "b" }, { node_id: "a" }] },
    { id: "3", nodes: [{ node_id: "b", node_name: "a" }] },
  ] as unknown as OperationOut[];
  expect(filterByNode(operations, "a").map((one) => one.id)).toEqual(["1", "2"]);
});

test("labels that can be taken away come first", () => {
  const rows = labelRows({
    node_type: "backend",
    labels: { "node.name": "gpu-a", zone: "b" },
    label_sources: { "node.name": "auto", zone: "admin" },
  });
  expect(rows.map((row) => [row.key, row.isOurs])).toEqual([
    ["zone", true],
    ["node.name", false],
  ]);
});

test("used threads are shown with the total if the node has reported one", () => {
  expect(describeThreads({ held_threads: 3, cpu_threads: 8 })).toBe("3 of 8 in use");
  expect(describeThreads({ held_threads: 0, cpu_threads: null })).toBe("0 in use");
});

test("a node says how many runs it takes, and how many it has where the caller sees them all", () => {
  expect(describeRunPlaces({ max_runs: 4 }, 2)).toBe("2 of 4 runs active.");
  expect(describeRunPlaces({ max_runs: 1 }, null)).toBe("Takes up to 1 run at the same time.");
  expect(describeRunPlaces({ max_runs: 0 }, 0)).toMatch(/^This node takes no runs/);
});

test("labels about engines are left out for agent nodes", () => {
  const labels = { "node.name": "a", "node.replica-slots": "1", "gpu.vram": "24-32g" };
  const node = { labels, label_sources: {} };
  expect(labelRows({ ...node, node_type: "agent" }).map((row) => row.key)).toEqual(["node.name"]);
  expect(labelRows({ ...node, node_type: "backend" })).toHaveLength(3);
});
