// What has ended, the newest first.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useClearRecord } from "@/api/operations";
import type { RecordOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Icon, type IconName } from "@/kit/icons";
import { Panel } from "@/kit/Panel";
import type { Tone } from "@/kit/status";
import type { Filter } from "@/pages/operations/sorting";
import { phrase, subject } from "@/text/operation";

const OUTCOMES: Record<string, [IconName, Tone]> = {
  completed: ["check", "good"],
  failed: ["warn", "bad"],
  cancelled: ["stop", "still"],
  superseded: ["again", "still"],
};

interface RecordProps {
  records: readonly RecordOut[];
  filter: Filter;
  /** PostgreSQL is away, and this is what was read before. */
  stale: string | null | undefined;
  shown: string | undefined;
  onOlder: (() => void) | null;
  isReading: boolean;
}

export function Record({ records, filter, stale, shown, onOlder, isReading }: RecordProps) {
  return (
    <Panel title="Record" note={stale} actions={<Clear />}>
      <ul className="plain operations-record">
        {records.map((record) => (
          <Row key={record.id} record={record} filter={filter} isOpen={record.id === shown} />
        ))}
      </ul>
      {onOlder && (
        <div>
          <Button small busy={isReading} onClick={onOlder}>
            Show older ones
          </Button>
        </div>
      )}
    </Panel>
  );
}

function Row({ record, filter, isOpen }: { record: RecordOut; filter: Filter; isOpen: boolean }) {
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
        <Ago at={record.finishedAt} /> by {record.createdBy}
      </span>
    </li>
  );
}

function Clear() {
  const [isAsked, setAsked] = useState(false);
  const clearing = useClearRecord();
  return (
    <>
      <Button small kind="quiet" icon="trash" onClick={() => setAsked(true)}>
        Clear the record
      </Button>
      {isAsked && (
        <Confirm
          title="Clear the record?"
          verb="Clear it"
          onConfirm={() => clearing.mutateAsync()}
          onClose={() => setAsked(false)}
        >
          <p>
            Everything that has ended is forgotten, for everybody. What is under way stays, and so do failures
            that nobody has dismissed.
          </p>
        </Confirm>
      )}
    </>
  );
}
