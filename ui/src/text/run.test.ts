import { expect, test } from "vitest";
import type { RunOut } from "@/api/schema";
import {
  describeCut,
  describeRun,
  describeRunKind,
  describeRunTime,
  describeUsage,
  isOpenRun,
  listPendingApprovals,
  nameRun,
  runWord,
} from "@/text/run";

const run = (more: Partial<RunOut>): RunOut =>
  ({ state: "running", message: "Runs on agent-1.", reason: "", approvals: [], ...more }) as RunOut;

test("every state of a run has a word and a tone, and four of them are final", () => {
  expect(runWord("waiting_approval")).toEqual({ text: "waiting for approval", tone: "warn" });
  expect(runWord("lost")).toEqual({ text: "lost", tone: "bad" });
  expect(runWord("queued").tone).toBe("still");
  const states = [
    "queued",
    "leased",
    "running",
    "waiting_approval",
    "completed",
    "failed",
    "cancelled",
    "lost",
  ];
  expect(states.filter(isOpenRun)).toEqual(["queued", "leased", "running", "waiting_approval"]);
});

test("a run has the name of its subject, and its kind if it has none", () => {
  expect(nameRun({ kind: "agent_turn", subject: "helper" })).toBe("helper");
  expect(nameRun({ kind: "agent_turn", subject: "" })).toBe("agent turn");
  expect(describeRunKind("new_kind")).toBe("new kind");
});

test("usage leaves out what was not used", () => {
  const none = { prompt_tokens: 0, completion_tokens: 0, steps: 0, tool_calls: 0 };
  expect(describeUsage(none)).toBe("");
  expect(describeUsage({ prompt_tokens: 900, completion_tokens: 100, steps: 1, tool_calls: 2 })).toBe(
    "1 model call, 2 tool calls, 1,000 tokens",
  );
});

test("the time of a run ends with it, goes on while it is open, and is unknown before it begins", () => {
  const started_at = "2026-01-01T00:00:00Z";
  expect(describeRunTime({ started_at, finished_at: "2026-01-01T00:01:05Z" })).toBe("1 min 5 s");
  expect(describeRunTime({ started_at }, Date.parse(started_at) + 12_000)).toBe("12 s");
  expect(describeRunTime({})).toBeNull();
});

test("a row names the error, the tool that needs approval, or what cut the run short", () => {
  expect(describeRun(run({ state: "failed", error_text: "The model is gone." }))).toBe("The model is gone.");
  const approvals = [
    { call_id: "1", tool: "shell", reason: "" },
    { call_id: "2", tool: "mail", reason: "", approved: true },
  ];
  expect(describeRun(run({ state: "waiting_approval", approvals }))).toBe("Tool shell needs approval.");
  expect(describeRun(run({ state: "completed", reason: "steps" }))).toBe(
    "Stopped at its limit of model calls.",
  );
  expect(describeRun(run({ state: "completed", reason: "answer" }))).toBe("Runs on agent-1.");
  expect(describeCut("answer")).toBeNull();
});

test("a decided tool call is not pending, and none is after the run has gone on", () => {
  const approvals = [{ call_id: "1", tool: "shell", reason: "" }];
  expect(listPendingApprovals(run({ state: "waiting_approval", approvals }))).toHaveLength(1);
  expect(listPendingApprovals(run({ state: "cancelled", approvals }))).toHaveLength(0);
});
