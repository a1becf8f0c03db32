// An operation node by node: words and colours, its waves, how it ended, and what can be asked for then.
import type { OperationInFull, TargetInFull, TargetOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import type { Wish } from "@/pages/backends/data";
import { grouped } from "@/pages/backends/fleet";
import type { Verb } from "@/pages/backends/offers";
import { list, plural } from "@/text/format";
import { isNotBegun } from "@/text/operation";

export interface Said {
  word: string;
  tone: Tone;
}

const SAID: Record<string, Said> = {
  queued: { word: "Queued", tone: "still" },
  working: { word: "Busy", tone: "busy" },
  unconfirmed: { word: "Does not answer", tone: "warn" },
  success: { word: "Done", tone: "good" },
  error: { word: "Failed", tone: "bad" },
  cancelled: { word: "Cancelled", tone: "still" },
  superseded: { word: "Replaced by a newer wish", tone: "still" },
  skipped: { word: "Not begun", tone: "still" },
};

export function said(
  target: Pick<TargetOut, "state" | "phase"> & { begun?: boolean; is_rollback?: boolean },
): Said {
  const known = SAID[target.state] ?? { word: target.state, tone: "still" as const };
  if (isNotBegun(target)) return SAID.skipped ?? known;
  if (target.is_rollback && target.state === "success") return { word: "Gone back", tone: "warn" };
  if (target.state !== "working" || !target.phase) return known;
  return { ...known, word: `Busy: ${phaseWord(target.phase)}` };
}

export function phaseWord(phase: string): string {
  return phase.replaceAll("_", " ");
}

const OVER = new Set(["completed", "failed", "cancelled", "superseded"]);

export function isOver(state: string): boolean {
  return OVER.has(state);
}

export interface Wave {
  number: number;
  state: "waiting" | "busy" | "done" | "failed" | "stopped";
  targets: TargetInFull[];
}

export function wavesOf(targets: readonly TargetInFull[]): Wave[] {
  return [...grouped(targets, (target) => String(target.wave))]
    .map(([number, members]) => ({ number: Number(number), state: waveState(members), targets: members }))
    .sort((a, b) => a.number - b.number);
}

/** Failures on top, the others as they come. */
export function failedFirst(targets: readonly TargetInFull[]): TargetInFull[] {
  return [...targets].sort((a, b) => Number(b.state === "error") - Number(a.state === "error"));
}

function waveState(targets: readonly TargetInFull[]): Wave["state"] {
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

/** One sentence on how the whole stands. It changes with states, never with percentages. */
export function standing(operation: OperationInFull): string {
  const [doing, done] = DOING[operation.kind] ?? ["Working on", "Done with"];
  const targets = operation.nodes ?? [];
  const count = (...states: string[]) => targets.filter((target) => states.includes(target.state)).length;
  const good = count("success");
  const failed = targets.filter((target) => target.state === "error");
  switch (operation.state) {
    case "queued":
      return operation.afterID
        ? "Queued: it waits for another operation."
        : "Queued: a frontend will take it up.";
    case "completed":
      return `${done} on ${plural(good, "node")}.`;
    case "completed_with_pending":
      return `${done} on ${plural(good, "node")}; ${plural(targets.length - good, "node")} away will get it when back.`;
    case "failed":
      return failedSentence(operation, failed, count("skipped"), targets.length);
    case "cancelled":
      return good > 0 ? `Cancelled. ${done} on ${plural(good, "node")} before that.` : "Cancelled.";
    case "superseded":
      return "A newer operation has taken its place.";
    case "paused":
      return "Paused.";
    case "waiting_on_nodes":
      return `${doing}: ${plural(count("unconfirmed"), "node")} ${count("unconfirmed") === 1 ? "does" : "do"} not answer now.`;
    default:
      if (targets.length === 0) return `${doing}: nodes are being chosen.`;
      return `${doing}: ${good} of ${plural(targets.length, "node")} done.`;
  }
}

function failedSentence(
  operation: OperationInFull,
  failed: readonly TargetInFull[],
  skipped: number,
  all: number,
): string {
  if (failed.length === 0) return operation.error ?? "It failed.";
  const where = failed.length > 3 ? plural(failed.length, "node") : list(failed.map((one) => one.node_name));
  const rest = skipped ? ` Stopped there: ${plural(skipped, "node")} not begun.` : "";
  return all === 1 ? "It failed." : `Failed on ${where}.${rest}`;
}

/** The same once more for the nodes that do not have it: those that failed and those that were not begun. */
export function againFor(operation: OperationInFull): Wish | null {
  const verb = DOING[operation.kind]?.[2] as Verb | undefined;
  const left = (operation.nodes ?? []).filter((target) => ["error", "skipped"].includes(target.state));
  if (!verb || left.length === 0) return null;
  const asked = operation.request;
  const text = (name: string) => (typeof asked[name] === "string" ? asked[name] : "");
  const how = (asked.strategy ?? {}) as {
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
    ignoresHardware: asked.ignores_capability === true,
    strategy: {
      waves: how.waves ?? [],
      stop_on_failure: how.stops_on_failure ?? false,
      rollback: how.rolls_back ?? false,
    },
    source: uri ? { uri, name: text("backend"), sha256: text("sha256") } : null,
  };
}

/** Nodes that an ended upgrade or reinstallation has changed, and that have kept what they had. */
/** Where a roll-back of the whole operation is offered. Who looks at one node has a button for that node already. */
export function offeredBack(operation: OperationInFull, only: string | undefined): string[] {
  const back = canGoBack(operation);
  return only !== undefined && back.length < 2 ? [] : back;
}

export function canGoBack(operation: OperationInFull): string[] {
  if (!isOver(operation.state) || !["backend_upgrade", "backend_reinstall"].includes(operation.kind))
    return [];
  return (operation.nodes ?? [])
    .filter((target) => target.state === "success" && !target.is_rollback && target.previous_version)
    .map((target) => target.node_id);
}
