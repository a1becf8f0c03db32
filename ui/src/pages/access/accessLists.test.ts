import { expect, test } from "vitest";
import type { KeyOut, ModelCapabilitiesOut, SecretOut } from "@/api/schema";
import {
  exampleModel,
  filterKeys,
  filterSecrets,
  limitWords,
  makeCurlCommand,
  matchesPattern,
} from "./accessLists";

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
  expect(filterKeys(all, "", false).map((one) => one.name)).toEqual(["b", "d", "a", "c"]);
  expect(filterKeys(all, "", true).map((one) => one.name)).toEqual(["b", "d"]);
});

test("a word finds keys by name, owner, scope and models", () => {
  const all = [key("shop", "active", { user_name: "ada" }), key("ci", "active", { models: ["llama-*"] })];
  expect(filterKeys(all, "ADA", true).map((one) => one.name)).toEqual(["shop"]);
  expect(filterKeys(all, "llama", true).map((one) => one.name)).toEqual(["ci"]);
});

test("limits are listed with their unit, and with the model if they are of one", () => {
  const all = { model: "", requests_per_minute: 60, tokens_per_day: 100_000 };
  expect(limitWords(all)).toEqual(["60 requests per minute", "100K tokens per day"]);
  expect(limitWords({ model: "big", tokens_per_month: 5 })).toEqual(["big: 5 tokens per month"]);
});

test("patterns are those of a shell", () => {
  expect(matchesPattern("llama-*", "llama-3.1")).toBe(true);
  expect(matchesPattern("llama-?", "llama-33")).toBe(false);
  expect(matchesPattern("q[!x]en", "qwen")).toBe(true);
  expect(matchesPattern("a.b", "axb")).toBe(false);
});

const able = (name: string, state = "", more: Partial<ModelCapabilitiesOut> = {}) =>
  ({
    name,
    capabilities: ["chat"],
    disabled: false,
    loaded_on: state ? [{ state }] : [],
    ...more,
  }) as unknown as ModelCapabilitiesOut;

test("the example uses a model that the key may use", () => {
  expect(exampleModel(["b*"], [able("abc"), able("bcd")])).toBe("bcd");
  expect(exampleModel(null, [able("abc")])).toBe("abc");
  expect(exampleModel(["later"], [])).toBe("later");
  expect(exampleModel(["b*"], [able("abc")])).toBe("MODEL");
});

test("the example prefers a loaded model and takes one whose load failed last", () => {
  const sick = able("a-sick", "", { load_failed: true });
  expect(exampleModel(null, [sick, able("cold"), able("warm", "loading"), able("zebra", "loaded")])).toBe(
    "zebra",
  );
  expect(exampleModel(null, [sick, able("cold")])).toBe("cold");
});

test("the example uses no model that is disabled or cannot chat", () => {
  const noChat = able("a-vectors", "loaded", { capabilities: ["embeddings"] });
  expect(exampleModel(null, [noChat, able("b-off", "", { disabled: true }), able("c-on")])).toBe("c-on");
});

test("the example can be pasted, whatever the model is called", () => {
  expect(makeCurlCommand("http://host", "ck_1", "it's")).toContain(`"model":"it'\\''s"`);
});

test("secrets are sorted by name, and found by name and by who set them", () => {
  const secret = (name: string, changed_by: string) => ({ name, changed_by }) as SecretOut;
  const all = [secret("hub-token", "ada"), secret("deploy-key", "bob")];
  expect(filterSecrets(all, "").map((one) => one.name)).toEqual(["deploy-key", "hub-token"]);
  expect(filterSecrets(all, " ADA").map((one) => one.name)).toEqual(["hub-token"]);
  expect(filterSecrets(all, "unknown")).toEqual([]);
});
