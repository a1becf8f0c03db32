// One line at the top of every page: what runs now, and how many operations have failed.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { operations } from "@/api/queries";
import type { OperationOut } from "@/api/schema";
import { IconButton } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { paceOf, seePaces } from "@/live/paces";
import { Ended } from "@/shell/strip/Ended";
import { FailureButton, FailureList, FailureSummary } from "@/shell/strip/Failures";
import { justEnded, newestFailure, pick } from "@/shell/strip/pick";
import { bytesOf, percent, plural, rate } from "@/text/format";
import { bar, called, detail, isUnderWay, subject, verb } from "@/text/operation";
import "@/shell/strip/strip.css";

const NOTHING: OperationOut[] = [];

export function Strip() {
  const { data: all = NOTHING } = useQuery(operations);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(() => new Set());
  const [hiddenFailure, hideFailure] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [ended, setEnded] = useState<string | null>(null);
  const before = useRef<OperationOut | null>(null);
  const { shown, more, failed } = pick(all, hidden, before.current?.id);
  const newest = newestFailure(failed);

  useEffect(() => {
    seePaces(all);
    const done = justEnded(before.current, all, hidden);
    before.current = shown;
    if (done) setEnded(done);
    else if (shown) setEnded(null);
  }, [all, hidden, shown]);

  const failures = failed.length > 0 && (
    <FailureButton count={failed.length} isOpen={isOpen} onClick={() => setOpen(!isOpen)} />
  );
  return (
    <>
      <p className="unseen" role="status">
        {shown ? `${verb(shown)} ${subject(shown)}` : ""}
        {failed.length > 0 ? ` ${plural(failed.length, "operation")} failed` : ""}
      </p>
      {shown ? (
        <Line
          key={shown.id}
          operation={shown}
          more={more}
          onHide={() => setHidden((ids) => new Set([...ids, shown.id]))}
        >
          {failures}
        </Line>
      ) : ended ? (
        <Ended key={ended} id={ended} onGone={() => setEnded(null)} />
      ) : (
        failed[0] &&
        newest !== hiddenFailure && (
          <FailureSummary failure={failed[0]} onHide={() => hideFailure(newest)}>
            {failures}
          </FailureSummary>
        )
      )}
      {isOpen && failed.length > 0 && <FailureList failed={failed} onClose={() => setOpen(false)} />}
    </>
  );
}

interface LineProps {
  operation: OperationOut;
  more: number;
  onHide: () => void;
  children: ReactNode;
}

function Line({ operation, more, onHide, children }: LineProps) {
  const value = bar(operation);
  const told = detail(operation);
  return (
    <section className="strip" aria-label="Operations under way">
      <Icon name={operation.state === "queued" ? "more" : "operations"} />
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
      {children}
      <IconButton icon="cross" label={`Hide the ${called(operation)} here`} onClick={onHide} />
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

/** How many operations are under way, and how many have failed. */
export function Badge() {
  const { data = NOTHING } = useQuery(operations);
  const failed = data.filter((operation) => operation.state === "failed").length;
  const running = data.filter((operation) => isUnderWay(operation.state)).length;
  if (failed + running === 0) return null;
  return (
    <span className="badges">
      {running > 0 && <Count value={running} word="under way" />}
      {failed > 0 && <Count value={failed} word="failed" bad />}
    </span>
  );
}

function Count({ value, word, bad = false }: { value: number; word: string; bad?: boolean }) {
  return (
    <span className={bad ? "badge bad" : "badge"} title={`${value} ${word}`}>
      {value}
      <span className="unseen"> {word}</span>
    </span>
  );
}
