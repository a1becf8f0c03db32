// One row of the list of batches: its progress, its errors, its files, and what can be done with it.
import { Link } from "@tanstack/react-router";
import type { BatchOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { contentAddress } from "@/pages/batches/queries";
import {
  batchWord,
  canCancel,
  computeProgress,
  describeCounts,
  describeLineError,
  isOpenBatch,
  toMoment,
} from "@/pages/batches/words";

/** More errors are in the answer of the API. */
const ERRORS_SHOWN = 3;

interface BatchRowProps {
  batch: BatchOut;
  name: string;
  onCancel: () => void;
}

export function BatchRow({ batch, name, onCancel }: BatchRowProps) {
  const { text, tone } = batchWord(batch.status);
  const progress = computeProgress(batch);
  const isOpen = isOpenBatch(batch.status);
  const counts = describeCounts(batch);
  return (
    <li className="batches-row panel" aria-label={`${name}: ${text}`}>
      <div className="row apart">
        <span className="row batches-name">
          <Link to="/runs/$run" params={{ run: batch.run_id }}>
            {name}
          </Link>
          <Tag>{batch.endpoint}</Tag>
        </span>
        <Pill tone={tone}>{text}</Pill>
      </div>
      {isOpen && <Progress value={progress} label={`Progress of ${name}`} />}
      <Errors batch={batch} />
      <div className="row apart">
        <span className="small soft">
          {counts && `${counts} · `}
          <RelativeTime at={toMoment(batch.created_at)} />
        </span>
        <span className="row">
          {batch.output_file_id && <Download file={batch.output_file_id} label="Answers" name={name} />}
          {batch.error_file_id && <Download file={batch.error_file_id} label="Failed requests" name={name} />}
          {canCancel(batch.status) && (
            <Button small icon="stop" aria-label={`Cancel ${name}`} onClick={onCancel}>
              Cancel
            </Button>
          )}
        </span>
      </div>
    </li>
  );
}

function Download({ file, label, name }: { file: string; label: string; name: string }) {
  return (
    <a
      className="button plain small-button"
      href={contentAddress(file)}
      download
      aria-label={`${label} of ${name}`}
    >
      <Icon name="download" />
      <span>{label}</span>
    </a>
  );
}

function Errors({ batch }: { batch: BatchOut }) {
  const errors = batch.errors?.data ?? [];
  if (errors.length === 0) return null;
  const more = errors.length - ERRORS_SHOWN;
  return (
    <ul className="plain small bad-text batches-errors" aria-label="Errors">
      {errors.slice(0, ERRORS_SHOWN).map((error, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the errors of a batch do not change
        <li key={place}>{describeLineError(error)}</li>
      ))}
      {more > 0 && <li>and {more} more</li>}
    </ul>
  );
}
