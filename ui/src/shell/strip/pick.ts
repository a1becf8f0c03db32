// Which operation the strip shows. Pure: from what is under way, and what was hidden here, to one line.
import type { OperationOut } from "@/api/schema";
import { isUnderWay } from "@/text/operation";

export interface Picked {
  shown: OperationOut | null;
  /** Others that are under way or have failed, hidden ones too. */
  more: number;
}

/** The one on screen gives way only to one that is so many points behind it: else two would take turns. */
const STAYS_WITHIN = 10;

/** A failure first, the newest of them; else the least advanced. What waits in the queue comes after what runs. */
export function pick(
  operations: readonly OperationOut[],
  hidden: ReadonlySet<string>,
  before: string | null = null,
): Picked {
  const told = operations.filter(isTold);
  // Hidden is what was under way then; that it has failed since is news.
  const open = told.filter((operation) => operation.state === "failed" || !hidden.has(operation.id));
  const failed = open.filter((operation) => operation.state === "failed").sort(newestFirst);
  const running = open.filter((operation) => isUnderWay(operation.state)).sort(leastAdvancedFirst);
  const shown = failed[0] ?? stay(running, before) ?? running[0] ?? null;
  return { shown, more: told.length - (shown ? 1 : 0) };
}

/** Paused ones and those owed to absent nodes stand on the page of operations: nothing of them moves. */
function isTold(operation: OperationOut): boolean {
  return operation.state === "failed" || isUnderWay(operation.state);
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
