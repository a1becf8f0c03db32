import { expect, test } from "vitest";
import type { IntentOut, LiveOut, NodeOut, OperationOut, PastOut, RuleOut } from "@/api/schema";
import { attention, type Known } from "@/pages/overview/attention";
import { GAP, joined, NO_CURVES, sampleOf, skew, withSample } from "@/pages/overview/curves";
import { busiest, fleet } from "@/pages/overview/fleet";

const nothing: Known = {
  degraded: [],
  nodes: [],
  operations: [],
  intents: [],
  installed: [],
  upgrades: {},
  rules: [],
  live: undefined,
};
const node = (name: string, more: Partial<NodeOut> = {}): NodeOut =>
  ({
    id: name,
    name,
    status: "healthy",
    node_type: "backend",
    status_reason: "",
    address: "",
    ...more,
  }) as NodeOut;

test("where all is well nothing is said", () => {
  expect(attention({ ...nothing, nodes: [node("a")] })).toEqual([]);
});

test("what is broken comes before what waits, and upgrades come last", () => {
  const items = attention({
    ...nothing,
    degraded: ["PostgreSQL is away."],
    nodes: [node("a", { status: "pending" }), node("b", { status: "offline" })],
    operations: [
      { id: "1", kind: "backend_install", state: "failed", name: "hello", error: "No disk." } as OperationOut,
      { id: "2", kind: "backend_install", state: "running", name: "other" } as OperationOut,
    ],
    intents: [{ node_name: "b", backend: "far", state: "dead" } as IntentOut],
    upgrades: { fake: { backend_name: "fake", installed_version: "1", available_version: "2" } as never },
    rules: [{ model: "m", model_exists: true, unsatisfiable_ticks: 3 } as RuleOut],
  });
  expect(items.map((item) => item.title)).toEqual([
    "PostgreSQL is away.",
    "Failed install of hello.",
    "b is offline.",
    "1 thing that a node owes has been given up.",
    "a waits to be let in.",
    "The rule for m cannot be met.",
    "There is something newer of fake.",
  ]);
  expect(items.find((item) => item.approves)?.approves?.name).toBe("a");
});

test("many of one sort are few lines", () => {
  const nodes = ["a", "b", "c", "d", "e"].map((name) => node(name, { status: "pending" }));
  const titles = attention({ ...nothing, nodes }).map((item) => item.title);
  expect(titles).toHaveLength(4);
  expect(titles.at(-1)).toBe("2 more nodes wait to be let in.");
  const away = ["a", "b", "c", "d"].map((name) => node(name, { status: "offline" }));
  expect(attention({ ...nothing, nodes: away })).toMatchObject([
    { title: "4 nodes are offline.", detail: "a, b, c, and 1 more" },
  ]);
});

test("the fleet's memory is that of nodes which are there and say it", () => {
  const all = [
    node("a", { total_vram: 24, reported_available_vram: 20, reserved_vram: 2, cpu_threads: 8 }),
    node("b", { total_vram: 24, reported_available_vram: 4, reserved_vram: 0, status: "offline" }),
    node("c", { total_vram: null, total_ram: 64, available_ram: 60, cpu_threads: 4 }),
    node("d", { status: "pending" }),
  ];
  expect(fleet(all, undefined)).toMatchObject({
    nodes: { healthy: 2, all: 3 },
    vram: { used: 4, total: 24, reserved: 2 },
    ram: { used: 4, total: 64 },
    threads: 12,
  });
  expect(fleet([], undefined).vram).toEqual({ used: null, total: null, reserved: 0 });
});

test("what the stream leaves out is zero, and what is not known is a gap", () => {
  const live = {
    at: "",
    models: [{ name: "m", replicas: [], waiting: 2, in_flight: 1 }],
  } as unknown as LiveOut;
  expect(sampleOf(live, [])).toMatchObject({
    tokens_per_s: 0,
    waiting: 2,
    in_flight: 1,
    first_byte_p50_s: null,
  });
  expect(sampleOf(undefined, [])).toEqual(GAP);
});

test("the tab goes on where the frontend's memory ends, and forgets after half an hour", () => {
  const past: PastOut = { step_s: 5, at: [100, 105], series: { tokens_per_s: [1, 2] } };
  let own = withSample(NO_CURVES, 104, { ...GAP, tokens_per_s: 9 });
  own = withSample(own, 107, { ...GAP, tokens_per_s: 3 });
  const all = joined(past, own);
  expect(all.at).toEqual([100, 105, 107]);
  expect(all.series.tokens_per_s).toEqual([1, 2, 3]);
  expect(all.series.vram_used).toEqual([null, null, null]);
  expect(withSample(own, 107, GAP)).toBe(own);
  expect(withSample(own, 104 + 1801, GAP).at).toEqual([107, 1905]);
  expect(joined(undefined, own)).toBe(own);
});

test("clocks that are apart are brought together, those a little off are left", () => {
  const past: PastOut = { step_s: 5, at: [1000], series: {} };
  expect(skew(past, 1_004_000)).toBe(0);
  expect(skew(past, 940_000)).toBe(60);
});

test("the busiest model comes first", () => {
  const model = (name: string, in_flight: number) => ({ name, in_flight, waiting: 0, replicas: [] }) as never;
  expect(busiest([model("b", 0), model("a", 0), model("c", 3)]).map(({ name }) => name)).toEqual([
    "c",
    "a",
    "b",
  ]);
});
