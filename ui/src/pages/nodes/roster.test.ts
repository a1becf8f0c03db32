import { expect, test } from "vitest";
import type { LiveOut, NodeOut } from "@/api/schema";
import { pulseOf, replicasByNode, shownNodes } from "@/pages/nodes/roster";
import { hardwareOf, usedOf } from "@/pages/nodes/words";

const node = (name: string, status: string, more: Partial<NodeOut> = {}) =>
  ({ id: name, name, status, address: "", labels: {}, ...more }) as NodeOut;

test("nodes that wait for somebody come first, then those with a problem", () => {
  const nodes = [node("b", "healthy"), node("a", "healthy"), node("z", "pending"), node("y", "offline")];
  expect(shownNodes(nodes, "", undefined).map((one) => one.name)).toEqual(["z", "y", "a", "b"]);
});

test("every word of a search must be found, also in labels", () => {
  const nodes = [node("gpu-a", "healthy", { labels: { zone: "b" } }), node("gpu-b", "healthy")];
  expect(shownNodes(nodes, "gpu zone=b", undefined).map((one) => one.name)).toEqual(["gpu-a"]);
  expect(shownNodes(nodes, "", "offline")).toEqual([]);
});

test("memory that is not known is not used", () => {
  expect(usedOf(10, null)).toBeNull();
  expect(usedOf(10, 4)).toBe(6);
  expect(
    pulseOf([node("a", "healthy", { total_vram: 10, available_vram: 4 }), node("b", "pending")]),
  ).toEqual({
    nodes: 2,
    byStatus: { healthy: 1, pending: 1 },
    vramUsed: 6,
    vramTotal: 10,
  });
});

test("replicas are found by the name of their node", () => {
  const live = {
    models: [{ name: "m", replicas: [{ id: "1", node: "a", state: "loaded" }] }],
  } as unknown as LiveOut;
  expect(replicasByNode(live).get("a")?.[0]?.model).toBe("m");
  expect(replicasByNode(undefined).size).toBe(0);
});

test("a machine in a few words leaves out what it has not told", () => {
  const gpus = [
    { vendor: "nvidia", name: "RTX 4090" },
    { vendor: "nvidia", name: "RTX 4090" },
  ];
  expect(hardwareOf(node("a", "healthy", { gpus: gpus as NodeOut["gpus"], cpu_cores: 16 }))).toBe(
    "2 × RTX 4090, 16 cores",
  );
  expect(hardwareOf(node("a", "healthy"))).toBe("");
});
