import { expect, test } from "vitest";
import type { NodeOut } from "@/api/schema";
import { describeCapacity, statusWords, summariseFleet } from "@/pages/nodes/fleetSummary";
import { computeFleetNumbers } from "@/pages/overview/fleetNumbers";

const node = (name: string, more: Partial<NodeOut> = {}) =>
  ({ id: name, name, status: "healthy", node_type: "backend", conditions: [], ...more }) as NodeOut;
const away = [{ name: "alive", holds: false, since: null, reason: "" }];
const mixed = [
  node("a", { total_vram: 24, reported_available_vram: 20, reserved_vram: 2, cpu_threads: 8 }),
  node("b", { total_vram: 48, reported_available_vram: 4, status: "offline" }),
  node("c", { total_ram: 64, available_ram: 60, status: "draining" }),
  node("d", { status: "pending" }),
  node("e", { total_vram: 80, reported_available_vram: 0, status: "draining", conditions: away }),
  node("f", { node_type: "agent", total_ram: 16, available_ram: 8 }),
];

test("every node is counted once, by its status", () => {
  const fleet = summariseFleet(mixed);
  expect([fleet.all, fleet.agents]).toEqual([6, 1]);
  expect(statusWords(fleet)).toEqual(["2 healthy", "1 pending approval", "2 draining", "1 offline"]);
});

test("memory is summed over backend nodes with a current heartbeat", () => {
  const fleet = summariseFleet(mixed);
  expect(fleet).toMatchObject({
    total: 2,
    vram: { used: 4, total: 24, reserved: 2 },
    ram: { used: 4, total: 64 },
    threads: 8,
  });
  expect(describeCapacity(fleet)).toBe("on 2 reachable nodes");
  expect(summariseFleet([]).vram).toEqual({ used: null, total: null, reserved: 0 });
});

test("the overview counts what the page of nodes counts", () => {
  expect(computeFleetNumbers(mixed, undefined).nodes).toEqual(summariseFleet(mixed));
});
