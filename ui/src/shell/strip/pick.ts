// Which operation the strip shows. Pure: from what is under way, and what was hidden here, to one line.
import type { OperationOut } from "@/api/schema";
import { isUnderWay } from "@/text/operation";

export interface Picked {
  /** What runs, or is next in the queue; null if nothing does, or all of it was hidden here. */
  shown: OperationOut | null;
  /** Others that are under way, hidden ones too. */
  more: number;
  /** The newest first. */
  failed: OperationOut[];
}

/** The one on screen gives way only to one that is so many points behind it: else two would take turns. */
const STAYS_WITHIN = 10;

/** The least advanced of what runs; what waits in the queue comes after it. Failures never take its place. */
export function pick(
  operations: readonly OperationOut[],
  hidden: ReadonlySet<string>,
  before: string | null = null,
): Picked {
  const underWay = operations.filter((operation) => isUnderWay(operation.state));
  const open = underWay.filter((operation) => !hidden.has(operation.id)).sort(leastAdvancedFirst);
  const shown = stay(open, before) ?? open[0] ?? null;
  const failed = operations.filter((operation) => operation.state === "failed").sort(newestFirst);
  return { shown, more: underWay.length - (shown ? 1 : 0), failed };
}

/** Changes when there is another failure: a hidden list of failures is shown again then. */
export function newestFailure(failed: readonly OperationOut[]): string {
  return failed[0]?.id ?? "";
}

function stay(running: readonly OperationOut[], before: string | null): OperationOut | undefined {
  const first = running[0];
  const same = running.find((operation) => operation.id === before);
  if (!first || !same || isQueued(same) !== isQueued(first)) return undefined;
  return same.progress - first.progress <= STAYS_WITHIN ? same : undefined;
}

const isQueued = (operation: OperationOut): boolean => operation.state === "queued";

function leastAdvancedFirst(one: OperationOut, other: OperationOut): number {
  return (
    Number(isQueued(one)) - Number(isQueued(other)) ||
    one.progress - other.progress ||
    (one.id < other.id ? -1 : 1)
  );
}

function newestFirst(one: OperationOut, other: OperationOut): number {
  return (other.finishedAt ?? other.updatedAt).localeCompare(one.finishedAt ?? one.updatedAt);
}

/** The last one that has left the screen because it ended, if nothing else is there to be shown. */
export function justEnded(
  before: OperationOut | null,
  operations: readonly OperationOut[],
  hidden: ReadonlySet<string>,
): string | null {
  if (!before || hidden.has(before.id) || !isUnderWay(before.state)) return null;
  const now = operations.find((operation) => operation.id === before.id);
  if (now && (isUnderWay(now.state) || now.state === "failed" || now.state === "paused")) return null;
  return pick(operations, hidden).shown === null ? before.id : null;
}

/** Only what has really been done is held: nobody celebrates what was cancelled, here or by somebody else. */
export function isCelebrated(state: string): boolean {
  return state === "completed" || state === "completed_with_pending";
}
