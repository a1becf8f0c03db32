// Builds the rows of a run's trace from its entries: calls of the model and of tools, approvals, and notes. Pure.
import type { RunEventOut } from "@/api/schema";
import { formatCount, plural } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

/** Every type of entry: EventSource delivers only events whose names it has a listener for. */
export const TRACE_EVENTS = [
  "status",
  "step",
  "reasoning",
  "content",
  "tool_call",
  "tool_result",
  "approval_requested",
  "approval_resolved",
  "usage",
  "compacted",
  "retried",
  "end",
] as const;

interface BaseRow {
  /** The number of the entry that began the row. */
  seq: number;
  /** Times in milliseconds; `end` is null while the row is open. */
  start: number;
  end: number | null;
}

export interface ModelRow extends BaseRow {
  kind: "model";
  step: number;
  reasoning: string;
  content: string;
  /** Whether text was left out because the trace had reached its limit. */
  isCut: boolean;
  promptTokens: number;
  completionTokens: number;
  isEstimated: boolean;
  /** Whether the worker was lost during the call. */
  isLost: boolean;
}

export interface ToolRow extends BaseRow {
  kind: "tool";
  callId: string;
  name: string;
  args: unknown;
  result: unknown;
  isError: boolean;
  isLost: boolean;
}

export interface ApprovalRow extends BaseRow {
  kind: "approval";
  callId: string;
  name: string;
  args: unknown;
  /** Null until the worker has received a decision. */
  approved: boolean | null;
  reason: string;
}

export interface NoteRow extends BaseRow {
  kind: "note";
  type: "status" | "compacted" | "retried" | "end";
  text: string;
  detail: string;
  isBad: boolean;
}

export type TraceRow = ModelRow | ToolRow | ApprovalRow | NoteRow;

export interface Trace {
  rows: readonly TraceRow[];
  lastSeq: number;
  /** The times of the first and of the last entry, in milliseconds; null without entries. */
  start: number | null;
  end: number | null;
  isEnded: boolean;
}

export const EMPTY_TRACE: Trace = { rows: [], lastSeq: 0, start: null, end: null, isEnded: false };

/** Returns the trace with new entries. Entries that it has already are ignored; rows that do not change are kept. */
export function appendEvents(trace: Trace, events: readonly RunEventOut[]): Trace {
  const fresh = events.filter((event) => event.seq > trace.lastSeq);
  if (fresh.length === 0) return trace;
  const builder = new TraceBuilder([...trace.rows]);
  let { start, end, isEnded, lastSeq } = trace;
  for (const event of fresh) {
    if (event.seq <= lastSeq) continue;
    lastSeq = event.seq;
    const at = Date.parse(event.at);
    start = start === null ? at : Math.min(start, at);
    end = end === null ? at : Math.max(end, at);
    builder.add(event, at);
    // A run whose worker reported its own loss begins again behind the entry `end`.
    isEnded = event.type === "end" || (isEnded && event.type !== "retried");
  }
  return { rows: builder.rows, lastSeq, start, end, isEnded };
}

class TraceBuilder {
  constructor(readonly rows: TraceRow[]) {}

  add(event: RunEventOut, at: number): void {
    const data = event.data ?? {};
    switch (event.type) {
      case "step":
        this.closeModel(at);
        this.push(makeModelRow(event.seq, at, readNumber(data, "step") || this.countSteps() + 1));
        return;
      case "reasoning":
      case "content":
        this.addText(event, at);
        return;
      case "usage":
        this.addUsage(data, at);
        return;
      case "tool_call":
        this.closeModel(at);
        this.push(makeToolRow(event, at));
        return;
      case "tool_result":
        this.addResult(event, at);
        return;
      case "approval_requested":
        this.closeModel(at);
        this.push({
          kind: "approval",
          seq: event.seq,
          start: at,
          end: null,
          callId: readText(data, "call_id"),
          name: readName(event),
          args: data.arguments,
          approved: null,
          reason: "",
        });
        return;
      case "approval_resolved":
        this.change(
          (row) => row.kind === "approval" && row.end === null && row.callId === readText(data, "call_id"),
          (row) =>
            ({
              ...row,
              end: at,
              approved: data.approved === true,
              reason: readText(data, "reason"),
            }) as ApprovalRow,
        );
        return;
      case "retried":
        this.closeAll(at, true);
        this.push(makeNote(event, at));
        return;
      case "end":
        this.closeAll(at, false);
        this.push(makeNote(event, at));
        return;
      case "status":
      case "compacted":
        this.push(makeNote(event, at));
        return;
      default:
    }
  }

  private push(row: TraceRow): void {
    this.rows.push(row);
  }

  /** Replaces the last row that matches; false if there is none. */
  private change(matches: (row: TraceRow) => boolean, apply: (row: TraceRow) => TraceRow): boolean {
    const place = this.rows.findLastIndex(matches);
    const row = this.rows[place];
    if (!row) return false;
    this.rows[place] = apply(row);
    return true;
  }

  private countSteps(): number {
    return this.rows.filter((row) => row.kind === "model").length;
  }

  private addText(event: RunEventOut, at: number): void {
    const data = event.data ?? {};
    const part = event.type === "reasoning" ? "reasoning" : "content";
    if (!this.rows.some(isOpenModel)) this.push(makeModelRow(event.seq, at, this.countSteps() + 1));
    this.change(isOpenModel, (row) => {
      const model = row as ModelRow;
      return {
        ...model,
        [part]: model[part] + readText(data, "text"),
        isCut: model.isCut || data.dropped === true,
      };
    });
  }

  /** The usage of a call is its last entry. */
  private addUsage(data: Record<string, unknown>, at: number): void {
    this.change(
      (row) => row.kind === "model",
      (row) => {
        const model = row as ModelRow;
        return {
          ...model,
          end: model.end ?? at,
          promptTokens: model.promptTokens + readNumber(data, "prompt_tokens"),
          completionTokens: model.completionTokens + readNumber(data, "completion_tokens"),
          isEstimated: model.isEstimated || data.is_estimated === true,
        };
      },
    );
  }

  private addResult(event: RunEventOut, at: number): void {
    const data = event.data ?? {};
    const callId = readText(data, "call_id");
    const finish = (row: ToolRow): ToolRow => ({
      ...row,
      end: at,
      result: data.content,
      isError: data.is_error === true,
    });
    const isFound = this.change(
      (row) => row.kind === "tool" && row.end === null && row.callId === callId,
      (row) => finish(row as ToolRow),
    );
    // A refused call has a result without having begun.
    if (!isFound) this.push(finish(makeToolRow(event, at)));
  }

  private closeModel(at: number): void {
    this.change(isOpenModel, (row) => ({ ...row, end: at }));
  }

  private closeAll(at: number, isLost: boolean): void {
    for (const [place, row] of this.rows.entries()) {
      if (row.end !== null) continue;
      const canBeLost = row.kind === "model" || row.kind === "tool";
      this.rows[place] = { ...row, end: at, ...(isLost && canBeLost ? { isLost: true } : {}) } as TraceRow;
    }
  }
}

const isOpenModel = (row: TraceRow): boolean => row.kind === "model" && row.end === null;

function makeModelRow(seq: number, at: number, step: number): ModelRow {
  return {
    kind: "model",
    seq,
    start: at,
    end: null,
    step,
    reasoning: "",
    content: "",
    isCut: false,
    promptTokens: 0,
    completionTokens: 0,
    isEstimated: false,
    isLost: false,
  };
}

function makeToolRow(event: RunEventOut, at: number): ToolRow {
  const data = event.data ?? {};
  return {
    kind: "tool",
    seq: event.seq,
    start: at,
    end: null,
    callId: readText(data, "call_id"),
    name: readName(event),
    args: data.arguments,
    result: undefined,
    isError: false,
    isLost: false,
  };
}

function makeNote(event: RunEventOut, at: number): NoteRow {
  const data = event.data ?? {};
  const note = { kind: "note" as const, seq: event.seq, start: at, end: at, detail: "", isBad: false };
  switch (event.type) {
    case "compacted":
      return {
        ...note,
        type: "compacted",
        text: describeCompaction(data),
        detail: readText(data, "summary"),
      };
    case "retried":
      return { ...note, type: "retried", text: readText(data, "text") || "Begun again.", isBad: true };
    case "end": {
      const state = readText(data, "state");
      const detail = readText(data, "error_text");
      const isBad = state === "failed" || state === "lost";
      const word = findStateWord("run", state || "completed");
      return { ...note, type: "end", text: `${word.charAt(0).toUpperCase()}${word.slice(1)}`, detail, isBad };
    }
    default:
      return { ...note, type: "status", text: readText(data, "message"), isBad: Boolean(data.code) };
  }
}

function describeCompaction(data: Record<string, unknown>): string {
  const before = readNumber(data, "tokens_before");
  const after = readNumber(data, "tokens_after");
  const size = before > 0 ? `: ${formatCount(before)} to ${formatCount(after)} tokens` : "";
  return `Summarised ${plural(readNumber(data, "messages"), "earlier message")}${size}`;
}

function readName(event: RunEventOut): string {
  return event.tool || readText(event.data ?? {}, "name") || "tool";
}

function readText(data: Record<string, unknown>, name: string): string {
  const value = data[name];
  return typeof value === "string" ? value : "";
}

function readNumber(data: Record<string, unknown>, name: string): number {
  const value = data[name];
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

/** The time that the bars span, in milliseconds, and at least one: up to the last entry, or to now while it is open. */
export function computeSpan(trace: Pick<Trace, "start" | "end" | "isEnded">, now: number): number {
  const { start, end, isEnded } = trace;
  if (start === null || end === null) return 1;
  return Math.max(1, (isEnded ? end : Math.max(end, now)) - start);
}

/** Arguments and results as text: JSON is indented, also where a tool returns it as text. */
export function formatValue(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  if (!/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

const PREVIEW_MAX = 120;

/** Arguments in one line, for the head of a row. */
export function previewArguments(value: unknown): string {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text === "{}" ? "" : text.slice(0, PREVIEW_MAX);
}

/** The first line of an answer, for the head of a row. */
export function previewText(row: Pick<ModelRow, "content" | "reasoning">): string {
  const text = row.content.trim() || row.reasoning.trim();
  return (text.split("\n", 1)[0] ?? "").slice(0, PREVIEW_MAX);
}
