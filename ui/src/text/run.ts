// Describes runs in words, in the same way for lists, nodes, agents and tasks.
import type { RunOut, RunUsageOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { duration, formatCount, plural, UNKNOWN } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

const FINAL = new Set(["completed", "failed", "cancelled", "lost"]);

/** Whether a run has not ended. */
export const isOpenRun = (state: string): boolean => !FINAL.has(state);

const TONES: Record<string, Tone> = {
  leased: "busy",
  running: "busy",
  waiting_approval: "warn",
  completed: "good",
  failed: "bad",
  lost: "bad",
};

export function runWord(state: string): { text: string; tone: Tone } {
  return { text: findStateWord("run", state), tone: TONES[state] ?? "still" };
}

export const describeRunKind = (kind: string): string => findStateWord("run_kind", kind);

/** The name of a run for people: that of its agent, task or model. */
export const nameRun = (run: Pick<RunOut, "kind" | "subject">): string =>
  run.subject || describeRunKind(run.kind);

export const describeTrigger = (trigger: string): string => findStateWord("trigger", trigger);

const LIMITS: Record<string, string> = {
  steps: "Stopped at its limit of model calls.",
  tool_calls: "Stopped at its limit of tool calls.",
  tokens: "Stopped at its limit of tokens.",
  wall_clock: "Stopped at its time limit.",
  loop: "Stopped because the same tool call was repeated.",
  client_tool: "Ended with a call of the caller's own tool.",
};

/** Why a run ended before its model was done; null if nothing cut it short. */
export function describeCut(reason: string): string | null {
  return LIMITS[reason] ?? null;
}

/** `2 model calls, 1 tool call, 1.2K tokens`; empty while nothing was used. */
export function describeUsage(usage: RunUsageOut): string {
  const tokens = usage.prompt_tokens + usage.completion_tokens;
  const parts = [
    usage.steps > 0 && plural(usage.steps, "model call"),
    usage.tool_calls > 0 && plural(usage.tool_calls, "tool call"),
    tokens > 0 && `${formatCount(tokens)} tokens`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** How long a run has worked, up to its end or now; null if it has not begun. */
export function describeRunTime(
  run: Pick<RunOut, "started_at" | "finished_at">,
  now: number = Date.now(),
): string | null {
  if (!run.started_at) return null;
  const end = run.finished_at ? Date.parse(run.finished_at) : now;
  const text = duration(Math.max(0, end - Date.parse(run.started_at)) / 1000);
  return text === UNKNOWN ? null : text;
}

/** What a row says beside the name: the error of a failed run, the tool that waits for a person, or the message. */
export function describeRun(
  run: Pick<RunOut, "state" | "message" | "error_text" | "approvals" | "reason">,
): string {
  if (run.error_text) return run.error_text;
  if (run.state === "waiting_approval") {
    const tools = listPendingApprovals(run).map((approval) => approval.tool);
    if (tools.length > 0) return `Tool ${tools.join(", ")} needs approval.`;
  }
  if (run.state === "completed") return describeCut(run.reason ?? "") ?? run.message;
  return run.message;
}

/** The tool calls that wait for approval. */
export function listPendingApprovals(run: Pick<RunOut, "state" | "approvals">) {
  if (run.state !== "waiting_approval") return [];
  return (run.approvals ?? []).filter((approval) => approval.approved == null);
}
