// One line at the top of every page: what runs now, and how many operations have failed.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { operations } from "@/api/queries";
import type { OperationOut } from "@/api/schema";
import { IconButton } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { readOperationRate, recordRates } from "@/live/operationRates";
import { EndedOperation } from "@/shell/strip/EndedOperation";
import { FailureButton, FailureList, FailureSummary } from "@/shell/strip/Failures";
import { findJustEnded, newestFailure, pickStripContent } from "@/shell/strip/stripContent";
import { bytesOf, percent, plural, rate } from "@/text/format";
import { computeProgress, describeDetail, describeVerb, nameForActions, subject } from "@/text/operation";
import { isActive } from "@/text/operationStates";
import "@/shell/strip/strip.css";

const NO_OPERATIONS: OperationOut[] = [];

export function OperationStrip() {
  const { data: all = NO_OPERATIONS } = useQuery(operations);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(() => new Set());
  const [hiddenFailure, hideFailure] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [ended, setEnded] = useState<string | null>(null);
  const previous = useRef<OperationOut | null>(null);
  const { shown, more, failed } = pickStripContent(all, hidden, previous.current?.id);
  const newest = newestFailure(failed);

  useEffect(() => {
    recordRates(all);
    const done = findJustEnded(previous.current, all, hidden);
    previous.current = shown;
    if (done) setEnded(done);
    else if (shown) setEnded(null);
  }, [all, hidden, shown]);

  const failures = failed.length > 0 && (
    <FailureButton count={failed.length} isOpen={isOpen} onClick={() => setOpen(!isOpen)} />
  );
  return (
    <>
      <p className="unseen" role="status">
        {shown ? `${describeVerb(shown)} ${subject(shown)}` : ""}
        {failed.length > 0 ? ` ${plural(failed.length, "operation")} failed` : ""}
      </p>
      {shown ? (
        <ActiveOperation
          key={shown.id}
          operation={shown}
          more={more}
          onHide={() => setHidden((ids) => new Set([...ids, shown.id]))}
        >
          {failures}
        </ActiveOperation>
      ) : ended ? (
        <EndedOperation key={ended} id={ended} onGone={() => setEnded(null)} />
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

interface ActiveOperationProps {
  operation: OperationOut;
  more: number;
  onHide: () => void;
  children: ReactNode;
}

function ActiveOperation({ operation, more, onHide, children }: ActiveOperationProps) {
  const value = computeProgress(operation);
  const detail = describeDetail(operation);
  return (
    <section className="strip" aria-label="Active operations">
      <Icon name={operation.state === "queued" ? "more" : "operations"} />
      <Link className="strip-what" to="/operations" search={{ operation: operation.id }}>
        <span className="strip-verb">{describeVerb(operation)}</span> <strong>{subject(operation)}</strong>
      </Link>
      <span className="strip-detail cut" title={detail}>
        {detail}
      </span>
      {value !== undefined && <ActiveAmount operation={operation} />}
      {more > 0 && (
        <Link className="strip-more" to="/operations">
          {more} more
        </Link>
      )}
      {children}
      <IconButton icon="cross" label={`Hide the ${nameForActions(operation)} here`} onClick={onHide} />
      {value !== undefined && (
        <Progress value={value} label={`${describeVerb(operation)} ${subject(operation)}`} />
      )}
    </section>
  );
}

function ActiveAmount({ operation }: { operation: OperationOut }) {
  const { bytesPerS } = readOperationRate(operation);
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
export function OperationBadge() {
  const { data = NO_OPERATIONS } = useQuery(operations);
  const failed = data.filter((operation) => operation.state === "failed").length;
  const running = data.filter((operation) => isActive(operation.state)).length;
  if (failed + running === 0) return null;
  return (
    <span className="badges">
      {running > 0 && <CountBadge value={running} word="active" />}
      {failed > 0 && <CountBadge value={failed} word="failed" bad />}
    </span>
  );
}

function CountBadge({ value, word, bad = false }: { value: number; word: string; bad?: boolean }) {
  return (
    <span className={bad ? "badge bad" : "badge"} title={`${value} ${word}`}>
      {value}
      <span className="unseen"> {word}</span>
    </span>
  );
}
