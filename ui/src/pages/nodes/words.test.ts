import { expect, test } from "vitest";
import type { NodeOut } from "@/api/schema";
import {
  computeUsed,
  describeAdvice,
  describeHardware,
  describeLoss,
  describeReason,
} from "@/pages/nodes/words";

const bare = {
  node_type: "backend",
  model_count: 0,
  in_flight_count: 0,
  label_sources: { "node.name": "auto" },
  vram_budget_manually_set: false,
  max_replicas_per_model_manually_set: false,
};

test("equal GPUs are counted, and hardware that was not reported is left out", () => {
  const gpu = { name: "RTX 4090", vendor: "nvidia" };
  const node = { gpus: [gpu, gpu], cpu_cores: 1, total_ram: null, architecture: "x86_64" };
  expect(describeHardware(node as unknown as NodeOut)).toBe("2 × RTX 4090, 1 core, x86_64");
});

test("a value that was not reported is shown as unknown, not as zero", () => {
  expect(computeUsed(null, 3)).toBeNull();
  expect(computeUsed(8, 9)).toBe(0);
});

test("a removal names what is lost, and only that", () => {
  expect(describeLoss(bare)).toBe("This also deletes its pending changes.");
  const full = {
    ...bare,
    model_count: 2,
    in_flight_count: 1,
    label_sources: { zone: "admin" },
    vram_budget_manually_set: true,
  };
  expect(describeLoss(full)).toBe(
    "This also deletes 2 replicas, 1 label, its VRAM budget, and its pending changes. 1 request is in flight.",
  );
});

test("a removed agent node loses its runs, and has no pending changes", () => {
  const agent = { ...bare, node_type: "agent" };
  expect(describeLoss(agent)).toBe("Its runs begin again on another node, or are lost.");
  expect(describeLoss({ ...agent, label_sources: { zone: "admin" } })).toBe(
    "This also deletes 1 label. Its runs begin again on another node, or are lost.",
  );
});

test("a node that is offline comes with what to do", () => {
  expect(describeAdvice({ status: "offline", status_reason: "No heartbeat within its lease" })).toMatch(
    /^Check that/,
  );
  expect(describeAdvice({ status: "offline", status_reason: "Its worker has stopped" })).toMatch(
    /^Start the worker/,
  );
  expect(describeAdvice({ status: "healthy", status_reason: "" })).toBe("");
});

test("a pending node shows its labels and the address it was seen at", () => {
  const node = {
    status: "pending",
    status_reason: "Waits for approval: corral nodes approve a",
    proposed_labels: { trust: "high" },
    address_note: "It registered the address 10.0.0.9, and its registration came from 10.0.0.7.",
  };
  expect(describeReason(node)).toContain("trust=high");
  expect(describeReason(node)).toContain("10.0.0.9");
  expect(describeReason({ ...node, status: "joining", status_reason: "Approved" })).toBe("Approved");
});
