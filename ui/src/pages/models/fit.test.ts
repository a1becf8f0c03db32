import { expect, test } from "vitest";
import type { NodeOut, VariantOut } from "@/api/schema";
import { computeFits, describeFits, pickFreeName } from "@/pages/models/fit";

const GIB = 2 ** 30;
const node = (name: string, over: Partial<NodeOut> = {}): NodeOut =>
  ({
    name,
    node_type: "backend",
    status: "healthy",
    schedulable: true,
    total_ram: 16 * GIB,
    available_ram: 12 * GIB,
    ...over,
  }) as unknown as NodeOut;
const variant = (over: Partial<VariantOut> = {}): VariantOut =>
  ({
    model: "chat",
    backend: "fake",
    memory_bytes: 4 * GIB,
    fits: true,
    fits_on: ["a"],
    ...over,
  }) as VariantOut;

test("it says how much of what, and why not", () => {
  const nodes = [node("small", { total_ram: 2 * GIB }), node("a"), node("gone", { status: "offline" })];
  expect(computeFits(nodes, variant(), null)).toEqual([
    { node: "a", fits: true, sentence: "About 4 GiB of 16 GiB memory." },
    { node: "gone", fits: false, sentence: "Offline." },
    { node: "small", fits: false, sentence: "Too small: it has 2 GiB of memory, about 4 GiB are needed." },
  ]);
});

test("a full disk, a busy node and a draining node have different sentences", () => {
  const on = variant({ fits_on: ["a"] });
  const sentence = (over: Partial<NodeOut>, payload: number | null = null) =>
    computeFits([node("a", over)], on, payload)[0]?.sentence;
  expect(sentence({ available_disk: GIB }, 2 * GIB)).toBe("Its disk has 1 GiB free, and 2 GiB are needed.");
  expect(sentence({ available_ram: GIB })).toContain("must be unloaded first");
  expect(sentence({ schedulable: false, status: "draining" })).toContain("accepts no new work: draining");
});

test("pending nodes and agents are not counted", () => {
  const nodes = [node("a", { status: "pending" }), node("b", { node_type: "agent" })];
  expect(computeFits(nodes, variant(), null)).toEqual([]);
  expect(describeFits([])).toContain("No nodes yet");
});

test("one sentence for all", () => {
  const makeFit = (fits: boolean) => ({ node: "", fits, sentence: "" });
  expect(describeFits([makeFit(true), makeFit(false)])).toBe("Fits on 1 of 2 nodes.");
  expect(describeFits([makeFit(false)])).toContain("Fits on no node");
  expect(describeFits([makeFit(true)])).toBe("Fits on the only node.");
});

test("a second model of an entry gets a number", () => {
  expect(pickFreeName("chat", [])).toBe("chat");
  expect(pickFreeName("chat", ["chat", "chat-2"])).toBe("chat-3");
});
