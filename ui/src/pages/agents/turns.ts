// Builds the turns of a conversation from stored messages and from the stream of the agent. Pure.
//
// A turn that is under way comes from the stream, from its beginning; one that has ended comes from the messages. The
// beginning of a turn in the stream replaces what was known of it, so nothing is doubled when a stream begins again.
import type { RunOut, ThreadMessageOut } from "@/api/schema";
import type { StreamFrame } from "@/live/stream";
import { isOpenRun } from "@/text/run";

/** The events of the stream: EventSource delivers only events whose names it has a listener for. */
export const AGENT_EVENTS = ["json_message", "json_message_status", "stream_event", "json_error"] as const;

export interface TextPart {
  kind: "text";
  text: string;
}

export interface ReasoningPart {
  kind: "reasoning";
  text: string;
}

export interface ToolPart {
  kind: "tool";
  callId: string;
  name: string;
  args: unknown;
  result: unknown;
  isError: boolean;
  isDone: boolean;
}

export type TurnPart = TextPart | ReasoningPart | ToolPart;

/** `stored`: known from messages only, and not answered there. Its run says how it ended. */
export type TurnState = "open" | "waiting" | "completed" | "cancelled" | "failed" | "stored";

export interface Turn {
  runId: string;
  threadId: string | null;
  question: string;
  /** In milliseconds. */
  sentAt: number;
  parts: readonly TurnPart[];
  state: TurnState;
  error: { message: string; code: string } | null;
  /** Why the turn ended, such as `answer` or the limit that it reached. */
  reason: string;
  /** Whether a worker was lost and another one began again. */
  isRetried: boolean;
}

/** Turns of the stream, by the id of their run, in the order of their beginning. */
export type LiveTurns = ReadonlyMap<string, Turn>;

export const NO_TURNS: LiveTurns = new Map();
/** More than these that have ended are forgotten, the oldest first: their messages are stored. */
export const LIVE_MAX = 100;

export const isOpenTurn = ({ state }: Pick<Turn, "state">): boolean =>
  state === "open" || state === "waiting";

/** The turn of a message that was just sent, until the stream has it. */
export function beginTurn(turns: LiveTurns, begun: Pick<Turn, "runId" | "threadId" | "question">): LiveTurns {
  if (turns.has(begun.runId)) return turns;
  return new Map(turns).set(begun.runId, { ...makeTurn(begun.runId, begun.threadId), ...begun });
}

export function applyFrames(turns: LiveTurns, frames: readonly StreamFrame[]): LiveTurns {
  const next = new Map(turns);
  for (const frame of frames) applyFrame(next, frame);
  const ended = [...next.values()].filter((turn) => !isOpenTurn(turn));
  for (const { runId } of ended.slice(0, Math.max(0, ended.length - LIVE_MAX))) next.delete(runId);
  return next;
}

type Fields = Record<string, unknown>;

function applyFrame(turns: Map<string, Turn>, { kind, data }: StreamFrame): void {
  const fields = (data ?? {}) as Fields;
  const place = kind === "json_message" ? ((fields.metadata ?? {}) as Fields) : fields;
  const runId = readText(place, "run_id");
  if (!runId) return;
  const threadId = readText(place, "thread_id") || null;
  const before = turns.get(runId) ?? makeTurn(runId, threadId);
  turns.set(runId, changeTurn(before, kind, fields, threadId));
}

function changeTurn(turn: Turn, kind: string, fields: Fields, threadId: string | null): Turn {
  switch (kind) {
    case "json_message":
      if (fields.sender === "agent") return setAnswer(turn, showContent(fields.content));
      return {
        ...makeTurn(turn.runId, threadId),
        question: showContent(fields.content),
        sentAt: readNumber(fields, "timestamp"),
      };
    case "json_message_status":
      return setStatus(turn, readText(fields, "status"));
    case "stream_event":
      return addPiece(turn, fields);
    case "json_error":
      return {
        ...turn,
        state: "failed",
        error: { message: readText(fields, "error"), code: readText(fields, "code") },
      };
    default:
      return turn;
  }
}

function makeTurn(runId: string, threadId: string | null): Turn {
  return {
    runId,
    threadId,
    question: "",
    sentAt: 0,
    parts: [],
    state: "open",
    error: null,
    reason: "",
    isRetried: false,
  };
}

function setStatus(turn: Turn, status: string): Turn {
  switch (status) {
    case "waiting_approval":
      return { ...turn, state: "waiting" };
    case "retrying":
      // Another worker begins at the beginning.
      return { ...turn, state: "open", parts: [], isRetried: true };
    case "processing":
      return { ...turn, state: "open" };
    case "completed":
      return { ...turn, state: "completed" };
    case "cancelled":
      return { ...turn, state: "cancelled" };
    case "error":
      return { ...turn, state: "failed" };
    default:
      return turn;
  }
}

function addPiece(turn: Turn, fields: Fields): Turn {
  switch (fields.type) {
    case "reasoning":
      return { ...turn, parts: addText(turn.parts, "reasoning", readText(fields, "content")) };
    case "content":
      return { ...turn, parts: addText(turn.parts, "text", readText(fields, "content")) };
    case "tool_call":
      return { ...turn, parts: [...turn.parts, makeToolPart(fields)] };
    case "tool_result":
      return { ...turn, parts: addResult(turn.parts, fields) };
    case "done":
      return { ...turn, reason: readText(fields, "reason") };
    default:
      return turn;
  }
}

function addText(parts: readonly TurnPart[], kind: "text" | "reasoning", text: string): readonly TurnPart[] {
  const last = parts.at(-1);
  if (last?.kind !== kind) return text ? [...parts, { kind, text }] : parts;
  return [...parts.slice(0, -1), { kind, text: last.text + text }];
}

function makeToolPart(fields: Fields): ToolPart {
  return {
    kind: "tool",
    callId: readText(fields, "call_id"),
    name: readText(fields, "tool_name") || "tool",
    args: fields.tool_args,
    result: undefined,
    isError: false,
    isDone: false,
  };
}

function addResult(parts: readonly TurnPart[], fields: Fields): readonly TurnPart[] {
  const callId = readText(fields, "call_id");
  const finish = (part: ToolPart): ToolPart => ({
    ...part,
    result: fields.tool_result,
    isError: fields.is_error === true,
    isDone: true,
  });
  const place = parts.findLastIndex((part) => part.kind === "tool" && !part.isDone && part.callId === callId);
  const part = parts[place];
  // A refused call has a result without having begun.
  if (part?.kind !== "tool") return [...parts, finish(makeToolPart(fields))];
  return parts.with(place, finish(part));
}

/** The answer replaces the text behind the last tool call: a long one may have been left out of the stream in part. */
function setAnswer(turn: Turn, content: string): Turn {
  if (!content) return turn;
  const last = turn.parts.findLastIndex((part) => part.kind === "tool");
  const kept = turn.parts.filter((part, place) => place <= last || part.kind !== "text");
  return { ...turn, parts: [...kept, { kind: "text", text: content }] };
}

/** The turns of stored messages. A message that was sent while another turn ran stands before the answer of that turn. */
export function groupMessages(messages: readonly ThreadMessageOut[], threadId: string): Turn[] {
  const turns = new Map<string, Turn>();
  for (const message of messages) {
    const key = message.run_id ?? `message ${message.seq}`;
    const before: Turn = turns.get(key) ?? {
      ...makeTurn(message.run_id ?? "", threadId),
      sentAt: Date.parse(message.created_at),
      state: "stored",
    };
    turns.set(key, addMessage(before, message));
  }
  return [...turns.values()];
}

function addMessage(turn: Turn, message: ThreadMessageOut): Turn {
  const text = showContent(message.content);
  if (message.role === "user") return { ...turn, question: text };
  if (message.role === "tool") {
    const fields = { call_id: message.tool_call_id ?? "", tool_result: text };
    return { ...turn, parts: addResult(turn.parts, fields) };
  }
  const calls = (message.tool_calls ?? []).map(readCall);
  const texts: TurnPart[] = text ? [{ kind: "text", text }] : [];
  return { ...turn, state: "completed", parts: [...turn.parts, ...texts, ...calls] };
}

function readCall(call: unknown): ToolPart {
  const { id, function: called } = (call ?? {}) as { id?: unknown; function?: Fields };
  return makeToolPart({
    call_id: typeof id === "string" ? id : "",
    tool_name: called?.name,
    tool_args: called?.arguments,
  });
}

/** The turns of a thread, oldest first: those of its messages, and those of the stream that are not stored yet. */
export function mergeTurns(stored: readonly Turn[], live: LiveTurns, threadId: string): Turn[] {
  const known = new Set(stored.map((turn) => turn.runId));
  const merged = stored.map((turn) => {
    const followed = live.get(turn.runId);
    // A stream that was cut may not know yet that the turn has ended.
    return followed && !(isOpenTurn(followed) && turn.state === "completed") ? followed : turn;
  });
  const fresh = [...live.values()].filter((turn) => turn.threadId === threadId && !known.has(turn.runId));
  return [...merged, ...fresh];
}

/** The state of a turn, with what its run says where the stream does not know, or does not know yet. */
export function settleTurn(
  turn: Turn,
  run: Pick<RunOut, "state" | "error_text" | "error_code" | "reason" | "content"> | undefined,
): Turn {
  if (!run || turn.state === "completed" || turn.state === "cancelled" || turn.state === "failed")
    return turn;
  if (isOpenRun(run.state)) {
    return turn.state === "stored" ? { ...turn, state: "open" } : turn;
  }
  const reason = run.reason ?? "";
  if (run.state === "completed") {
    return { ...setAnswer(turn, run.content ?? ""), state: "completed", reason };
  }
  if (run.state === "cancelled") return { ...turn, state: "cancelled", reason };
  const message = run.error_text || (run.state === "lost" ? "The run was lost." : "The turn failed.");
  return { ...turn, state: "failed", error: { message, code: run.error_code ?? run.state } };
}

/** The turn that a stop button ends: the oldest that is open, for which the others wait. */
export const findRunningTurn = (turns: readonly Turn[]): Turn | undefined => turns.find(isOpenTurn);

/** The text of a message, whose content may be a list of parts. */
export function showContent(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content == null ? "" : JSON.stringify(content);
  return content
    .map((part: unknown) => {
      const text = (part as Fields | null)?.text;
      return typeof text === "string" ? text : "";
    })
    .filter(Boolean)
    .join("\n");
}

function readText(fields: Fields, name: string): string {
  const value = fields[name];
  return typeof value === "string" ? value : "";
}

function readNumber(fields: Fields, name: string): number {
  const value = fields[name];
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

const HINTS: Record<string, string> = {
  model_not_found: "Choose another model in the configuration of the agent.",
  mcp_server_not_found: "Remove the server in the configuration of the agent, or ask an admin to declare it.",
  frontend_unreachable: "Send the message again when the cluster is well.",
  model_stream_broken: "Send the message again.",
  runner_lost: "Send the message again.",
  worker_stopping: "Send the message again.",
  answer_too_large: "Ask for a shorter answer, or set Max tokens.",
  no_free_place: "Send the message again when fewer agents work.",
  lost: "A tool call may have had effects. Look at the trace before you send the message again.",
};

/** What to do about a turn that failed. */
export const hintForFailure = (code: string): string =>
  HINTS[code] ?? "The trace shows what happened before. Send the message again to retry.";
