// Divides operations into the sections of the page, and filters them. Pure.
import type { AssignmentOut, OperationOut, TargetOut } from "@/api/schema";
import type { OperationsSearch } from "@/pages/operations/search";
import { plural } from "@/text/format";
import { isNotStarted } from "@/text/operation";
import { isSettled } from "@/text/operationStates";
import { STATE_WORDS } from "@/text/stateWords.gen";

export type OperationFilter = Omit<OperationsSearch, "operation">;

export function isFiltered({ kind, outcome, q, node, since, until }: OperationFilter): boolean {
  return Boolean(kind || outcome || q || node || since || until);
}

/** The filter as query parameters. Days are in the reader's time zone, and the last one is included. */
export function toHistoryQuery({ kind, outcome, q, node, since, until }: OperationFilter) {
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

/** The section of a kind of operation. Loading, staging and unloading belong to the cluster. */
export function findFamily(kind: string): "models" | "backends" | "cluster" {
  if (kind.startsWith("backend_")) return "backends";
  return kind === "model_install" || kind === "model_delete" ? "models" : "cluster";
}

/** Whether an operation of the live list matches the filter; the history is filtered by the frontend. */
export function matchesFilter(operation: OperationOut, filter: OperationFilter): boolean {
  if (filter.kind && findFamily(operation.kind) !== filter.kind) return false;
  if (filter.outcome && operation.state !== filter.outcome) return false;
  if (filter.node && !isAboutNode(operation, filter.node)) return false;
  if (filter.since && getEnd(operation) < startOfDay(filter.since).getTime()) return false;
  if (filter.until && getEnd(operation) >= startOfDay(filter.until, 1).getTime()) return false;
  return !filter.q || makeSearchText(operation).includes(filter.q.trim().toLowerCase());
}

/** The end of an operation; now, if it has not ended. */
function getEnd(operation: OperationOut): number {
  return operation.finishedAt ? Date.parse(operation.finishedAt) : Date.now();
}

function isAboutNode(operation: OperationOut, node: string): boolean {
  return (
    operation.nodeName === node ||
    operation.nodeID === node ||
    (operation.nodes ?? []).some((target) => target.node_name === node || target.node_id === node)
  );
}

function makeSearchText(operation: OperationOut): string {
  const nodes = (operation.nodes ?? []).map((target) => target.node_name);
  const words = [operation.name, operation.fullName, operation.nodeName, operation.error, operation.message];
  return [...words, ...nodes, operation.createdBy, operation.id].join(" ").toLowerCase();
}

interface Sections {
  active: OperationOut[];
  failed: OperationOut[];
}

/** Separates active and failed operations. One that has just completed is in neither list. */
export function buildSections(operations: readonly OperationOut[]): Sections {
  const failed = operations.filter((operation) => operation.state === "failed");
  const active = operations.filter((operation) => !isSettled(operation.state));
  return { active: active.sort(byWeight), failed };
}

const WEIGHTS: Record<string, number> = { queued: 1, completed_with_pending: 2, paused: 3 };

/** Sorts running, then queued, then pending and paused operations; oldest first, so that cards keep their places. */
function byWeight(one: OperationOut, other: OperationOut): number {
  return (
    (WEIGHTS[one.state] ?? 0) - (WEIGHTS[other.state] ?? 0) || one.createdAt.localeCompare(other.createdAt)
  );
}

/** Pending changes that no listed operation shows: failed ones, and those that wait for a node or the next attempt. */
export function listOtherPendingChanges(
  assignments: readonly AssignmentOut[],
  operations: readonly OperationOut[],
): { dead: AssignmentOut[]; open: AssignmentOut[] } {
  const shown = new Set(
    operations
      .filter((operation) => operation.state !== "completed_with_pending")
      .map((operation) => operation.id),
  );
  return {
    dead: assignments.filter((assignment) => assignment.state === "dead"),
    open: assignments.filter(
      (assignment) =>
        assignment.state !== "dead" && (assignment.attempts > 0 || !shown.has(assignment.operation_id)),
    ),
  };
}

/** Returns a text that changes when an attempt of a node begins or ends, because pending changes may differ then. */
export function describeTries(operations: readonly OperationOut[]): string {
  return operations
    .flatMap(({ id, nodes = [] }) => nodes.map((target) => [id, target.node_id, target.state, target.error]))
    .join();
}

/** Sums up all operations in one sentence, regardless of the filter. */
export function describeOperations(operations: readonly OperationOut[], dead: number): string {
  const { active, failed } = buildSections(operations);
  const attention = failed.length + dead;
  const parts = [
    active.length > 0 && `${active.length} in progress`,
    attention > 0 && `${attention} ${attention === 1 ? "needs" : "need"} attention`,
  ].filter(Boolean);
  return parts.length > 0 ? `${parts.join(", ")}.` : "No active operations.";
}

interface TitledWave {
  wave: number;
  /** Null if there is only one wave. */
  title: string | null;
  targets: TargetOut[];
}

export function groupTitledWaves<T extends TargetOut>(
  targets: readonly T[],
): (TitledWave & { targets: T[] })[] {
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
  if (some("error") > 0) return `${STATE_WORDS.target.error} on ${plural(some("error"), "node")}`;
  if (targets.every(isNotStarted)) return STATE_WORDS.target.skipped;
  if (targets.every((target) => target.state === "skipped")) return STATE_WORDS.target.skipped;
  if (some("cancelled") > 0) return STATE_WORDS.target.cancelled;
  if (targets.every((target) => FINAL.has(target.state))) return STATE_WORDS.target.success;
  return targets.every((target) => target.state === "queued")
    ? STATE_WORDS.target.queued
    : STATE_WORDS.target.working;
}
