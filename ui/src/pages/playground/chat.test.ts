import { expect, test } from "vitest";
import { Problem } from "@/api/client";
import {
  ChatAccumulator,
  computeRetryDelay,
  DEFAULT_PARAMETERS,
  makeChatBody,
} from "@/pages/playground/chat";

const HEADERS = new Headers({ "x-corral-node": "gpu-a", "x-corral-queue-ms": "3" });

test("what is not set is not sent", () => {
  const body = makeChatBody("m", [{ role: "user", content: "hi" }], {
    ...DEFAULT_PARAMETERS,
    system: " ",
    temperature: null,
  });
  expect(body).toEqual({ model: "m", messages: [{ role: "user", content: "hi" }], max_tokens: 512 });
});

test("a system prompt comes first", () => {
  const body = makeChatBody("m", [{ role: "user", content: "hi" }], {
    ...DEFAULT_PARAMETERS,
    system: "Be brief.",
  });
  expect(body.messages).toEqual([
    { role: "system", content: "Be brief." },
    { role: "user", content: "hi" },
  ]);
});

test("pieces add up, and the speed is that of the answer alone", () => {
  const accumulator = new ChatAccumulator(HEADERS, 0);
  accumulator.addChunk({ choices: [{ delta: { content: "Hel" } }] }, 500);
  accumulator.addChunk({ choices: [{ delta: { content: "lo" } }] }, 1000);
  const update = accumulator.addChunk({ choices: [{ delta: {}, finish_reason: "stop" }] }, 1500);
  expect(update?.text).toBe("Hello");
  expect(update?.facts).toMatchObject({
    node: "gpu-a",
    queueMs: 3,
    firstTokenMs: 500,
    tokens: 2,
    finish: "stop",
    tokensPerS: 1,
  });
  expect(
    accumulator.addChunk({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } }, 1500)?.facts,
  ).toMatchObject({
    promptTokens: 7,
    tokens: 3,
    tokensPerS: 2,
  });
});

test("an error inside a stream is thrown with its sentence", () => {
  const accumulator = new ChatAccumulator(HEADERS, 0);
  expect(() =>
    accumulator.addChunk({ error: { message: "The engine ended.", code: "engine_failed" } }, 1),
  ).toThrow("The engine ended.");
});

test("only a request to a model that still loads is retried", () => {
  expect(computeRetryDelay(new Problem(503, "model_loading", "", null, { retry_after_s: 4 }))).toBe(4);
  expect(computeRetryDelay(new Problem(503, "model_loading", ""))).toBe(2);
  expect(computeRetryDelay(new Problem(503, "queue_full", ""))).toBeNull();
  expect(computeRetryDelay(new Error("no"))).toBeNull();
});
