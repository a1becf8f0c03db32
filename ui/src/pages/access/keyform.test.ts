import { expect, test } from "vitest";
import type { KeyOut } from "@/api/schema";
import {
  AS_IT_IS,
  emptyLine,
  faultOf,
  formOf,
  limitsOf,
  NEVER,
  patchOf,
  patternsOf,
  wishOf,
} from "./keyform";

const KEY: KeyOut = {
  id: "key-1",
  name: "shop",
  prefix: "ck_9fKq",
  created_at: "2026-11-01T00:00:00Z",
  created_by: "admin",
  expires_at: null,
  revoked_at: null,
  state: "active",
  scope: "infer",
  models: ["llama-*"],
  limits: [{ model: "big", tokens_per_day: 20_000 }],
};

test("patterns are told one a line or between commas, each once, and none means every model", () => {
  expect(patternsOf("llama-*\n qwen , qwen\n")).toEqual(["llama-*", "qwen"]);
  expect(patternsOf(" \n,")).toBeNull();
});

test("a line without a number is no limit", () => {
  const line = emptyLine(1);
  line.amounts.requests_per_minute = "60";
  expect(limitsOf([emptyLine(0), line])).toEqual([{ model: "", requests_per_minute: 60 }]);
});

test("a form that was only opened changes nothing", () => {
  expect(patchOf(KEY, formOf(KEY))).toEqual({});
});

test("a change names what differs and nothing else", () => {
  const form = { ...formOf(KEY), models: "", ends: NEVER };
  expect(patchOf(KEY, form)).toEqual({ models: null, expires_in_s: null });
  expect(patchOf(KEY, { ...formOf(KEY), scope: "operate", ends: AS_IT_IS })).toEqual({ scope: "operate" });
});

test("limits are replaced as a whole, also when all are taken away", () => {
  expect(patchOf(KEY, { ...formOf(KEY), limits: [emptyLine(0)] })).toEqual({ limits: [] });
});

test("the line for all models is always there to be filled in", () => {
  expect(formOf(KEY).limits.map((line) => line.model)).toEqual(["", "big"]);
});

test("a model with two lines is told in a sentence", () => {
  const line = { ...emptyLine(2), model: "big", amounts: { ...emptyLine(2).amounts, tokens_per_day: "1" } };
  const form = formOf(KEY);
  expect(faultOf({ ...form, limits: [...form.limits, line] })).toBe(
    "big has two lines of limits. Keep one of them.",
  );
  expect(faultOf(form)).toBeNull();
});

test("a new key asks models, belongs to nobody and does not end, unless one says so", () => {
  const wish = wishOf({ ...formOf(null), name: " ci " });
  expect(wish).toEqual({
    name: "ci",
    scope: "infer",
    user: null,
    models: null,
    limits: [],
    expires_in_s: null,
  });
});
