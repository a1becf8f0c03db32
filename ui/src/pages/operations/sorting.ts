// What stands where on the page of operations, and what a filter leaves of it. Pure.
import type { IntentOut, OperationOut, TargetOut } from "@/api/schema";
import type { OperationsSearch } from "@/pages/operations/search";
import { plural } from "@/text/format";
import { hasEnded, isNotBegun } from "@/text/operation";

export type Filter = Omit<OperationsSearch, "operation">;

export function isFiltered({ kind, outcome, q, node, since, until }: Filter): boolean {
  return Boolean(kind || outcome || q || node || since || until);
}

/** The filter as the frontend takes it. Days are those of the reader, and the last one is part of the span. */
export function historyFilter({ kind, outcome, q, node, since, until }: Filter) {
  const search = q?.trim();
  return {
    ...(kind && { kind: kind === "cluster" ? ("loads" as const) : kind }),
    ...(outcome && { outcome }),
    ...(search && { search }),
    ...(node && { node }),
    ...(since && { since: startOfDay(since).toISOString() }),
    ...(until && { until: startOfDay(until, 1).toISOString() }),
  };
}

function startOfDay(day: string, later = 0): Date {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + later);
}

/** Loading, staging and unloading move what is installed: they are the cluster's. */
export function familyOf(kind: string): "models" | "backends" | "cluster" {
  if (kind.startsWith("backend_")) return "backends";
  return kind === "model_install" || kind === "model_delete" ? "models" : "cluster";
}

/** Whether an operation of the live list matches; the record is filtered by the frontend. */
export function matches(operation: OperationOut, filter: Filter): boolean {
  if (filter.kind && familyOf(operation.kind) !== filter.kind) return false;
  if (filter.outcome && operation.state !== filter.outcome) return false;
  if (filter.node && !isOf(operation, filter.node)) return false;
  if (filter.since && endOf(operation) < startOfDay(filter.since).getTime()) return false;
  if (filter.until && endOf(operation) >= startOfDay(filter.until, 1).getTime()) return false;
  return !filter.q || textOf(operation).includes(filter.q.trim().toLowerCase());
}

/** What has not ended goes on now. */
function endOf(operation: OperationOut): number {
  return operation.finishedAt ? Date.parse(operation.finishedAt) : Date.now();
}

function isOf(operation: OperationOut, node: string): boolean {
  return (
    operation.nodeName === node ||
    operation.nodeID === node ||
    (operation.nodes ?? []).some((target) => target.node_name === node || target.node_id === node)
  );
}

function textOf(operation: OperationOut): string {
  const nodes = (operation.nodes ?? []).map((target) => target.node_name);
  const words = [operation.name, operation.fullName, operation.nodeName, operation.error, operation.message];
  return [...words, ...nodes, operation.createdBy, operation.id].join(" ").toLowerCase();
}

export interface Sections {
  underWay: OperationOut[];
  failed: OperationOut[];
}

/** A failure is never among what is under way. One that ended a moment ago is in neither. */
export function sections(operations: readonly OperationOut[]): Sections {
  const failed = operations.filter((operation) => operation.state === "failed");
  const underWay = operations.filter((operation) => !hasEnded(operation.state));
  return { underWay: underWay.sort(byWeight), failed };
}

const WEIGHTS: Record<string, number> = { queued: 1, completed_with_pending: 2, paused: 3 };

/** What runs, then what waits, then what nothing moves of; the oldest first, so that cards stay where they are. */
function byWeight(one: OperationOut, other: OperationOut): number {
  return (
    (WEIGHTS[one.state] ?? 0) - (WEIGHTS[other.state] ?? 0) || one.createdAt.localeCompare(other.createdAt)
  );
}

/** What the operations on screen do not show already: what was given up, and what waits for a node or a next try. */
export function owedBeside(
  intents: readonly IntentOut[],
  operations: readonly OperationOut[],
): { dead: IntentOut[]; open: IntentOut[] } {
  const shown = new Set(
    operations
      .filter((operation) => operation.state !== "completed_with_pending")
      .map((operation) => operation.id),
  );
  return {
    dead: intents.filter((intent) => intent.state === "dead"),
    open: intents.filter(
      (intent) => intent.state !== "dead" && (intent.attempts > 0 || !shown.has(intent.operation_id)),
    ),
  };
}

/** Changes when a node's try begins or ends: what is owed, and when the next try is, may have changed with it. */
export function triesOf(operations: readonly OperationOut[]): string {
  return operations
    .flatMap(({ id, nodes = [] }) => nodes.map((target) => [id, target.node_id, target.state, target.error]))
    .join();
}

/** Of the whole system, whatever the filter is. */
export function summary(operations: readonly OperationOut[], dead: number): string {
  const { underWay, failed } = sections(operations);
  const attention = failed.length + dead;
  const parts = [
    underWay.length > 0 && `${underWay.length} in progress`,
    attention > 0 && `${attention} ${attention === 1 ? "needs" : "need"} attention`,
  ].filter(Boolean);
  return parts.length > 0 ? `${parts.join(", ")}.` : "Nothing is under way.";
}

export interface Wave {
  wave: number;
  /** Nothing if there is one wave only. */
  title: string | null;
  targets: TargetOut[];
}

export function waves<T extends TargetOut>(targets: readonly T[]): (Wave & { targets: T[] })[] {
  const byWave = new Map<number, T[]>();
  for (const target of targets) byWave.set(target.wave, [...(byWave.get(target.wave) ?? []), target]);
  const all = [...byWave].sort(([one], [other]) => one - other);
  return all.map(([wave, inIt], place) => ({
    wave,
    title: all.length < 2 ? null : `Wave ${place + 1} of ${all.length}: ${waveState(inIt)}`,
    targets: inIt,
  }));
}

const FINAL = new Set(["success", "error", "cancelled", "superseded", "skipped"]);

function waveState(targets: readonly TargetOut[]): string {
  const some = (state: string) => targets.filter((target) => target.state === state).length;
  if (some("error") > 0) return `failed on ${plural(some("error"), "node")}`;
  if (targets.every(isNotBegun)) return "not begun";
  if (targets.every((target) => target.state === "skipped")) return "skipped";
  if (some("cancelled") > 0) return "cancelled";
  if (targets.every((target) => FINAL.has(target.state))) return "done";
  return targets.every((target) => target.state === "queued") ? "waits" : "under way";
}
