import { expect, test } from "vitest";
import type { KeyOut } from "@/api/schema";
import {
  findFault,
  makeEmptyLine,
  makeForm,
  makeKeyBody,
  makeKeyPatch,
  makeLimits,
  NEVER_EXPIRES,
  parsePatterns,
  UNCHANGED,
} from "./keyForm";

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

test("patterns are split at lines and commas without duplicates, and none means every model", () => {
  expect(parsePatterns("llama-*\n qwen , qwen\n")).toEqual(["llama-*", "qwen"]);
  expect(parsePatterns(" \n,")).toBeNull();
});

test("a line without a number is no limit", () => {
  const line = makeEmptyLine(1);
  line.amounts.requests_per_minute = "60";
  expect(makeLimits([makeEmptyLine(0), line])).toEqual([{ model: "", requests_per_minute: 60 }]);
});

test("a form that was only opened changes nothing", () => {
  expect(makeKeyPatch(KEY, makeForm(KEY))).toEqual({});
});

test("a change names what differs and nothing else", () => {
  const form = { ...makeForm(KEY), models: "", ends: NEVER_EXPIRES };
  expect(makeKeyPatch(KEY, form)).toEqual({ models: null, expires_in_s: null });
  expect(makeKeyPatch(KEY, { ...makeForm(KEY), scope: "operate", ends: UNCHANGED })).toEqual({
    scope: "operate",
  });
});

test("limits are replaced as a whole, also when all are taken away", () => {
  expect(makeKeyPatch(KEY, { ...makeForm(KEY), limits: [makeEmptyLine(0)] })).toEqual({ limits: [] });
});

test("the line for all models is always there to be filled in", () => {
  expect(makeForm(KEY).limits.map((line) => line.model)).toEqual(["", "big"]);
});

test("two limits for one model give an error message", () => {
  const line = {
    ...makeEmptyLine(2),
    model: "big",
    amounts: { ...makeEmptyLine(2).amounts, tokens_per_day: "1" },
  };
  const form = makeForm(KEY);
  expect(findFault({ ...form, limits: [...form.limits, line] })).toBe(
    "big has two sets of limits. Remove one.",
  );
  expect(findFault(form)).toBeNull();
});

test("a new key has scope infer, no owner and no expiry by default", () => {
  const body = makeKeyBody({ ...makeForm(null), name: " ci " });
  expect(body).toEqual({
    name: "ci",
    scope: "infer",
    user: null,
    models: null,
    limits: [],
    expires_in_s: null,
  });
});
