// Describes operations in words, in the same way for the strip, cards, rows and other pages.
import type { EndedOperationOut, OperationOut, TargetOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { duration, joinWords, UNKNOWN } from "@/text/format";
import { isActive, isSettled } from "@/text/operationStates";
import { findStateWord } from "@/text/stateWords";
import { RETRYING, ROLLED_BACK, STATE_WORDS } from "@/text/stateWords.gen";

export type NamedOperation = Pick<OperationOut, "kind" | "name" | "nodeName">;

interface KindWords {
  doing: string;
  did: string;
  noun: string;
}

const KINDS: Record<string, KindWords> = {
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
function describeKind(kind: string): KindWords {
  return KINDS[kind] ?? { doing: kind, did: `${kind} done`, noun: kind };
}

/** `Installing`, `Failed install`, `Queued install`, `Installed`. */
export function describeVerb({ kind, state }: Pick<OperationOut, "kind" | "state">): string {
  const { doing, did, noun } = describeKind(kind);
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

/** `hello on gpu-a`: names the node, so that the operation is not mistaken for one of the whole fleet. */
export function subject({ kind, name, nodeName }: NamedOperation): string {
  if (!nodeName) return name;
  return `${name} ${kind === "model_stage" ? "to" : "on"} ${nodeName}`;
}

/** The object in the labels of buttons, after their verb: `Cancel install of hello on gpu-a`. */
export function nameForActions(operation: NamedOperation): string {
  return `${describeKind(operation.kind).noun} of ${subject(operation)}`;
}

const STATE_TONES: Record<string, Tone> = {
  running: "busy",
  waiting_on_nodes: "warn",
  completed: "good",
  completed_with_pending: "warn",
  failed: "bad",
};

export function stateWord(state: string): { text: string; tone: Tone } {
  return { text: findStateWord("operation", state), tone: STATE_TONES[state] ?? "still" };
}

const TARGET_TONES: Record<string, Tone> = {
  working: "busy",
  unconfirmed: "warn",
  success: "good",
  error: "bad",
};

/** Whether an operation ended before its command was sent to the worker of this node. */
export function isNotStarted(target: { state: string; begun?: boolean }): boolean {
  return (target.state === "cancelled" || target.state === "skipped") && target.begun === false;
}

type DescribedTarget = Pick<TargetOut, "state" | "phase" | "error"> & {
  begun?: boolean;
  is_rollback?: boolean;
};

/** The state of an operation on one node: a word, or the phase while the worker runs the job. */
export function targetWord(target: DescribedTarget): { text: string; tone: Tone } {
  const tone = TARGET_TONES[target.state] ?? "still";
  if (isNotStarted(target)) return { text: STATE_WORDS.target.skipped, tone };
  if (target.is_rollback && target.state === "success") return { text: ROLLED_BACK, tone: "warn" };
  if (target.state === "queued" && target.error) return { text: RETRYING, tone };
  if (target.state === "working" && target.phase && target.phase !== "queued")
    return { text: phaseWord(target.phase), tone };
  return { text: findStateWord("target", target.state), tone };
}

export function phaseWord(phase: string | null | undefined): string {
  return phase ? findStateWord("phase", phase) : "";
}

/** Why the operation failed. An error that several nodes share is shown once. */
export function describeFault({ error, nodes = [] }: Pick<OperationOut, "error" | "nodes">): string | null {
  if (!error) return null;
  const byText = new Map<string, string[]>();
  for (const { node_name, error: text } of nodes) {
    if (text) byText.set(text, [...(byText.get(text) ?? []), node_name]);
  }
  if (byText.size === 0 || nodes.length < 2) return error;
  return [...byText].map(([text, names]) => `${joinWords(names)}: ${text}`).join(" ");
}

type DetailedOperation = Pick<
  OperationOut,
  "kind" | "state" | "error" | "nodes" | "nodeName" | "phase" | "afterID" | "message"
>;

/** The one fact shown beside the name: an error first; else the number of nodes, the node, or the phase. */
export function describeDetail(operation: DetailedOperation): string {
  const { state, error, nodes = [], phase } = operation;
  if (error) return describeFault(operation) ?? error;
  if (state === "completed_with_pending" && operation.message) return operation.message;
  if (nodes.length > 1) {
    if (state === "cancelled") return operation.message;
    const done = nodes.filter((target) => target.state === "success").length;
    return `${done} of ${nodes.length} nodes completed`;
  }
  if (state === "queued") return operation.afterID ? "queued behind another operation" : "queued";
  const node = operation.nodeName ?? nodes[0]?.node_name;
  if (operation.kind === "model_stage" && node) return `to node ${node}`;
  if (phase && phase !== "queued") return phaseWord(phase);
  return isSettled(state) ? "" : operation.message;
}

/** The position of the progress bar: a percentage; null while the progress is unknown; undefined without a bar. */
export function computeProgress(
  operation: Pick<OperationOut, "state" | "progress" | "nodes">,
): number | null | undefined {
  if (!isActive(operation.state) || operation.state === "queued") return undefined;
  if (operation.progress > 0) return operation.progress;
  const nodes = operation.nodes ?? [];
  // Nodes that wait for the next attempt make no progress, so no moving bar is shown for them.
  return nodes.length > 0 && !nodes.some((target) => target.state === "working") ? undefined : null;
}

/** How long the operation ran; null if that is unknown. */
export function describeDuration(record: Pick<EndedOperationOut, "startedAt" | "finishedAt">): string | null {
  if (!record.startedAt || !record.finishedAt) return null;
  const seconds = (Date.parse(record.finishedAt) - Date.parse(record.startedAt)) / 1000;
  const text = duration(seconds);
  return text === UNKNOWN ? null : text;
}

/** `installed in 1 min 12 s`, `removed`, `cancelled`, `failed: …`. */
export function phrase(
  record: Pick<EndedOperationOut, "kind" | "outcome" | "error" | "message" | "startedAt" | "finishedAt">,
): string {
  switch (record.outcome) {
    case "failed":
      return `failed: ${record.error ?? record.message ?? "no reason given"}`;
    case "completed": {
      const time = describeDuration(record);
      const { did } = describeKind(record.kind);
      return time && !isRemoval(record.kind) ? `${did} in ${time}` : did;
    }
    case "superseded":
      return record.message ? `superseded: ${record.message}` : "superseded";
    default:
      return findStateWord("operation", record.outcome);
  }
}

function isRemoval(kind: string): boolean {
  return kind.endsWith("_delete") || kind.endsWith("_unload");
}
