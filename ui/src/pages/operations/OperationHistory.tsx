// The history of ended operations, newest first.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useClearHistory } from "@/api/operations";
import type { EndedOperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Icon, type IconName } from "@/kit/icons";
import { Panel } from "@/kit/Panel";
import { RelativeTime } from "@/kit/RelativeTime";
import type { Tone } from "@/kit/status";
import type { OperationFilter } from "@/pages/operations/sections";
import { phrase, subject } from "@/text/operation";

const OUTCOMES: Record<string, [IconName, Tone]> = {
  completed: ["check", "good"],
  failed: ["warn", "bad"],
  cancelled: ["stop", "still"],
  superseded: ["again", "still"],
};

interface OperationHistoryProps {
  records: readonly EndedOperationOut[];
  filter: OperationFilter;
  /** Set while PostgreSQL is unreachable and the list is from before. */
  stale: string | null | undefined;
  shown: string | undefined;
  onOlder: (() => void) | null;
  isReading: boolean;
}

export function OperationHistory({
  records,
  filter,
  stale,
  shown,
  onOlder,
  isReading,
}: OperationHistoryProps) {
  return (
    <Panel title="History" note={stale} actions={<ClearButton />}>
      <ul className="plain operations-record">
        {records.map((record) => (
          <HistoryRow key={record.id} record={record} filter={filter} isOpen={record.id === shown} />
        ))}
      </ul>
      {onOlder && (
        <div>
          <Button small busy={isReading} onClick={onOlder}>
            Load more
          </Button>
        </div>
      )}
    </Panel>
  );
}

function HistoryRow({
  record,
  filter,
  isOpen,
}: {
  record: EndedOperationOut;
  filter: OperationFilter;
  isOpen: boolean;
}) {
  const [icon, tone] = OUTCOMES[record.outcome] ?? ["info", "still"];
  return (
    <li className={isOpen ? "open" : undefined}>
      <span className={`operations-outcome ${tone}`}>
        <Icon name={icon} size={14} />
      </span>
      <Link
        id={`operation-${record.id}`}
        className="operations-name"
        to="/operations"
        search={{ ...filter, operation: record.id }}
      >
        {subject(record)}
      </Link>
      <span className="operations-phrase cut" title={phrase(record)}>
        {phrase(record)}
      </span>
      <span className="small faint operations-when">
        <RelativeTime at={record.finishedAt} /> by {record.createdBy}
      </span>
    </li>
  );
}

function ClearButton() {
  const [isConfirming, setConfirming] = useState(false);
  const clearing = useClearHistory();
  return (
    <>
      <Button small kind="quiet" icon="trash" onClick={() => setConfirming(true)}>
        Clear history
      </Button>
      {isConfirming && (
        <ConfirmDialog
          title="Clear history?"
          verb="Clear"
          onConfirm={() => clearing.mutateAsync()}
          onClose={() => setConfirming(false)}
        >
          <p>
            Deletes all ended operations for everybody. Active operations and undismissed failures are kept.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
