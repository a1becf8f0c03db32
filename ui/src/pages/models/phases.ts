// Maps the phases of a load that the server reports to four steps.
import type { OperationOut } from "@/api/schema";

export const STEPS = ["Placement", "Files", "Engine", "Load"] as const;

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
/** The index of the current step; null if the operation is not a load. */
export function findStep(operation: Pick<OperationOut, "kind" | "phase" | "state">): number | null {
  if (operation.kind !== "model_load") return null;
  if (operation.state === "completed") return STEPS.length;
  return STEP[operation.phase ?? "queued"] ?? 0;
}

const VERBS: Record<string, [string, string, string]> = {
  model_install: ["Downloading", "Downloaded:", "Download failed:"],
  model_load: ["Loading", "Loaded:", "Load failed:"],
  model_stage: ["Copying to nodes:", "Copied to nodes:", "Copying failed:"],
  model_unload: ["Unloading", "Unloaded:", "Unload failed:"],
  model_delete: ["Deleting", "Deleted:", "Deletion failed:"],
};

export function headline(operation: Pick<OperationOut, "kind" | "state" | "name">): string {
  const [doing, done, failed] = VERBS[operation.kind] ?? ["Working on", "Done:", "Failed:"];
  if (operation.state === "failed") return `${failed} ${operation.name}`;
  if (operation.state === "cancelled") return `Cancelled: ${operation.name}`;
  if (operation.state === "superseded") return `Superseded: ${operation.name}`;
  if (operation.state.startsWith("completed")) return `${done} ${operation.name}`;
  return `${doing} ${operation.name}`;
}
