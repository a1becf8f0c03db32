import { expect, test } from "vitest";
import type { CapabilitiesOut, KeyOut } from "@/api/schema";
import { curlOf, exampleModel, fits, limitWords, shownKeys } from "./listing";

const key = (name: string, state = "active", more: Partial<KeyOut> = {}): KeyOut => ({
  id: name,
  name,
  prefix: "ck_1234",
  created_at: "2026-11-01T00:00:00Z",
  created_by: "admin",
  expires_at: null,
  revoked_at: null,
  state,
  scope: "infer",
  limits: [],
  ...more,
});

test("keys that work come first, each group by name", () => {
  const all = [key("c", "revoked"), key("b"), key("a", "expired"), key("d")];
  expect(shownKeys(all, "", false).map((one) => one.name)).toEqual(["b", "d", "a", "c"]);
  expect(shownKeys(all, "", true).map((one) => one.name)).toEqual(["b", "d"]);
});

test("a word finds keys by name, owner, scope and models", () => {
  const all = [key("shop", "active", { user_name: "ada" }), key("ci", "active", { models: ["llama-*"] })];
  expect(shownKeys(all, "ADA", true).map((one) => one.name)).toEqual(["shop"]);
  expect(shownKeys(all, "llama", true).map((one) => one.name)).toEqual(["ci"]);
});

test("limits are said with their measure, and with the model if they are of one", () => {
  const all = { model: "", requests_per_minute: 60, tokens_per_day: 100_000 };
  expect(limitWords(all)).toEqual(["60 requests a minute", "100K tokens a day"]);
  expect(limitWords({ model: "big", tokens_per_month: 5 })).toEqual(["big: 5 tokens a month"]);
});

test("patterns are those of a shell", () => {
  expect(fits("llama-*", "llama-3.1")).toBe(true);
  expect(fits("llama-?", "llama-33")).toBe(false);
  expect(fits("q[!x]en", "qwen")).toBe(true);
  expect(fits("a.b", "axb")).toBe(false);
});

const able = (name: string, state = "", more: Partial<CapabilitiesOut> = {}) =>
  ({
    name,
    capabilities: ["chat"],
    disabled: false,
    loaded_on: state ? [{ state }] : [],
    ...more,
  }) as unknown as CapabilitiesOut;

test("the example asks a model that the key may ask", () => {
  expect(exampleModel(["b*"], [able("abc"), able("bcd")])).toBe("bcd");
  expect(exampleModel(null, [able("abc")])).toBe("abc");
  expect(exampleModel(["later"], [])).toBe("later");
  expect(exampleModel(["b*"], [able("abc")])).toBe("MODEL");
});

test("the example asks a loaded model first, and one whose load failed last", () => {
  const sick = able("a-sick", "", { load_failed: true });
  expect(exampleModel(null, [sick, able("cold"), able("warm", "loading"), able("zebra", "loaded")])).toBe(
    "zebra",
  );
  expect(exampleModel(null, [sick, able("cold")])).toBe("cold");
});

test("the example asks no model that is disabled or does not chat", () => {
  const deaf = able("a-vectors", "loaded", { capabilities: ["embeddings"] });
  expect(exampleModel(null, [deaf, able("b-off", "", { disabled: true }), able("c-on")])).toBe("c-on");
});

test("the example can be pasted, whatever the model is called", () => {
  expect(curlOf("http://host", "ck_1", "it's")).toContain(`"model":"it'\\''s"`);
});
