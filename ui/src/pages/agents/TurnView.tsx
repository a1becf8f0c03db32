// One turn: the message, what the agent did about it as it happens, its answer, or why there is none.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { memo, useState } from "react";
import { asProblem, Problem } from "@/api/client";
import type { RunOut } from "@/api/schema";
import { AnswerText } from "@/kit/AnswerText";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon } from "@/kit/icons";
import { Pill } from "@/kit/status";
import { StopButton } from "@/pages/agents/MessageForm";
import {
  hintForFailure,
  isOpenTurn,
  settleTurn,
  type ToolPart,
  type Turn,
  type TurnPart,
} from "@/pages/agents/turns";
import { ApprovalForm } from "@/pages/runs/ApprovalForm";
import { runQuery } from "@/pages/runs/queries";
import { formatValue, previewArguments } from "@/pages/runs/trace";
import { useHasScope } from "@/shell/me";
import { describeCut, describeRunTime, describeUsage, listPendingApprovals, runWord } from "@/text/run";

interface TurnViewProps {
  turn: Turn;
  agent: string;
  isLast: boolean;
  /** Whether the stream has followed it. */
  isLive: boolean;
}

export const TurnView = memo(function TurnView({ turn: known, agent, isLast, isLive }: TurnViewProps) {
  const isAdmin = useHasScope("admin");
  // The messages of a turn that was answered long ago say all; its run is a link away.
  const needsRun = known.runId !== "" && (isLast || isLive || known.state !== "completed");
  const query = useQuery({ ...runQuery(known.runId, isAdmin), enabled: needsRun });
  const run = query.data;
  const turn = settleTurn(known, run);
  const isOpen = isOpenTurn(turn);
  return (
    <article className="chat-turn">
      {turn.question && (
        <p className="chat-question">
          <span className="unseen">You: </span>
          {turn.question}
        </p>
      )}
      <div className="chat-answer" aria-busy={isOpen}>
        <span className="unseen">{agent}: </span>
        {turn.isRetried && <p className="small soft">A worker was lost, and another one began again.</p>}
        {turn.parts.map((part, place) => (
          <Part
            // biome-ignore lint/suspicious/noArrayIndexKey: parts only come at the end
            key={place}
            part={part}
            isGrowing={isOpen && place === turn.parts.length - 1}
            isOpen={isOpen}
          />
        ))}
        {run &&
          isOpen &&
          listPendingApprovals(run).map((approval) => (
            <ApprovalForm key={approval.call_id} run={run} approval={approval} />
          ))}
        {turn.state === "failed" && turn.error && (
          <ErrorNotice
            error={new Problem(-1, turn.error.code, turn.error.message, hintForFailure(turn.error.code))}
          />
        )}
        {turn.state === "stored" && query.error && asProblem(query.error).status === 404 && (
          <p className="small soft">No answer was stored, and the run is no longer kept.</p>
        )}
        <TurnFooter turn={turn} run={run} isGone={query.error !== null} />
      </div>
    </article>
  );
});

function TurnFooter({ turn, run, isGone }: { turn: Turn; run: RunOut | undefined; isGone: boolean }) {
  const isOpen = isOpenTurn(turn);
  const isQueued = isOpen && run?.state === "queued";
  const cut = turn.state === "completed" ? describeCut(turn.reason || (run?.reason ?? "")) : null;
  const facts = run ? [describeUsage(run.usage), !isOpen && describeRunTime(run)].filter(Boolean) : [];
  return (
    <div className="row chat-facts small">
      <span role="status" className="row tight">
        {isOpen && <OpenState turn={turn} run={run} />}
        {turn.state === "cancelled" && <Pill tone="still">cancelled</Pill>}
        {cut && <span className="soft">{cut}</span>}
      </span>
      {facts.length > 0 && <span className="faint number">{facts.join(" · ")}</span>}
      {turn.runId && !(isGone && !run) && (
        <Link to="/runs/$run" params={{ run: turn.runId }}>
          Trace
        </Link>
      )}
      {isQueued && <StopButton turn={turn} label="Cancel" />}
    </div>
  );
}

/** What an open turn does: its place in the queue, the worker that has it, or the person that it waits for. */
function OpenState({ turn, run }: { turn: Turn; run: RunOut | undefined }) {
  if (turn.state === "waiting" && !run) return <Pill tone="warn">waiting for approval</Pill>;
  if (!run || (turn.parts.length > 0 && run.state === "queued")) return <Pill tone="busy">working</Pill>;
  const { text, tone } = runWord(run.state);
  const message = run.message.toLowerCase() === `${text}.` ? "" : run.message;
  return (
    <>
      <Pill tone={tone}>{text}</Pill>
      {run.state === "queued" && message && <span className="soft">{message}</span>}
    </>
  );
}

const Part = memo(function Part({
  part,
  isGrowing,
  isOpen,
}: {
  part: TurnPart;
  isGrowing: boolean;
  isOpen: boolean;
}) {
  switch (part.kind) {
    case "text":
      return <AnswerText text={part.text} />;
    case "reasoning":
      return <Reasoning text={part.text} isGrowing={isGrowing} />;
    case "tool":
      return <ToolCall part={part} isTurnOpen={isOpen} />;
  }
});

function Reasoning({ text, isGrowing }: { text: string; isGrowing: boolean }) {
  const [chosen, choose] = useState<boolean | null>(null);
  const isShown = chosen ?? isGrowing;
  return (
    <div className="chat-step">
      <button type="button" className="chat-head" aria-expanded={isShown} onClick={() => choose(!isShown)}>
        <Icon name={isShown ? "down" : "right"} size={14} />
        <span>Reasoning</span>
      </button>
      {isShown && <p className="chat-reasoning soft">{text}</p>}
    </div>
  );
}

function ToolCall({ part, isTurnOpen }: { part: ToolPart; isTurnOpen: boolean }) {
  const [isShown, setShown] = useState(false);
  const args = formatValue(typeof part.args === "string" && part.args.trim() === "{}" ? null : part.args);
  const result = formatValue(part.result);
  return (
    <div
      className={`chat-step ${part.isError ? "chat-failed" : ""}`}
      role="group"
      aria-label={`Tool ${part.name}`}
    >
      <button type="button" className="chat-head" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
        <Icon name={isShown ? "down" : "right"} size={14} />
        <Icon name="settings" size={14} />
        <strong>{part.name}</strong>
        <span className="faint cut">{previewArguments(part.args)}</span>
        <ToolState part={part} isTurnOpen={isTurnOpen} />
      </button>
      {isShown && (
        <div className="chat-values">
          {args && (
            <>
              <h4>Arguments</h4>
              <pre>{args}</pre>
            </>
          )}
          {part.isDone && (
            <>
              <h4>{part.isError ? "Error" : "Result"}</h4>
              <pre>{result || "(empty)"}</pre>
            </>
          )}
        </div>
      )}
    </div>
  );
}

function ToolState({ part, isTurnOpen }: { part: ToolPart; isTurnOpen: boolean }) {
  if (part.isError) return <Pill tone="bad">failed</Pill>;
  if (part.isDone) return <Pill tone="good">done</Pill>;
  return isTurnOpen ? <Pill tone="busy">running</Pill> : <Pill tone="still">not finished</Pill>;
}
