import { expect, test } from "vitest";
import type { RunEventOut } from "@/api/schema";
import {
  type ApprovalRow,
  appendEvents,
  computeSpan,
  EMPTY_TRACE,
  formatValue,
  type ModelRow,
  type NoteRow,
  previewArguments,
  previewText,
  type ToolRow,
  type Trace,
} from "@/pages/runs/trace";

const START = Date.parse("2026-01-01T00:00:00Z");
let seq = 0;

/** One entry, so many seconds after the start. */
function entry(type: string, second: number, data: Record<string, unknown> = {}, tool = ""): RunEventOut {
  seq += 1;
  return { seq, at: new Date(START + second * 1000).toISOString(), type, tool, data } as RunEventOut;
}

function build(...events: RunEventOut[]): Trace {
  return appendEvents(EMPTY_TRACE, events);
}

const seconds = (row: { start: number; end: number | null } | undefined) =>
  row && [(row.start - START) / 1000, row.end === null ? null : (row.end - START) / 1000];

test("a call of the model gathers its texts and tokens, and ends with its usage", () => {
  const trace = build(
    entry("step", 0, { step: 1 }),
    entry("reasoning", 1, { text: "Let me " }),
    entry("reasoning", 1, { text: "think." }),
    entry("content", 2, { text: "Hi" }),
    entry("usage", 3, { prompt_tokens: 10, completion_tokens: 2 }),
  );
  const [row] = trace.rows as ModelRow[];
  expect(trace.rows).toHaveLength(1);
  expect(row).toMatchObject({
    reasoning: "Let me think.",
    content: "Hi",
    promptTokens: 10,
    completionTokens: 2,
  });
  expect(seconds(row)).toEqual([0, 3]);
});

test("a tool call ends with the result of the same call, also if two are open", () => {
  const trace = build(
    entry("step", 0, { step: 1 }),
    entry("tool_call", 1, { call_id: "a", arguments: { path: "/" } }, "list"),
    entry("tool_call", 1, { call_id: "b", arguments: {} }, "read"),
    entry("tool_result", 4, { call_id: "a", content: "ok" }),
  );
  const [model, list, read] = trace.rows as [ModelRow, ToolRow, ToolRow];
  expect(seconds(model)).toEqual([0, 1]);
  expect(list).toMatchObject({ name: "list", args: { path: "/" }, result: "ok", isError: false });
  expect(seconds(list)).toEqual([1, 4]);
  expect(seconds(read)).toEqual([1, null]);
});

test("usage after the tool calls of its step still belongs to that step", () => {
  const trace = build(
    entry("step", 0, { step: 1 }),
    entry("tool_call", 1, { call_id: "a" }, "list"),
    entry("usage", 2, { prompt_tokens: 7 }),
  );
  expect((trace.rows[0] as ModelRow).promptTokens).toBe(7);
  expect(seconds(trace.rows[0])).toEqual([0, 1]);
});

test("an approval lasts from its request to its decision, and a refused call has a result without a beginning", () => {
  const trace = build(
    entry("approval_requested", 1, { call_id: "a", arguments: { cmd: "rm" } }, "shell"),
    entry("approval_resolved", 9, { call_id: "a", approved: false, reason: "Too dangerous." }),
    entry("tool_result", 9, { call_id: "a", content: "Refused.", is_error: true }, "shell"),
  );
  const [approval, tool] = trace.rows as [ApprovalRow, ToolRow];
  expect(approval).toMatchObject({ name: "shell", approved: false, reason: "Too dangerous." });
  expect(seconds(approval)).toEqual([1, 9]);
  expect(tool).toMatchObject({ name: "shell", isError: true });
  expect(seconds(tool)).toEqual([9, 9]);
});

test("a lost worker closes what was open, and the end closes the rest", () => {
  const retried = build(
    entry("step", 0, { step: 1 }),
    entry("tool_call", 1, { call_id: "a" }, "list"),
    entry("retried", 5, { text: "agent-1 was lost.", attempt: 1 }),
    entry("step", 6, { step: 1 }),
  );
  expect((retried.rows[0] as ModelRow).isLost).toBe(false);
  expect((retried.rows[1] as ToolRow).isLost).toBe(true);
  expect(retried.rows[2]).toMatchObject({ type: "retried", text: "agent-1 was lost.", isBad: true });
  const ended = appendEvents(retried, [entry("end", 8, { state: "failed", error_text: "No model." })]);
  expect(ended.isEnded).toBe(true);
  expect(seconds(ended.rows[3])).toEqual([6, 8]);
  expect(ended.rows.at(-1)).toMatchObject({ text: "Failed", detail: "No model.", isBad: true });
});

test("a run that begins again behind its end is open again", () => {
  const trace = build(entry("step", 0), entry("end", 1, { state: "failed", error_code: "worker_lost" }));
  expect(trace.isEnded).toBe(true);
  expect(appendEvents(trace, [entry("retried", 2, { text: "Begun again." })]).isEnded).toBe(false);
});

test("entries that came already change nothing, and rows that do not change stay the same objects", () => {
  const first = [entry("step", 0, { step: 1 }), entry("usage", 1, {}), entry("step", 2, { step: 2 })];
  const trace = build(...first);
  expect(appendEvents(trace, first)).toBe(trace);
  const grown = appendEvents(trace, [...first, entry("content", 3, { text: "x" })]);
  expect(grown.rows[0]).toBe(trace.rows[0]);
  expect(grown.rows[1]).not.toBe(trace.rows[1]);
});

test("texts without a step are shown, and dropped ones are marked", () => {
  const trace = build(entry("content", 0, { text: "a" }), entry("content", 1, { dropped: true }));
  expect(trace.rows).toHaveLength(1);
  expect(trace.rows[0]).toMatchObject({ content: "a", isCut: true, step: 1 });
});

test("notes say what was summarised, and warnings of servers are marked", () => {
  const trace = build(
    entry("compacted", 0, { messages: 1, tokens_before: 5000, tokens_after: 700, summary: "They spoke." }),
    entry("status", 1, { message: "Server files does not respond.", code: "mcp_unreachable" }),
    entry("unheard_of", 2),
  );
  const [compacted, status] = trace.rows as [NoteRow, NoteRow];
  expect(compacted.text).toBe("Summarised 1 earlier message: 5,000 to 700 tokens");
  expect(compacted.detail).toBe("They spoke.");
  expect(status.isBad).toBe(true);
  expect(trace.rows).toHaveLength(2);
});

test("the bars of an open run span up to now, those of an ended one up to its end", () => {
  const open = build(entry("step", 0), entry("content", 4, { text: "x" }));
  expect(computeSpan(open, START + 10_000)).toBe(10_000);
  // A browser whose clock is behind that of the worker.
  expect(computeSpan(open, START - 60_000)).toBe(4000);
  expect(computeSpan({ ...open, isEnded: true }, START + 10_000)).toBe(4000);
  expect(computeSpan(EMPTY_TRACE, START)).toBe(1);
});

test("values are shown as indented JSON, and as they are if they are none", () => {
  expect(formatValue({ a: 1 })).toBe('{\n  "a": 1\n}');
  expect(formatValue('[1,"x"]')).toBe('[\n  1,\n  "x"\n]');
  expect(formatValue("{not json")).toBe("{not json");
  expect(formatValue(undefined)).toBe("");
  expect(previewArguments({})).toBe("");
  expect(previewArguments({ path: "/" })).toBe('{"path":"/"}');
  expect(previewText({ content: "\nFirst\nsecond", reasoning: "" })).toBe("First");
  expect(previewText({ content: "", reasoning: "Because" })).toBe("Because");
});
