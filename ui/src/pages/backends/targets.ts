// An operation node by node: its waves, its outcome, and the changes that can be requested then.
import type { OperationDetailOut, TargetDetailOut } from "@/api/schema";
import type { BackendChange } from "@/pages/backends/calls";
import { groupBy } from "@/pages/backends/fleet";
import type { BackendVerb } from "@/pages/backends/offers";
import { joinWords, plural } from "@/text/format";
import { isSettled } from "@/text/operationStates";

export interface Wave {
  number: number;
  state: "waiting" | "busy" | "done" | "failed" | "stopped";
  targets: TargetDetailOut[];
}

export function groupWaves(targets: readonly TargetDetailOut[]): Wave[] {
  return [...groupBy(targets, (target) => String(target.wave))]
    .map(([number, members]) => ({ number: Number(number), state: waveState(members), targets: members }))
    .sort((a, b) => a.number - b.number);
}

/** Sorts failures first and keeps the order of the others. */
export function sortFailedFirst(targets: readonly TargetDetailOut[]): TargetDetailOut[] {
  return [...targets].sort((a, b) => Number(b.state === "error") - Number(a.state === "error"));
}

function waveState(targets: readonly TargetDetailOut[]): Wave["state"] {
  const has = (...states: string[]) => targets.some((target) => states.includes(target.state));
  if (has("working", "unconfirmed")) return "busy";
  if (has("error")) return "failed";
  if (targets.every((target) => target.state === "queued")) return "waiting";
  if (has("queued")) return "busy";
  return targets.every((target) => target.state === "success") ? "done" : "stopped";
}

const DOING: Record<string, [string, string, string]> = {
  backend_install: ["Installing", "Installed", "install"],
  backend_upgrade: ["Upgrading", "Upgraded", "upgrade"],
  backend_reinstall: ["Reinstalling", "Reinstalled", "reinstall"],
  backend_rollback: ["Rolling back", "Rolled back", "rollback"],
  backend_delete: ["Removing", "Removed", "delete"],
};

/** One sentence on the state of the operation. It changes with states, never with percentages. */
export function describeOperation(operation: OperationDetailOut): string {
  const [doing, done] = DOING[operation.kind] ?? ["Working on", "Done with"];
  const targets = operation.nodes ?? [];
  const count = (...states: string[]) => targets.filter((target) => states.includes(target.state)).length;
  const good = count("success");
  const failed = targets.filter((target) => target.state === "error");
  switch (operation.state) {
    case "queued":
      return operation.afterID ? "Queued behind another operation." : "Queued.";
    case "completed":
      return `${done} on ${plural(good, "node")}.`;
    case "completed_with_pending":
      return `${done} on ${plural(good, "node")}; pending on ${plural(targets.length - good, "unreachable node")}.`;
    case "failed":
      return failedSentence(operation, failed, count("skipped"), targets.length);
    case "cancelled":
      return good > 0 ? `Cancelled. ${done} on ${plural(good, "node")} before that.` : "Cancelled.";
    case "superseded":
      return "Superseded by a newer operation.";
    case "paused":
      return "Paused.";
    case "waiting_on_nodes":
      return `${doing}: ${plural(count("unconfirmed"), "node")} unreachable.`;
    default:
      if (targets.length === 0) return `${doing}: selecting nodes.`;
      return `${doing}: ${good} of ${plural(targets.length, "node")} completed.`;
  }
}

function failedSentence(
  operation: OperationDetailOut,
  failed: readonly TargetDetailOut[],
  skipped: number,
  all: number,
): string {
  if (failed.length === 0) return operation.error ?? "Failed.";
  const where =
    failed.length > 3 ? plural(failed.length, "node") : joinWords(failed.map((one) => one.node_name));
  const rest = skipped ? ` Stopped; ${plural(skipped, "node")} skipped.` : "";
  return all === 1 ? "Failed." : `Failed on ${where}.${rest}`;
}

/** The same change again for the nodes that lack it: those that failed and those that were not started. */
export function makeRetryChange(operation: OperationDetailOut): BackendChange | null {
  const verb = DOING[operation.kind]?.[2] as BackendVerb | undefined;
  const left = (operation.nodes ?? []).filter((target) => ["error", "skipped"].includes(target.state));
  if (!verb || left.length === 0) return null;
  const request = operation.request;
  const text = (name: string) => (typeof request[name] === "string" ? request[name] : "");
  const how = (request.strategy ?? {}) as {
    waves?: number[];
    stops_on_failure?: boolean;
    rolls_back?: boolean;
  };
  const uri = text("uri");
  return {
    verb,
    backend: text("backend") || operation.name,
    nodes: left.map((target) => target.node_id),
    version: text("version"),
    ignoresHardware: request.ignores_capability === true,
    strategy: {
      waves: how.waves ?? [],
      stop_on_failure: how.stops_on_failure ?? false,
      rollback: how.rolls_back ?? false,
    },
    source: uri ? { uri, name: text("backend"), sha256: text("sha256") } : null,
  };
}

/** The nodes for which a rollback of the whole operation is offered. The view of one node has its own button already. */
export function listOfferedRollbacks(operation: OperationDetailOut, only: string | undefined): string[] {
  const nodes = listRollbackNodes(operation);
  return only !== undefined && nodes.length < 2 ? [] : nodes;
}

/** The nodes that an ended upgrade or reinstallation has changed and that still have the version before. */
export function listRollbackNodes(operation: OperationDetailOut): string[] {
  if (!isSettled(operation.state) || !["backend_upgrade", "backend_reinstall"].includes(operation.kind))
    return [];
  return (operation.nodes ?? [])
    .filter((target) => target.state === "success" && !target.is_rollback && target.previous_version)
    .map((target) => target.node_id);
}
