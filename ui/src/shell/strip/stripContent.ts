// Picks the operation that the strip shows, from the active operations and those that were hidden in this tab. Pure.
import type { OperationOut } from "@/api/schema";
import { isActive } from "@/text/operationStates";

interface StripContent {
  /** What runs, or is next in the queue; null if nothing does, or all of it was hidden here. */
  shown: OperationOut | null;
  /** Others that are under way, hidden ones too. */
  more: number;
  /** The newest first. */
  failed: OperationOut[];
}

/** The one on screen gives way only to one that is so many points behind it: else two would take turns. */
const KEEP_WITHIN_PERCENT = 10;

/** The least advanced of what runs; what waits in the queue comes after it. Failures never take its place. */
export function pickStripContent(
  operations: readonly OperationOut[],
  hidden: ReadonlySet<string>,
  previous: string | null = null,
): StripContent {
  const active = operations.filter((operation) => isActive(operation.state));
  const open = active.filter((operation) => !hidden.has(operation.id)).sort(leastAdvancedFirst);
  const shown = keepPrevious(open, previous) ?? open[0] ?? null;
  const failed = operations.filter((operation) => operation.state === "failed").sort(newestFirst);
  return { shown, more: active.length - (shown ? 1 : 0), failed };
}

/** Changes when there is another failure: a hidden list of failures is shown again then. */
export function newestFailure(failed: readonly OperationOut[]): string {
  return failed[0]?.id ?? "";
}

function keepPrevious(running: readonly OperationOut[], previous: string | null): OperationOut | undefined {
  const first = running[0];
  const same = running.find((operation) => operation.id === previous);
  if (!first || !same || isQueued(same) !== isQueued(first)) return undefined;
  return same.progress - first.progress <= KEEP_WITHIN_PERCENT ? same : undefined;
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
export function findJustEnded(
  previous: OperationOut | null,
  operations: readonly OperationOut[],
  hidden: ReadonlySet<string>,
): string | null {
  if (!previous || hidden.has(previous.id) || !isActive(previous.state)) return null;
  const now = operations.find((operation) => operation.id === previous.id);
  if (now && (isActive(now.state) || now.state === "failed" || now.state === "paused")) return null;
  return pickStripContent(operations, hidden).shown === null ? previous.id : null;
}

/** Whether the strip shows this end for a moment: only completed operations, not cancelled or superseded ones. */
export function isCompleted(state: string): boolean {
  return state === "completed" || state === "completed_with_pending";
}
