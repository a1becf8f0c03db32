import { expect, test } from "vitest";
import type { NodeOut } from "@/api/schema";
import { adviceOf, hardwareOf, lossOf, reasonOf, usedOf } from "@/pages/nodes/words";

const bare = {
  model_count: 0,
  in_flight_count: 0,
  label_sources: { "node.name": "auto" },
  vram_budget_manually_set: false,
  max_replicas_per_model_manually_set: false,
};

test("equal GPUs are counted, and what was not told is left out", () => {
  const gpu = { name: "RTX 4090", vendor: "nvidia" };
  const node = { gpus: [gpu, gpu], cpu_cores: 1, total_ram: null, architecture: "x86_64" };
  expect(hardwareOf(node as unknown as NodeOut)).toBe("2 × RTX 4090, 1 core, x86_64");
});

test("what nobody has told is not nothing", () => {
  expect(usedOf(null, 3)).toBeNull();
  expect(usedOf(8, 9)).toBe(0);
});

test("a removal names what is lost, and only that", () => {
  expect(lossOf(bare)).toBe("It is forgotten, and with it what it still owes.");
  const full = {
    ...bare,
    model_count: 2,
    in_flight_count: 1,
    label_sources: { zone: "admin" },
    vram_budget_manually_set: true,
  };
  expect(lossOf(full)).toBe(
    "It is forgotten, and with it 2 replicas, 1 label, its VRAM budget, and what it still owes. It is answering 1 request now.",
  );
});

test("a node that is offline comes with what to do", () => {
  expect(adviceOf({ status: "offline", status_reason: "No heartbeat within its lease" })).toMatch(
    /^Check that/,
  );
  expect(adviceOf({ status: "offline", status_reason: "Its worker has stopped" })).toMatch(
    /^Start its worker/,
  );
  expect(adviceOf({ status: "healthy", status_reason: "" })).toBe("");
});

test("a pending node tells which labels it brings and where it was seen", () => {
  const node = {
    status: "pending",
    status_reason: "Waits for approval: corral nodes approve a",
    proposed_labels: { trust: "high" },
    address_note: "It registered the address 10.0.0.9, and its registration came from 10.0.0.7.",
  };
  expect(reasonOf(node)).toContain("trust=high");
  expect(reasonOf(node)).toContain("10.0.0.9");
  expect(reasonOf({ ...node, status: "joining", status_reason: "Approved" })).toBe("Approved");
});
