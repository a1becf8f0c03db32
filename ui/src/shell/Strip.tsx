// One line at the top of every page: the operation that most needs a look.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { asProblem } from "@/api/client";
import { useAct } from "@/api/operations";
import { operations } from "@/api/queries";
import type { OperationOut } from "@/api/schema";
import { IconButton } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { paceOf, seePaces } from "@/live/paces";
import { Ended } from "@/shell/strip/Ended";
import { justEnded, pick } from "@/shell/strip/pick";
import { bytesOf, percent, rate } from "@/text/format";
import { bar, called, detail, subject, verb } from "@/text/operation";
import "@/shell/strip/strip.css";

const NOTHING: OperationOut[] = [];
const ICONS = { failed: "warn", queued: "more" } as const;

export function Strip() {
  const { data: all = NOTHING } = useQuery(operations);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(() => new Set());
  const [ended, setEnded] = useState<string | null>(null);
  const before = useRef<OperationOut | null>(null);
  const { shown, more } = pick(all, hidden, before.current?.id);

  useEffect(() => {
    seePaces(all);
    const done = justEnded(before.current, all, hidden);
    before.current = shown;
    if (done) setEnded(done);
    else if (shown) setEnded(null);
  }, [all, hidden, shown]);

  return (
    <>
      <p className="unseen" role="status">
        {shown ? `${verb(shown)} ${subject(shown)}${shown.error ? `: ${shown.error}` : ""}` : ""}
      </p>
      {shown ? (
        <Line
          key={shown.id}
          operation={shown}
          more={more}
          onHide={() => setHidden((ids) => new Set([...ids, shown.id]))}
        />
      ) : (
        ended && <Ended key={ended} id={ended} onGone={() => setEnded(null)} />
      )}
    </>
  );
}

function Line({ operation, more, onHide }: { operation: OperationOut; more: number; onHide: () => void }) {
  const acting = useAct(operation.id);
  const isFailed = operation.state === "failed";
  const value = bar(operation);
  const told = acting.error ? asProblem(acting.error).message : detail(operation);
  return (
    <section className={isFailed ? "strip failed" : "strip"} aria-label="Operations under way">
      <Icon name={ICONS[operation.state as keyof typeof ICONS] ?? "operations"} />
      <Link className="strip-what" to="/operations" search={{ operation: operation.id }}>
        <span className="strip-verb">{verb(operation)}</span> <strong>{subject(operation)}</strong>
      </Link>
      <span className="strip-detail cut" title={told}>
        {told}
      </span>
      {value !== undefined && <Amount operation={operation} />}
      {more > 0 && (
        <Link className="strip-more" to="/operations">
          {more} more
        </Link>
      )}
      <IconButton
        icon="cross"
        label={isFailed ? `Dismiss the failed ${called(operation)}` : `Hide the ${called(operation)} here`}
        disabled={acting.isPending}
        onClick={() => (isFailed ? acting.mutate("dismiss") : onHide())}
      />
      {value !== undefined && <Progress value={value} label={`${verb(operation)} ${subject(operation)}`} />}
    </section>
  );
}

function Amount({ operation }: { operation: OperationOut }) {
  const { bytesPerS } = paceOf(operation);
  return (
    <>
      {operation.currentBytes != null && (
        <span className="strip-bytes number">
          {bytesOf(operation.currentBytes, operation.totalBytes)}
          {bytesPerS != null && ` · ${rate(bytesPerS)}`}
        </span>
      )}
      {operation.progress > 0 && <span className="strip-percent number">{percent(operation.progress)}</span>}
    </>
  );
}

/** How many operations are under way, or have failed. */
export function Badge() {
  const { data } = useQuery(operations);
  const failed = data?.filter((operation) => operation.state === "failed").length ?? 0;
  const count = failed || (data?.length ?? 0);
  if (!count) return null;
  return (
    <span
      className={failed ? "badge bad" : "badge"}
      title={failed ? `${failed} failed` : `${count} under way`}
    >
      {count}
      <span className="unseen">{failed ? " failed" : " under way"}</span>
    </span>
  );
}
