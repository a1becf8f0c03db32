import { expect, test } from "vitest";
import type { RuleOut } from "@/api/schema";
import {
  makeDraft,
  makeRuleBody,
  NEW_RULE,
  routingOptions,
  ruleSentence,
  windowSentence,
} from "@/pages/models/rule";

const rule = (over: Partial<RuleOut> = {}): RuleOut =>
  ({
    selector: {},
    min_replicas: 0,
    max_replicas: 0,
    spread_all: false,
    windows: [],
    time_zone: "UTC",
    ...over,
  }) as unknown as RuleOut;

test("a rule is a sentence", () => {
  const zone = { zone: "shed" };
  expect(ruleSentence(rule({ min_replicas: 1, max_replicas: 4, selector: zone }))).toBe(
    "1 to 4 replicas on nodes with zone=shed.",
  );
  expect(ruleSentence(rule({ min_replicas: 2 }))).toBe("At least 2 replicas.");
  expect(ruleSentence(rule({ min_replicas: 1, max_replicas: 1 }))).toBe("Always 1 replica.");
  expect(ruleSentence(rule({ spread_all: true }))).toBe("One replica on every node.");
  expect(windowSentence({ cron: "0 8 * * 1-5", duration: 36000, min_replicas: 2 })).toBe(
    "At 0 8 * * 1-5 for 10 h: at least 2.",
  );
});

test("what the form shows of a rule is the rule again", () => {
  const windows = [{ cron: "0 8 * * *", duration: 3600, min_replicas: 2 }];
  const draft = makeDraft(rule({ min_replicas: 1, max_replicas: 3, selector: { a: "b", c: "d" }, windows }));
  expect(makeRuleBody(draft)).toEqual({
    selector: "a=b, c=d",
    min_replicas: 1,
    max_replicas: 3,
    windows: [{ cron: "0 8 * * *", duration: "1h", min_replicas: 2 }],
    time_zone: "UTC",
    route_policy: "",
  });
});

test("everywhere has no numbers, and what is no number is left for the server to refuse", () => {
  expect(makeRuleBody({ ...NEW_RULE, mode: "everywhere", max: "3" })).toEqual({
    selector: "",
    replicas: "all",
    windows: [],
    time_zone: "UTC",
    route_policy: "",
  });
  expect(makeRuleBody({ ...NEW_RULE, min: "some" }).min_replicas).toBe("some");
});

test("the form keeps the routing of a rule, and offers one without effect to a rule that has it alone", () => {
  const kept = makeRuleBody(makeDraft(rule({ route_policy: "prefix_cache" })));
  expect(kept.route_policy).toBe("prefix_cache");
  expect(makeRuleBody(NEW_RULE).route_policy).toBe("");
  expect(routingOptions("round_robin").map((option) => option.value)).toEqual(["", "round_robin"]);
  expect(routingOptions("prefix_cache").at(-1)?.text).toBe("prefix_cache (no effect yet)");
});
