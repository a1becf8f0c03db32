import { expect, test } from "vitest";
import type { ThreadMessageOut } from "@/api/schema";
import type { StreamFrame } from "@/live/stream";
import {
  applyFrames,
  beginTurn,
  findRunningTurn,
  groupMessages,
  hintForFailure,
  LIVE_MAX,
  mergeTurns,
  NO_TURNS,
  settleTurn,
  showContent,
  type Turn,
} from "@/pages/agents/turns";

const PLACE = { run_id: "r1", thread_id: "t1" };
const frame = (kind: string, data: object): StreamFrame => ({ kind, data });
const question = (text = "hello", place: object = PLACE) =>
  frame("json_message", { id: "r1", sender: "user", content: text, timestamp: 5, metadata: place });
const piece = (type: string, more: object) => frame("stream_event", { type, ...more, ...PLACE });
const status = (word: string) => frame("json_message_status", { status: word, ...PLACE });
const answered = (text: string) =>
  frame("json_message", { id: "r1-agent", sender: "agent", content: text, metadata: PLACE });

const follow = (...frames: StreamFrame[]): Turn => {
  const turn = applyFrames(NO_TURNS, frames).get("r1");
  if (!turn) throw new Error("No turn.");
  return turn;
};

const message = (seq: number, role: string, more: Partial<ThreadMessageOut> = {}): ThreadMessageOut => ({
  seq,
  role,
  run_id: "r1",
  created_at: "2026-11-18T12:00:00Z",
  ...more,
});

test("a turn grows by its pieces, and ends with its answer", () => {
  const turn = follow(
    question(),
    status("processing"),
    piece("reasoning", { content: "Hm" }),
    piece("reasoning", { content: "m." }),
    piece("tool_call", { call_id: "c1", tool_name: "barn", tool_args: { hay: 3 } }),
    piece("tool_result", { call_id: "c1", tool_name: "barn", tool_result: "2 left", is_error: false }),
    piece("content", { content: "It is " }),
    piece("content", { content: "fed." }),
    piece("done", { state: "completed", reason: "answer" }),
    answered("It is fed."),
    status("completed"),
  );
  expect(turn).toMatchObject({ question: "hello", state: "completed", reason: "answer", sentAt: 5 });
  expect(turn.parts).toEqual([
    { kind: "reasoning", text: "Hmm." },
    {
      kind: "tool",
      callId: "c1",
      name: "barn",
      args: { hay: 3 },
      result: "2 left",
      isError: false,
      isDone: true,
    },
    { kind: "text", text: "It is fed." },
  ]);
});

test("a stream that begins a turn again doubles nothing", () => {
  const frames = [question(), status("processing"), piece("content", { content: "One." })];
  expect(follow(...frames, ...frames).parts).toEqual([{ kind: "text", text: "One." }]);
});

test("a message that was just sent is shown before the stream has it, and once", () => {
  const sent = beginTurn(NO_TURNS, { runId: "r1", threadId: "t1", question: "hello" });
  expect(sent.get("r1")).toMatchObject({ question: "hello", state: "open" });
  const followed = applyFrames(sent, [question(), piece("content", { content: "Hi" })]);
  expect(followed.size).toBe(1);
  expect(beginTurn(followed, { runId: "r1", threadId: "t1", question: "hello" })).toBe(followed);
});

test("the answer has what the stream left out, and keeps text before the last tool call", () => {
  const turn = follow(
    question(),
    piece("content", { content: "Let me see." }),
    piece("tool_call", { call_id: "c1", tool_name: "barn" }),
    piece("tool_result", { call_id: "c1", tool_result: "x" }),
    piece("content", { content: "All" }),
    answered("All of it."),
  );
  expect(turn.parts.map((part) => (part.kind === "tool" ? part.name : part.text))).toEqual([
    "Let me see.",
    "barn",
    "All of it.",
  ]);
});

test("a turn that is begun again forgets what the lost worker wrote", () => {
  const turn = follow(question(), piece("content", { content: "Half" }), status("retrying"));
  expect(turn).toMatchObject({ parts: [], state: "open", isRetried: true });
});

test("a failure is an error and a cancelled turn is none", () => {
  const failed = follow(
    question(),
    frame("json_error", { error: "No model.", code: "model_failed", ...PLACE }),
    status("error"),
  );
  expect(failed).toMatchObject({ state: "failed", error: { message: "No model.", code: "model_failed" } });
  expect(follow(question(), status("cancelled"))).toMatchObject({ state: "cancelled", error: null });
});

test("a tool call that waits is shown as waiting until it is decided", () => {
  expect(follow(question(), status("waiting_approval")).state).toBe("waiting");
  expect(follow(question(), status("waiting_approval"), status("processing")).state).toBe("open");
});

test("a refused call has its result without a call", () => {
  const turn = follow(
    question(),
    piece("tool_result", { call_id: "c1", tool_name: "rm", tool_result: "refused", is_error: true }),
  );
  expect(turn.parts).toMatchObject([{ name: "rm", isError: true, isDone: true }]);
});

test("stored messages become turns, also where a message stands before the answer of an earlier one", () => {
  const turns = groupMessages(
    [
      message(1, "user", { content: "one" }),
      message(2, "user", { content: "two", run_id: "r2" }),
      message(3, "assistant", {
        content: null,
        tool_calls: [{ id: "c1", function: { name: "barn", arguments: '{"hay":3}' } }],
      }),
      message(4, "tool", { content: "2 left", tool_call_id: "c1" }),
      message(5, "assistant", { content: "Fed." }),
    ],
    "t1",
  );
  expect(turns.map(({ question: text, state, parts }) => [text, state, parts.length])).toEqual([
    ["one", "completed", 2],
    ["two", "stored", 0],
  ]);
  expect(turns[0]?.parts[0]).toMatchObject({
    name: "barn",
    args: '{"hay":3}',
    result: "2 left",
    isDone: true,
  });
});

test("a turn that is stored and followed is shown once, with its reasoning", () => {
  const stored = groupMessages([message(1, "user", { content: "hello" })], "t1");
  const live = applyFrames(NO_TURNS, [question(), piece("reasoning", { content: "Hm" })]);
  const other = applyFrames(live, [question("elsewhere", { run_id: "r9", thread_id: "t2" })]);
  const merged = mergeTurns(stored, other, "t1");
  expect(merged).toHaveLength(1);
  expect(merged[0]?.parts).toEqual([{ kind: "reasoning", text: "Hm" }]);
  expect(mergeTurns([], live, "t1")).toHaveLength(1);
});

test("a stored answer wins over a stream that was cut before the end", () => {
  const stored = groupMessages(
    [message(1, "user", { content: "hello" }), message(2, "assistant", { content: "Hi." })],
    "t1",
  );
  const live = applyFrames(NO_TURNS, [question(), piece("content", { content: "H" })]);
  expect(mergeTurns(stored, live, "t1")[0]?.parts).toEqual([{ kind: "text", text: "Hi." }]);
});

const run = (state: string, more: object = {}) => ({
  state,
  error_text: null,
  error_code: null,
  reason: "",
  content: "",
  ...more,
});

test("the run says how a turn without an answer ended", () => {
  const turn = groupMessages([message(1, "user", { content: "hello" })], "t1")[0] as Turn;
  expect(settleTurn(turn, undefined).state).toBe("stored");
  expect(settleTurn(turn, run("running")).state).toBe("open");
  expect(settleTurn(turn, run("cancelled")).state).toBe("cancelled");
  expect(settleTurn(turn, run("failed", { error_text: "No.", error_code: "x" })).error).toEqual({
    message: "No.",
    code: "x",
  });
  expect(settleTurn(turn, run("lost")).error?.code).toBe("lost");
  expect(settleTurn(turn, run("completed", { content: "Hi." })).parts).toEqual([
    { kind: "text", text: "Hi." },
  ]);
  const ended = follow(question(), status("completed"));
  expect(settleTurn(ended, run("running"))).toBe(ended);
});

test("the oldest open turn is the one that is stopped", () => {
  const turns = [follow(question(), status("completed")), follow(question("two")), follow(question("three"))];
  expect(findRunningTurn(turns)?.question).toBe("two");
  expect(findRunningTurn([])).toBeUndefined();
});

test("the content of a message may be a list of parts, or nothing", () => {
  expect(showContent([{ type: "text", text: "a" }, { type: "image_url" }, { type: "text", text: "b" }])).toBe(
    "a\nb",
  );
  expect(showContent(null)).toBe("");
  expect(showContent({ x: 1 })).toBe('{"x":1}');
});

test("every failure has a hint", () => {
  expect(hintForFailure("model_not_found")).toContain("configuration");
  expect(hintForFailure("unknown")).toContain("trace");
});

test("turns that ended long ago are forgotten, and open ones are not", () => {
  const frames = Array.from({ length: LIVE_MAX + 5 }, (_, number) => {
    const place = { run_id: `r${number}`, thread_id: "t1" };
    const end = frame("json_message_status", { status: "completed", ...place });
    return [question("x", place), ...(number === 0 ? [] : [end])];
  });
  const turns = applyFrames(NO_TURNS, frames.flat());
  expect(turns.size).toBe(LIVE_MAX + 1);
  expect([turns.has("r0"), turns.has("r4"), turns.has("r5")]).toEqual([true, false, true]);
});
