// The pending changes of nodes: dead after too many failures, or waiting for a node or for the next attempt.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useDiscardAssignment, useRetryAssignment } from "@/api/operations";
import type { AssignmentOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill } from "@/kit/status";
import type { OperationFilter } from "@/pages/operations/sections";
import { plural } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

const CHANGE_WORDS: Record<string, string> = {
  present: "install",
  replaced: "replace",
  absent: "remove",
  rolled_back: "roll back",
};

interface PendingChangesProps {
  assignments: readonly AssignmentOut[];
  filter: OperationFilter;
  /** Operations whose cards show the reason already. */
  explainedOperations?: ReadonlySet<string>;
}

export function PendingChanges({ assignments, filter, explainedOperations }: PendingChangesProps) {
  return (
    <ul className="plain operations-pending">
      {assignments.map((assignment) => (
        <PendingChange
          key={`${assignment.node_id}/${assignment.backend}`}
          assignment={assignment}
          filter={filter}
          isExplained={explainedOperations?.has(assignment.operation_id) ?? false}
        />
      ))}
    </ul>
  );
}

function PendingChange({
  assignment,
  filter,
  isExplained,
}: {
  assignment: AssignmentOut;
  filter: OperationFilter;
  isExplained: boolean;
}) {
  const revive = useRetryAssignment();
  const drop = useDiscardAssignment();
  const [isConfirming, setConfirming] = useState(false);
  const isDead = assignment.state === "dead";
  const what = `${assignment.backend} on ${assignment.node_name}`;
  return (
    <li className="panel operations-card">
      <div className="operations-head">
        <div className="operations-title">
          <h3>
            <Link to="/operations" search={{ ...filter, operation: assignment.operation_id }}>
              {assignment.node_name}: {CHANGE_WORDS[assignment.desired] ?? assignment.desired}{" "}
              {assignment.backend} {assignment.version}
            </Link>
          </h3>
          <span className="row">
            <Pill tone={isDead ? "bad" : "warn"}>{findStateWord("change", assignment.state)}</Pill>
            <span className="small faint">
              {assignment.attempts > 0 ? `${plural(assignment.attempts, "failure")}, ` : ""}
              {assignment.next_retry_at && !isDead ? (
                <>
                  next attempt <RelativeTime at={assignment.next_retry_at} />
                </>
              ) : (
                <>
                  requested <RelativeTime at={assignment.created_at} />
                </>
              )}
            </span>
          </span>
        </div>
        <div className="operations-actions">
          {isDead && (
            <Button
              small
              icon="again"
              busy={revive.isPending}
              aria-label={`Retry: ${what}`}
              onClick={() => revive.mutate(assignment)}
            >
              Retry
            </Button>
          )}
          <Button small icon="trash" aria-label={`Discard: ${what}`} onClick={() => setConfirming(true)}>
            Discard
          </Button>
        </div>
      </div>
      {assignment.error && !isExplained && (
        <p className="bad-text small operations-fault">{assignment.error}</p>
      )}
      <ErrorNotice error={revive.error} />
      {isConfirming && (
        <ConfirmDialog
          title={`Discard ${what}?`}
          verb="Discard"
          onConfirm={() => drop.mutateAsync(assignment)}
          onClose={() => setConfirming(false)}
        >
          <p>
            The change is no longer pending on {assignment.node_name}; work that has started there is stopped.
            Other nodes are not affected.
          </p>
        </ConfirmDialog>
      )}
    </li>
  );
}
