import { expect, test } from "vitest";
import type {
  AssignmentOut,
  BackendUpgradeOut,
  HistorySeriesOut,
  LiveOut,
  NodeOut,
  OperationOut,
  RuleOut,
} from "@/api/schema";
import { type AttentionInput, listAttentionItems } from "@/pages/overview/attentionItems";
import {
  appendFleetSample,
  computeSkew,
  EMPTY_SAMPLE,
  joinCurves,
  makeFleetSample,
  NO_CURVES,
} from "@/pages/overview/fleetCurves";
import { pickBusiest } from "@/pages/overview/fleetNumbers";

const nothing: AttentionInput = {
  degraded: [],
  nodes: [],
  operations: [],
  assignments: [],
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

const upgrade = (backend_name: string, summary: string, nodes: string[]): BackendUpgradeOut =>
  ({
    backend_name,
    summary,
    nodes: nodes.map((node_name) => ({ node_name })),
  }) as unknown as BackendUpgradeOut;

test("an upgrade lists the nodes that are behind, and nodes that only drift are no upgrade", () => {
  const [item, ...rest] = listAttentionItems({
    ...nothing,
    upgrades: {
      fake: upgrade("fake", "The newest version is 2.0.0. a and b have 1.0.0.", ["a", "b"]),
      same: upgrade("same", "Nodes differ. c has 3.0, the others 2.0.", []),
    },
  });
  expect(rest).toEqual([]);
  expect(item).toMatchObject({
    title: "Upgrades are available for fake.",
    detail: "The newest version is 2.0.0. a and b have 1.0.0.",
  });
});

test("a healthy cluster has no attention items", () => {
  expect(listAttentionItems({ ...nothing, nodes: [node("a")] })).toEqual([]);
});

test("what is broken comes before what waits, and upgrades come last", () => {
  const items = listAttentionItems({
    ...nothing,
    degraded: ["PostgreSQL is away."],
    nodes: [node("a", { status: "pending" }), node("b", { status: "offline" })],
    operations: [
      { id: "1", kind: "backend_install", state: "failed", name: "hello", error: "No disk." } as OperationOut,
      { id: "2", kind: "backend_install", state: "running", name: "other" } as OperationOut,
    ],
    assignments: [{ node_name: "b", backend: "far", state: "dead" } as AssignmentOut],
    upgrades: { fake: upgrade("fake", "The newest version is 2. a has 1.", ["a"]) },
    rules: [{ model: "m", model_exists: true, unsatisfiable_ticks: 3 } as RuleOut],
  });
  expect(items.map((item) => item.title)).toEqual([
    "PostgreSQL is away.",
    "Failed install of hello.",
    "b is offline.",
    "1 pending change failed too often and stopped.",
    "a is waiting for approval.",
    "The rule for m cannot be satisfied.",
    "Upgrades are available for fake.",
  ]);
  expect(items.find((item) => item.approves)?.approves?.name).toBe("a");
});

test("many of one sort are few lines", () => {
  const nodes = ["a", "b", "c", "d", "e"].map((name) => node(name, { status: "pending" }));
  const titles = listAttentionItems({ ...nothing, nodes }).map((item) => item.title);
  expect(titles).toHaveLength(4);
  expect(titles.at(-1)).toBe("2 more nodes are waiting for approval.");
  const away = ["a", "b", "c", "d"].map((name) => node(name, { status: "offline" }));
  expect(listAttentionItems({ ...nothing, nodes: away })).toMatchObject([
    { title: "4 nodes are offline.", detail: "a, b, c, and 1 more" },
  ]);
});

test("what the stream leaves out is zero, and what is not known is a gap", () => {
  const live = {
    at: "",
    models: [{ name: "m", replicas: [], waiting: 2, in_flight: 1 }],
  } as unknown as LiveOut;
  expect(makeFleetSample(live, [])).toMatchObject({
    tokens_per_s: 0,
    waiting: 2,
    in_flight: 1,
    first_byte_p50_s: null,
  });
  expect(makeFleetSample(undefined, [])).toEqual(EMPTY_SAMPLE);
});

test("the tab goes on where the frontend's memory ends, and forgets after half an hour", () => {
  const past: HistorySeriesOut = { step_s: 5, at: [100, 105], series: { tokens_per_s: [1, 2] } };
  let own = appendFleetSample(NO_CURVES, 104, { ...EMPTY_SAMPLE, tokens_per_s: 9 });
  own = appendFleetSample(own, 107, { ...EMPTY_SAMPLE, tokens_per_s: 3 });
  const all = joinCurves(past, own);
  expect(all.at).toEqual([100, 105, 107]);
  expect(all.series.tokens_per_s).toEqual([1, 2, 3]);
  expect(all.series.vram_used).toEqual([null, null, null]);
  expect(appendFleetSample(own, 107, EMPTY_SAMPLE)).toBe(own);
  expect(appendFleetSample(own, 104 + 1801, EMPTY_SAMPLE).at).toEqual([107, 1905]);
  expect(joinCurves(undefined, own)).toBe(own);
});

test("clocks that are apart are brought together, those a little off are left", () => {
  const past: HistorySeriesOut = { step_s: 5, at: [1000], series: {} };
  expect(computeSkew(past, 1_004_000)).toBe(0);
  expect(computeSkew(past, 940_000)).toBe(60);
});

test("the busiest model comes first", () => {
  const model = (name: string, in_flight: number) => ({ name, in_flight, waiting: 0, replicas: [] }) as never;
  expect(pickBusiest([model("b", 0), model("a", 0), model("c", 3)]).map(({ name }) => name)).toEqual([
    "c",
    "a",
    "b",
  ]);
});
