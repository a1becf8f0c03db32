import { expect, test } from "vitest";
import type { NodeOut } from "@/api/schema";
import { listNodeOffers } from "@/pages/nodes/offers";

function node(status: string, facts: Record<string, string | boolean>): NodeOut {
  const conditions = Object.entries(facts).map(([name, fact]) => ({
    name,
    holds: fact !== false,
    reason: typeof fact === "string" ? fact : "",
  }));
  return { name: "gpu-a", status, conditions } as unknown as NodeOut;
}
const ids = (of: NodeOut) => listNodeOffers(of).map((offer) => offer.id);

test("a pending node offers approval first and nothing that needs the bus", () => {
  expect(ids(node("pending", { alive: true, approved: false }))).toEqual(["approve", "drain", "remove"]);
});

test("what an admin has drained is resumed; what drains itself is not", () => {
  const conditions = { alive: true, approved: true };
  expect(ids(node("draining", { ...conditions, draining: "Drained by admin" }))[0]).toBe("resume");
  expect(ids(node("draining", { ...conditions, draining: "Its worker is shutting down" }))[0]).toBe("drain");
});

test("an unreachable node offers nothing that needs an answer", () => {
  expect(ids(node("offline", { alive: false, approved: true }))).toEqual(["drain", "remove"]);
});

test("every name says the node", () => {
  const all = listNodeOffers(node("healthy", { alive: true, approved: true }));
  expect(all.every((offer) => offer.label.endsWith("gpu-a"))).toBe(true);
});
