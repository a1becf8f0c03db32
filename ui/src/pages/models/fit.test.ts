import { expect, test } from "vitest";
import type { NodeOut, VariantOut } from "@/api/schema";
import { fitsOf, freeName, verdict } from "@/pages/models/fit";

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
  expect(fitsOf(nodes, variant(), null)).toEqual([
    { node: "a", fits: true, sentence: "About 4 GiB of 16 GiB memory." },
    { node: "gone", fits: false, sentence: "It is offline now." },
    { node: "small", fits: false, sentence: "Too small: it has 2 GiB of memory, about 4 GiB are needed." },
  ]);
});

test("a full disk, a busy node and one that drains are told apart", () => {
  const on = variant({ fits_on: ["a"] });
  const said = (over: Partial<NodeOut>, payload: number | null = null) =>
    fitsOf([node("a", over)], on, payload)[0]?.sentence;
  expect(said({ available_disk: GIB }, 2 * GIB)).toBe("Its disk has 1 GiB free, and 2 GiB are needed.");
  expect(said({ available_ram: GIB })).toContain("make room");
  expect(said({ schedulable: false, status: "draining" })).toContain("takes nothing new: draining");
});

test("pending nodes and agents are not counted", () => {
  const nodes = [node("a", { status: "pending" }), node("b", { node_type: "agent" })];
  expect(fitsOf(nodes, variant(), null)).toEqual([]);
  expect(verdict([])).toContain("no node yet");
});

test("one sentence for all", () => {
  const told = (fits: boolean) => ({ node: "", fits, sentence: "" });
  expect(verdict([told(true), told(false)])).toBe("It fits on 1 of 2 nodes.");
  expect(verdict([told(false)])).toContain("fits on no node");
  expect(verdict([told(true)])).toBe("It fits on the one node there is.");
});

test("a second model of an entry gets a number", () => {
  expect(freeName("chat", [])).toBe("chat");
  expect(freeName("chat", ["chat", "chat-2"])).toBe("chat-3");
});
