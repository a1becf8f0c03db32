// Failures that were not dismissed: a count in the strip, which opens a list of them.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useOperationAction } from "@/api/operations";
import type { OperationOut } from "@/api/schema";
import { Button, IconButton } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon } from "@/kit/icons";
import { RelativeTime } from "@/kit/RelativeTime";
import { useDismiss } from "@/shell/useDismiss";
import { describeDetail, describeVerb, nameForActions, subject } from "@/text/operation";

/** The number of failures that are listed here; the operations page has all of them. */
const LISTED_MAX = 20;

interface FailureButtonProps {
  count: number;
  isOpen: boolean;
  onClick: () => void;
}

export function FailureButton({ count, isOpen, onClick }: FailureButtonProps) {
  return (
    <button
      type="button"
      className="button small-button strip-failures"
      aria-expanded={isOpen}
      onClick={onClick}
    >
      <Icon name="warn" size={14} />
      <span>{count} failed</span>
      <Icon name={isOpen ? "down" : "right"} size={12} />
    </button>
  );
}

interface FailureSummaryProps {
  failure: OperationOut;
  onHide: () => void;
  children: ReactNode;
}

/** The newest failure in one line, shown while no operation runs. */
export function FailureSummary({ failure, onHide, children }: FailureSummaryProps) {
  const detail = describeDetail(failure);
  return (
    <section className="strip failed" aria-label="Failed operations">
      <Icon name="warn" />
      <Link className="strip-what" to="/operations" search={{ operation: failure.id }}>
        <span className="strip-verb">{describeVerb(failure)}</span> <strong>{subject(failure)}</strong>
      </Link>
      <span className="strip-detail cut" title={detail}>
        {detail}
      </span>
      {children}
      <IconButton icon="cross" label="Hide the failures here" onClick={onHide} />
    </section>
  );
}

export function FailureList({ failed, onClose }: { failed: readonly OperationOut[]; onClose: () => void }) {
  return (
    <section
      className="strip-list"
      aria-label="List of failed operations"
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <ul className="plain">
        {failed.slice(0, LISTED_MAX).map((failure) => (
          <Failure key={failure.id} failure={failure} />
        ))}
      </ul>
      {failed.length > LISTED_MAX && (
        <Link to="/operations">{failed.length - LISTED_MAX} more on the Operations page</Link>
      )}
    </section>
  );
}

function Failure({ failure }: { failure: OperationOut }) {
  const retrying = useOperationAction(failure.id);
  const dismissing = useDismiss(failure);
  const what = nameForActions(failure);
  return (
    <li>
      <div className="strip-failure">
        <Link to="/operations" search={{ operation: failure.id }}>
          {describeVerb(failure)} <strong>{subject(failure)}</strong>
        </Link>{" "}
        <span className="small faint">
          <RelativeTime at={failure.finishedAt ?? failure.updatedAt} />
        </span>
        <p className="small">{describeDetail(failure)}</p>
        <ErrorNotice error={retrying.error ?? dismissing.error} />
      </div>
      <Button
        small
        icon="again"
        busy={retrying.isPending}
        aria-label={`Retry the ${what}`}
        onClick={() => retrying.mutate("retry")}
      >
        Retry
      </Button>
      <Button
        small
        icon="check"
        busy={dismissing.isPending}
        aria-label={`Dismiss the failed ${what}`}
        onClick={() => dismissing.dismiss()}
      >
        Dismiss
      </Button>
    </li>
  );
}
