import { expect, test } from "vitest";
import type { UsageRowOut } from "@/api/schema";
import { computeMonthStart, listQuotas, listRateLimits } from "./quotas";
import { makeAddress, makePeriod } from "./usageQuery";
import { findTop, groupRows, makeLayers, REST, sumGroups } from "./usageSums";

const NOW = Date.parse("2026-11-15T22:40:00Z");
const row = (part: Partial<UsageRowOut>): UsageRowOut => ({
  requests: 1,
  errors: 0,
  prompt_tokens: 10,
  cached_tokens: 0,
  completion_tokens: 5,
  estimated_tokens: 0,
  ...part,
});

test("a day is 24 hours up to the one that is going on, a week seven days of UTC", () => {
  const day = makePeriod("day", NOW);
  expect([day.step, day.steps.length, day.steps.at(-1)]).toEqual([
    "hour",
    24,
    Date.parse("2026-11-15T22:00:00Z"),
  ]);
  const week = makePeriod("week", NOW);
  expect([week.step, week.steps.length, week.steps[0]]).toEqual([
    "day",
    7,
    Date.parse("2026-11-09T00:00:00Z"),
  ]);
  expect(makePeriod("month", NOW).steps).toHaveLength(30);
});

test("the download has the same address as the view, for all usage and for one's own", () => {
  const question = { by: "model,day", from: "2026-11-09T00:00:00.000Z", mine: true };
  expect(makeAddress(question, "csv")).toBe(
    "/api/me/usage?by=model%2Cday&from=2026-11-09T00%3A00%3A00.000Z&format=csv",
  );
});

test("groups with most come first, and one without a name has words", () => {
  const groups = groupRows([row({ user: "" }), row({ user: "ada", prompt_tokens: 90 })], "user", "tokens");
  expect(groups.map((group) => group.name)).toEqual(["ada", "no owner"]);
  expect(sumGroups(groups)).toMatchObject({ requests: 2, prompt_tokens: 100 });
});

test("nodes are shown by name, and requests that reached no node have their own row", () => {
  const rows = [row({ node: "" }), row({ node: "gpu-a", requests: 3 })];
  const groups = groupRows(rows, "node", "requests");
  expect(groups.map((group) => [group.id, group.name])).toEqual([
    ["gpu-a", "gpu-a"],
    ["", "no node"],
  ]);
});

test("keys with the same name stay two", () => {
  const rows = [row({ key_id: "1", key: "ci" }), row({ key_id: "2", key: "ci" })];
  expect(groupRows(rows, "key", "requests").map((group) => group.id)).toEqual(["1", "2"]);
});

test("columns have a place for each step, also for those without a row", () => {
  const { steps } = makePeriod("week", NOW);
  const rows = [
    row({ model: "a", at: "2026-11-10T00:00:00Z" }),
    row({ model: "a", at: "2026-10-01T00:00:00Z" }),
  ];
  const [layer] = makeLayers(
    rows,
    groupRows([row({ model: "a" })], "model", "tokens"),
    steps,
    "model",
    "tokens",
  );
  expect(layer?.values).toEqual([0, 15, 0, 0, 0, 0, 0]);
});

test("groups beyond the limit of colours are drawn as one", () => {
  const rows = [..."abcdefg"].map((model, place) =>
    row({ model, requests: 10 - place, at: "2026-11-15T00:00:00Z" }),
  );
  const { steps } = makePeriod("week", NOW);
  const layers = makeLayers(rows, groupRows(rows, "model", "requests"), steps, "model", "requests");
  expect(layers.map((layer) => layer.name)).toEqual(["a", "b", "c", "d", "3 others"]);
  expect(layers.at(-1)).toMatchObject({ id: REST });
  expect(layers.at(-1)?.values.at(-1)).toBe(6 + 5 + 4);
  expect(findTop(layers, steps.length)).toBe(50);
});

test("the scale of nothing is not nothing", () => {
  expect(findTop([], 7)).toBe(1);
});

test("of a day's quota only today counts, of a model's only that model", () => {
  const rows = [
    row({ model: "a", at: "2026-11-15T00:00:00Z" }),
    row({ model: "b", at: "2026-11-02T00:00:00Z" }),
  ];
  const limits = [
    { model: "", tokens_per_day: 100, tokens_per_month: 1000 },
    { model: "b", tokens_per_month: 40 },
  ];
  expect(listQuotas(limits, rows, NOW)).toEqual([
    { model: "", period: "day", limit: 100, used: 15 },
    { model: "", period: "month", limit: 1000, used: 30 },
    { model: "b", period: "month", limit: 40, used: 15 },
  ]);
  expect(listRateLimits([{ model: "", requests_per_minute: 6 }])).toEqual([
    { model: "", words: "requests per minute", limit: 6 },
  ]);
  expect(computeMonthStart(NOW)).toBe("2026-11-01T00:00:00.000Z");
});
