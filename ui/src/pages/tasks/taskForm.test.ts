import { expect, test } from "vitest";
import { Problem } from "@/api/client";
import type { TaskOut } from "@/api/schema";
import { findFilesFault, makeCurlCall, makeJobBody, pickMediaField } from "@/pages/tasks/jobForm";
import { formatParameter, parseParameter, readParameters } from "@/pages/tasks/parameters";
import {
  findTaskFaults,
  makeTaskBody,
  makeTaskForm,
  placeTaskProblem,
  type TaskForm,
} from "@/pages/tasks/taskForm";

const TASK: TaskOut = {
  id: "0199eda5-a3fd-783e-83d6-08912054e399",
  name: "weather",
  description: "What to wear",
  model: "llama",
  prompt: "In {{ city }}: {{ days }}",
  parameters: ["city", "days"],
  enabled: false,
  cron: "0 9 * * *",
  cron_words: "every day at 09:00",
  time_zone: "Europe/Rome",
  cron_parameters: { city: "Rome", days: 3 },
  cron_note: "",
  overlap: "queue",
  catch_up: "once",
  webhooks: [
    {
      url: "https://example.org/hook",
      method: "PUT",
      headers: { "X-A": "1" },
      payload_template: "{{ result }}",
    },
  ],
  webhook_secret: "secret:sign",
  multimedia_sources: [{ type: "audio", url: "https://example.org/a.wav", headers: {} }],
  labels: { zone: "barn" },
  mcp_servers: [
    { name: "hay", url: "https://example.org/mcp", transport: "sse", token: "secret:hay", headers: {} },
  ],
  mcp_stdio_servers: ["clock"],
  budgets: { wall_s: 60, steps: 5, tool_calls: null, tokens: 1000 },
  max_attempts: 2,
  revision: 4,
  next_run_at: null,
  last_run_at: null,
  created_at: "2026-11-18T00:00:00Z",
  created_by: "ann",
  updated_at: "2026-11-18T00:00:00Z",
};

const filled = (part: Partial<TaskForm> = {}): TaskForm => ({
  ...makeTaskForm(null, "Europe/Rome"),
  name: "weather",
  model: "llama",
  prompt: "Hello",
  ...part,
});

test("a task that is saved without a change stays as it was", () => {
  const body = makeTaskBody(makeTaskForm(TASK, "UTC"), TASK.parameters ?? [], TASK);
  for (const [name, value] of Object.entries(body)) expect(value, name).toEqual(TASK[name as keyof TaskOut]);
});

test("a task without servers uses those of its model, unless it had none on purpose", () => {
  const body = makeTaskBody(filled(), [], null);
  expect(body).not.toHaveProperty("mcp_servers");
  expect(body).not.toHaveProperty("mcp_stdio_servers");
  const none = makeTaskBody(filled(), [], { ...TASK, mcp_servers: [], mcp_stdio_servers: [] });
  expect([none.mcp_servers, none.mcp_stdio_servers]).toEqual([[], []]);
});

test("a new task begins in the reader's time zone and sends only the parameters that its prompt uses", () => {
  const form = filled({ cron: "@daily", cronParameters: { city: "Rome", old: "x", empty: "" } });
  const body = makeTaskBody(form, ["city", "empty"], null);
  expect(body.time_zone).toBe("Europe/Rome");
  expect(body.cron_parameters).toEqual({ city: "Rome" });
  expect(makeTaskBody({ ...form, cron: "" }, ["city"], null).cron_parameters).toEqual({});
});

test("each fault stands at its field", () => {
  expect(findTaskFaults(filled())).toEqual({});
  expect(Object.keys(findTaskFaults(makeTaskForm(null, "UTC")))).toEqual(["name", "model", "prompt"]);
  const faults = findTaskFaults(
    filled({
      webhooks: [
        {
          id: 0,
          url: "example.org",
          method: "POST",
          headers: [{ id: 0, name: "", value: "x" }],
          payload: "",
        },
      ],
      webhookSecret: "whsec_abc",
      sources: [{ id: 0, type: "image", url: "ftp://example.org/a.png", headers: [] }],
      servers: [{ id: 0, name: "", url: "", transport: "http", token: "abc", headers: [] }],
    }),
  );
  expect(Object.keys(faults).sort()).toEqual([
    "servers.0.token",
    "servers.0.url",
    "sources.0.url",
    "webhook_secret",
    "webhooks.0.headers",
    "webhooks.0.url",
  ]);
  const secret = { id: 0, url: "secret:chat-hook", method: "POST", headers: [], payload: "" };
  expect(findTaskFaults(filled({ webhooks: [secret] }))).toEqual({});
});

test("an error of the server stands at its field, if it is about one", () => {
  const place = (code: string, message: string, form = filled()) =>
    placeTaskProblem(new Problem(400, code, message, "A hint."), form);
  expect(place("task_exists", "There is a task 'a' already.")).toEqual({
    name: "There is a task 'a' already. A hint.",
  });
  expect(place("bad_template", "Line 1 is not valid.")).toHaveProperty("prompt");
  expect(place("bad_task", "'61' is not a minute of a cron pattern.")).toHaveProperty("cron");
  expect(place("bad_task", "'X' is not a known time zone.")).toHaveProperty("time_zone");
  expect(place("secret_in_clear", "The header Authorization holds a secret.")).toBeNull();
  const webhooks = [{ id: 0, url: "https://a.org", method: "POST", headers: [], payload: "{{" }];
  expect(place("bad_template", "Line 1 is not valid.", filled({ webhooks }))).toBeNull();
});

test("a parameter is a text, and a list or an object if it is one in JSON", () => {
  expect(parseParameter("3")).toBe("3");
  expect(parseParameter('["a", "b"]')).toEqual(["a", "b"]);
  expect(parseParameter("[not json")).toBe("[not json");
  expect(formatParameter({ a: 1 })).toBe('{"a":1}');
  expect(formatParameter(null)).toBe("");
  expect(readParameters({ flag: "false", other: "false" }, { flag: false })).toEqual({
    flag: false,
    other: "false",
  });
});

test("files of a job go into the field of their kind", () => {
  expect(["image/png", "video/mp4", "audio/wav", "text/plain", ""].map(pickMediaField)).toEqual([
    "images",
    "videos",
    "audios",
    "files",
    "files",
  ]);
  const media = [
    { type: "image/png", data: "data:image/png;base64,AA==" },
    { type: "image/jpeg", data: "data:image/jpeg;base64,BB==" },
  ];
  expect(makeJobBody(TASK, { city: "Rome", days: "" }, media)).toEqual({
    task_id: TASK.id,
    parameters: { city: "Rome" },
    triggered_by: "manual",
    images: media.map(({ data }) => data),
  });
});

test("files beyond the limits of a job are refused before they are read", () => {
  const file = (size: number) => ({ name: "herd.mp4", type: "video/mp4", size });
  expect(findFilesFault([file(1024)])).toBeNull();
  expect(findFilesFault([file(21 * 1024 ** 2)])).toBe("herd.mp4 is larger than 20 MiB.");
  expect(findFilesFault([file(12 * 1024 ** 2), file(12 * 1024 ** 2)])).toMatch(/together/);
  expect(findFilesFault(Array.from({ length: 17 }, () => file(1)))).toMatch(/at most 16/);
});

test("the call as a command has placeholders for the key and for what is not filled in", () => {
  const call = makeCurlCall(
    "https://corral.example",
    { name: "what's (on)" },
    { city: "L'Aquila", day: "" },
    [],
  );
  expect(call).toContain("https://corral.example/api/agent/tasks/what%27s%20%28on%29/execute");
  expect(call).toContain('Bearer $CORRAL_API_KEY"');
  expect(call).toContain(`{"city":"L'\\''Aquila","day":"<day>"}`);
  const files = [{ name: "a.png", type: "image/png", size: 1 }];
  const other = makeCurlCall("https://corral.example", { name: "look" }, {}, files);
  expect(other).toContain("/api/agent/jobs/execute");
  expect(other).toContain('"images":["https://example.org/picture.png"]');
});
