// Operations in words. One way to say what an operation does, for the strip, for cards, rows and other pages.
import type { OperationOut, RecordOut, TargetOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { duration, list, UNKNOWN } from "@/text/format";

export type Named = Pick<OperationOut, "kind" | "name" | "nodeName">;

interface Words {
  doing: string;
  did: string;
  noun: string;
}

const KINDS: Record<string, Words> = {
  backend_install: { doing: "Installing", did: "installed", noun: "install" },
  backend_upgrade: { doing: "Upgrading", did: "upgraded", noun: "upgrade" },
  backend_reinstall: { doing: "Reinstalling", did: "reinstalled", noun: "reinstall" },
  backend_rollback: { doing: "Rolling back", did: "rolled back", noun: "rollback" },
  backend_delete: { doing: "Removing", did: "removed", noun: "removal" },
  model_install: { doing: "Installing", did: "installed", noun: "install" },
  model_load: { doing: "Loading", did: "loaded", noun: "load" },
  model_stage: { doing: "Staging", did: "staged", noun: "staging" },
  model_unload: { doing: "Unloading", did: "unloaded", noun: "unload" },
  model_delete: { doing: "Deleting", did: "deleted", noun: "deletion" },
};

/** A kind that this page does not know is shown as it is. */
export function words(kind: string): Words {
  return KINDS[kind] ?? { doing: kind, did: `${kind} done`, noun: kind };
}

const UNDER_WAY = new Set(["queued", "running", "waiting_on_nodes"]);
const ENDED = new Set(["completed", "failed", "cancelled", "superseded"]);

export const isUnderWay = (state: string): boolean => UNDER_WAY.has(state);
export const hasEnded = (state: string): boolean => ENDED.has(state);

/** `Installing`, `Failed install`, `Queued install`, `Installed`. */
export function verb({ kind, state }: Pick<OperationOut, "kind" | "state">): string {
  const { doing, did, noun } = words(kind);
  switch (state) {
    case "queued":
      return `Queued ${noun}`;
    case "failed":
      return `Failed ${noun}`;
    case "paused":
      return `Paused ${noun}`;
    case "cancelled":
      return `Cancelled ${noun}`;
    case "superseded":
      return `Superseded ${noun}`;
    case "completed":
    case "completed_with_pending":
      return `${did.charAt(0).toUpperCase()}${did.slice(1)}`;
    default:
      return doing;
  }
}

/** `hello on gpu-a`: an operation of one node is never taken for one of the whole fleet. */
export function subject({ kind, name, nodeName }: Named): string {
  if (!nodeName) return name;
  return `${name} ${kind === "model_stage" ? "to" : "on"} ${nodeName}`;
}

/** What buttons about it are called after their verb: `Cancel install of hello on gpu-a`. */
export function called(operation: Named): string {
  return `${words(operation.kind).noun} of ${subject(operation)}`;
}

const STATES: Record<string, [string, Tone]> = {
  queued: ["queued", "still"],
  running: ["running", "busy"],
  waiting_on_nodes: ["worker busy", "warn"],
  completed: ["done", "good"],
  completed_with_pending: ["owed", "warn"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", "still"],
  paused: ["paused", "still"],
  superseded: ["superseded", "still"],
};

export function stateWord(state: string): { text: string; tone: Tone } {
  const [text, tone] = STATES[state] ?? [state, "still"];
  return { text, tone };
}

const TARGETS: Record<string, [string, Tone]> = {
  queued: ["queued", "still"],
  downloading: ["downloading", "busy"],
  running_on_worker: ["worker busy", "warn"],
  success: ["done", "good"],
  error: ["failed", "bad"],
  cancelled: ["cancelled", "still"],
  superseded: ["superseded", "still"],
  skipped: ["skipped", "still"],
};

/** Whether an operation ended before the worker of this node was told anything of it. */
export function isNotBegun(target: { state: string; begun?: boolean }): boolean {
  return (target.state === "cancelled" || target.state === "skipped") && target.begun === false;
}

/** How one node is doing. `downloading` is the word for any work, so the phase says it better where there is one. */
export function targetWord(target: Pick<TargetOut, "status" | "state" | "phase"> & { begun?: boolean }): {
  text: string;
  tone: Tone;
} {
  if (isNotBegun(target)) return { text: "not begun", tone: "still" };
  if (target.state === "working") {
    const phase = target.phase && target.phase !== "queued" ? phaseWord(target.phase) : "working";
    return { text: phase, tone: "busy" };
  }
  const [text, tone] = TARGETS[target.status] ?? [target.status, "still"];
  return { text, tone };
}

export function phaseWord(phase: string): string {
  return phase.replaceAll("_", " ");
}

/** Why it failed. What several nodes failed with alike is said once. */
export function fault({ error, nodes = [] }: Pick<OperationOut, "error" | "nodes">): string | null {
  if (!error) return null;
  const byText = new Map<string, string[]>();
  for (const { node_name, error: text } of nodes) {
    if (text) byText.set(text, [...(byText.get(text) ?? []), node_name]);
  }
  if (byText.size === 0 || nodes.length < 2) return error;
  return [...byText].map(([text, names]) => `${list(names)}: ${text}`).join(" ");
}

type Told = Pick<
  OperationOut,
  "kind" | "state" | "error" | "nodes" | "nodeName" | "phase" | "afterID" | "message"
>;

/** The one thing to know beside the name. An error before everything; then how many nodes; then where; then what. */
export function detail(operation: Told): string {
  const { state, error, nodes = [], phase } = operation;
  if (error) return fault(operation) ?? error;
  if (state === "completed_with_pending" && operation.message) return operation.message;
  if (nodes.length > 1) {
    if (state === "cancelled") return operation.message;
    const done = nodes.filter((target) => target.state === "success").length;
    return `${done} of ${nodes.length} nodes done`;
  }
  if (state === "queued")
    return operation.afterID ? "waiting for another operation" : "waiting for installer";
  const node = operation.nodeName ?? nodes[0]?.node_name;
  if (operation.kind === "model_stage" && node) return `to node ${node}`;
  if (phase && phase !== "queued") return phaseWord(phase);
  return hasEnded(state) ? "" : operation.message;
}

/** How far the bar is: a percentage; null while something moves and nobody knows how far; undefined without a bar. */
export function bar(
  operation: Pick<OperationOut, "state" | "progress" | "nodes">,
): number | null | undefined {
  if (!isUnderWay(operation.state) || operation.state === "queued") return undefined;
  if (operation.progress > 0) return operation.progress;
  const nodes = operation.nodes ?? [];
  // Nodes that wait for a next try do not move, and must not look as if they did.
  return nodes.length > 0 && !nodes.some((target) => target.state === "working") ? undefined : null;
}

/** How long it ran; nothing if that is not known, or cannot be. */
export function took(record: Pick<RecordOut, "startedAt" | "finishedAt">): string | null {
  if (!record.startedAt || !record.finishedAt) return null;
  const seconds = (Date.parse(record.finishedAt) - Date.parse(record.startedAt)) / 1000;
  const text = duration(seconds);
  return text === UNKNOWN ? null : text;
}

/** `installed in 1 min 12 s`, `removed`, `cancelled`, `failed: …`. */
export function phrase(
  record: Pick<RecordOut, "kind" | "outcome" | "error" | "message" | "startedAt" | "finishedAt">,
): string {
  switch (record.outcome) {
    case "failed":
      return `failed: ${record.error ?? record.message ?? "nobody said why"}`;
    case "completed": {
      const time = took(record);
      const { did } = words(record.kind);
      return time && !isRemoval(record.kind) ? `${did} in ${time}` : did;
    }
    case "superseded":
      return record.message ? `superseded: ${record.message}` : "superseded";
    default:
      return record.outcome;
  }
}

export function isRemoval(kind: string): boolean {
  return kind.endsWith("_delete") || kind.endsWith("_unload");
}
