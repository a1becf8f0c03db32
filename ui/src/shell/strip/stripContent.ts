// Picks the operation that the strip shows, from the active operations and those that were hidden in this tab. Pure.
import type { OperationOut } from "@/api/schema";
import { isActive } from "@/text/operationStates";

interface StripContent {
  /** The operation that runs or is next in the queue; null if there is none, or all were hidden in this tab. */
  shown: OperationOut | null;
  /** The number of other active operations, including hidden ones. */
  more: number;
  /** Failed operations, newest first. */
  failed: OperationOut[];
}

/** The shown operation is replaced only by one that is this many points behind it, so that two do not alternate. */
const KEEP_WITHIN_PERCENT = 10;

/** Picks the least advanced running operation, else the next queued one. A failure never replaces it. */
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

/** The id of the newest failure. When it changes, a hidden list of failures is shown again. */
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

/** The operation that was shown last and has ended, if there is no other one to show. */
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
