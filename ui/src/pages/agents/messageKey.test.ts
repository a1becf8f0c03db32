import { expect, test } from "vitest";
import { makeMessageKey } from "@/pages/agents/messageKey";

test("two messages have two keys", () => {
  const keys = new Set(Array.from({ length: 100 }, makeMessageKey));
  expect(keys.size).toBe(100);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/);
});
