import { expect, test } from "vitest";
import type { LoadPlanOut } from "@/api/schema";
import { choiceSentences, describePlan, otherNodes } from "@/pages/models/plan";

const plan = {
  fetches_files: false,
  choices: [
    {
      node_id: "1",
      node_name: "mini",
      ready_s: 25.3,
      vram_bytes: 0,
      ram_bytes: 2 ** 30,
      fetch_bytes: 2 ** 20,
      backend: "cpu-llama-cpp",
      version: "7",
      installs_backend: true,
    },
  ],
  evicts: [{ model: "old", node_id: "1", index: 0 }],
  others: [
    { node_id: "1", node_name: "mini", cost_s: 25 },
    { node_id: "2", node_name: "vm", cost_s: 25 },
    { node_id: "3", node_name: "far", cost_s: 85 },
  ],
} as unknown as LoadPlanOut;

test("a node that is ready within a second is ready at once", () => {
  const soon = { choices: [{ node_name: "mini", ready_s: 0.0004 }] } as unknown as LoadPlanOut;
  expect(choiceSentences(soon)[0]).toContain("mini: Ready immediately");
});

test("it says how long, how much and what has to go", () => {
  expect(choiceSentences(plan)).toEqual([
    "mini: Ready in about 25 s; takes 1 GiB of memory; installs cpu-llama-cpp 7 first; copies 1 MiB to the node.",
    "To make room, old on mini would be unloaded.",
  ]);
});

test("the reason for a refusal is shown beside its node only", () => {
  const refused = [{ node_id: "1", node_name: "mini", reason: "ram", sentence: "mini is full." }];
  const message = "chat fits on no node. mini is full.";
  expect(describePlan({ ...plan, fits: false, refused, message })).toBe("chat fits on no node.");
  expect(describePlan({ ...plan, fits: false, refused: [], message })).toBe(message);
});

test("others are compared with the chosen one, which is not among them", () => {
  expect(otherNodes(plan).map((one) => [one.node_name, one.sentence])).toEqual([
    ["vm", "equally good."],
    ["far", "about 1 min slower."],
  ]);
});
