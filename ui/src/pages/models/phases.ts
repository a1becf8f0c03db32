// A load's way in four steps, from the phases that the server tells.
import type { OperationOut, TargetOut } from "@/api/schema";

export const STEPS = ["Place", "Files", "Engine", "Load"] as const;

const STEP: Record<string, number> = {
  queued: 0,
  placing: 0,
  making_room: 0,
  stopping: 0,
  resolving: 1,
  downloading: 1,
  verifying: 1,
  staging: 1,
  extracting: 2,
  checking: 2,
  committing: 2,
  starting: 2,
  loading: 3,
};
const WORDS: Record<string, string> = {
  queued: "waiting for its turn",
  placing: "choosing a node",
  making_room: "making room",
  stopping: "stopping engines",
  resolving: "looking up files",
  downloading: "fetching",
  verifying: "checking files",
  staging: "copying files to the node",
  extracting: "unpacking",
  checking: "checking the engine",
  committing: "putting it in place",
  removing: "removing files",
  starting: "starting the engine",
  loading: "loading into memory",
};
const TARGETS: Record<string, string> = {
  queued: "waiting",
  working: "working",
  unconfirmed: "not confirmed",
  success: "done",
  error: "failed",
  cancelled: "cancelled",
  superseded: "replaced",
  skipped: "left out",
};

/** What is going on; words that this page does not know are shown as they are. */
export function phaseWord(phase: string | null | undefined): string {
  return phase ? (WORDS[phase] ?? phase.replaceAll("_", " ")) : "";
}

/** Which of the steps it is at; null if the operation has no such way. */
export function stepOf(operation: Pick<OperationOut, "kind" | "phase" | "state">): number | null {
  if (operation.kind !== "model_load") return null;
  if (operation.state === "completed") return STEPS.length;
  return STEP[operation.phase ?? "queued"] ?? 0;
}

export function targetWord(target: Pick<TargetOut, "state" | "phase">): string {
  const state = TARGETS[target.state] ?? target.state;
  return target.state === "working" && target.phase ? phaseWord(target.phase) : state;
}

const VERBS: Record<string, [string, string, string]> = {
  model_install: ["Fetching the files of", "The files are here:", "Fetching failed:"],
  model_load: ["Loading", "Loaded:", "The load failed:"],
  model_stage: ["Copying the files of", "The files are on the nodes:", "Copying failed:"],
  model_unload: ["Unloading", "Unloaded:", "Unloading failed:"],
  model_delete: ["Deleting", "Deleted:", "Deleting failed:"],
};

export function headline(operation: Pick<OperationOut, "kind" | "state" | "name">): string {
  const [doing, done, failed] = VERBS[operation.kind] ?? ["Working on", "Done:", "Failed:"];
  if (operation.state === "failed") return `${failed} ${operation.name}`;
  if (operation.state === "cancelled") return `Cancelled: ${operation.name}`;
  if (operation.state === "superseded") return `Superseded: ${operation.name}`;
  if (operation.state.startsWith("completed")) return `${done} ${operation.name}`;
  return `${doing} ${operation.name}`;
}
