// The official OpenAI client for Node against a frontend with real engines: `node --test suite.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

const { CORRAL_URL, CORRAL_KEY, CORRAL_MODEL: model, CALL_IT: callIt } = process.env;
const client = new OpenAI({ baseURL: `${CORRAL_URL}/v1`, apiKey: CORRAL_KEY, maxRetries: 0, timeout: 60_000 });
const messages = [{ role: "user", content: "Why is the sky blue?" }];
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const schema = {
  type: "object",
  properties: { name: { type: "string", maxLength: 8 } },
  required: ["name"],
  additionalProperties: false,
};

test("a chat, whole and in pieces", async () => {
  const whole = await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0 });
  assert.equal(whole.usage.completion_tokens, 12);
  let said = "";
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0, stream: true });
  for await (const chunk of stream) said += chunk.choices[0]?.delta?.content ?? "";
  assert.equal(said, whole.choices[0].message.content);
});

test("a tool is called", async () => {
  const stream = client.chat.completions.stream({
    model,
    messages: [{ role: "user", content: callIt }],
    tools: [{ type: "function", function: { name: "weather", parameters } }],
    temperature: 0,
    max_tokens: 60,
  });
  const { choices } = await stream.finalChatCompletion();
  assert.equal(choices[0].finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(choices[0].message.tool_calls[0].function.arguments), { city: "Paris" });
});

test("a JSON schema holds, and logprobs are there", async () => {
  const answer = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 60,
    temperature: 0,
    logprobs: true,
    response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
  });
  assert.deepEqual(Object.keys(JSON.parse(answer.choices[0].message.content)), ["name"]);
  assert.ok(answer.choices[0].logprobs.content.length > 0);
});

test("a response, whole, in pieces and with a function", async () => {
  const asked = { model, input: "Why is the sky blue?", max_output_tokens: 12, temperature: 0 };
  const whole = await client.responses.create(asked);
  assert.equal(whole.status, "incomplete");
  const final = await client.responses.stream(asked).finalResponse();
  assert.equal(final.output_text, whole.output_text);
  const called = await client.responses
    .stream({
      model,
      input: callIt,
      tools: [{ type: "function", name: "weather", parameters, strict: true }],
      max_output_tokens: 60,
      temperature: 0,
    })
    .finalResponse();
  assert.deepEqual(JSON.parse(called.output.find((item) => item.type === "function_call").arguments), { city: "Paris" });
});

test("embeddings", async () => {
  const { data } = await client.embeddings.create({ model: "minilm", input: ["a cat", "a kitten"] });
  assert.deepEqual(data.map((row) => row.embedding.length), [384, 384]);
});

test("models are listed", async () => {
  const names = [];
  for await (const found of client.models.list()) names.push(found.id);
  assert.ok(names.includes(model));
});

test("errors have the classes that programs expect", async () => {
  await assert.rejects(client.responses.create({ model: "smollm", input: "x" }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    return true;
  });
  const stranger = new OpenAI({ baseURL: `${CORRAL_URL}/v1`, apiKey: "ck_wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  const searching = { model, input: "x", tools: [{ type: "web_search" }] };
  await assert.rejects(client.responses.create(searching), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.match(error.message, /web_search/);
    return true;
  });
});

test("a client that leaves ends its stream", async () => {
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 500, stream: true });
  for await (const _ of stream) break;
  const controller = new AbortController();
  const waiting = client.chat.completions.create({ model, messages, max_tokens: 500 }, { signal: controller.signal });
  controller.abort();
  await assert.rejects(waiting, OpenAI.APIUserAbortError);
});

test("64 at a time are all answered", async () => {
  const one = () => client.chat.completions.create({ model, messages, max_tokens: 2, temperature: 0 });
  const answers = await Promise.all(Array.from({ length: 64 }, one));
  assert.ok(answers.every((answer) => answer.choices[0].message.content));
});
