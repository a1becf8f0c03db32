// Lists the nodes that can be chosen for a change, with a word about each.
import { asProblem } from "@/api/client";
import type { BackendPlanOut, CatalogEntryOut, NodeOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { backendNodes, fitsNode } from "@/pages/backends/families";
import type { BackendRow, MatrixCellData } from "@/pages/backends/fleet";
import type { BackendVerb } from "@/pages/backends/offers";

export interface NodeCandidate {
  node: NodeOut;
  cell: MatrixCellData | undefined;
  word: string;
  tone: Tone;
  /** Why the node is not a good choice, in a sentence. */
  reason: string;
  /** Whether the node probably cannot run the backend; it is chosen only by hand. */
  isOdd: boolean;
  /** Whether the node cannot be chosen at all. */
  isClosed: boolean;
  isHealthy: boolean;
}

/** For an installation every node that can have backends; for other changes those that have this backend. */
export function listCandidates(
  verb: BackendVerb,
  nodes: readonly NodeOut[],
  row: BackendRow | undefined,
  entry: CatalogEntryOut | undefined,
  whole: BackendPlanOut | undefined,
): NodeCandidate[] {
  const cells = new Map(row?.cells.map((cell) => [cell.nodeId, cell]));
  const refused = new Map(whole?.skipped?.map((one) => [one.node_id, one.reason]));
  return backendNodes(nodes)
    .filter((node) => verb === "install" || cells.get(node.id)?.build)
    .map((node) => candidate(verb, node, cells.get(node.id), entry, refused.get(node.id) ?? ""));
}

function candidate(
  verb: BackendVerb,
  node: NodeOut,
  cell: MatrixCellData | undefined,
  entry: CatalogEntryOut | undefined,
  reason: string,
): NodeCandidate {
  const base = {
    node,
    cell,
    reason: "",
    isOdd: false,
    isClosed: false,
    isHealthy: node.status === "healthy",
  };
  if (cell?.isSystem) return { ...base, word: "System", tone: "still", isClosed: true, reason };
  if (node.status === "draining") return { ...base, word: "Draining", tone: "warn", isClosed: true, reason };
  if (cell?.state === "busy") return { ...base, word: "Running", tone: "busy", reason };
  if (cell?.state === "queued") return { ...base, word: "Queued", tone: "still", reason };
  if (cell?.state === "failed") return { ...base, word: "Failed", tone: "bad", reason: cell.error };
  if (verb === "install") {
    if (cell?.build) return { ...base, word: `Installed ${cell.version}`.trim(), tone: "good", reason };
    if (!fitsNode(entry, node))
      return { ...base, word: "Incompatible hardware", tone: "warn", isOdd: true, reason };
    if (reason) return { ...base, word: "Not installable", tone: "warn", isOdd: true, reason };
    return { ...base, ...(base.isHealthy ? COMPATIBLE : ABSENT_NODE) };
  }
  if (verb === "rollback")
    return cell?.previous
      ? { ...base, word: `Can roll back to ${cell.previous}`, tone: "good", reason }
      : { ...base, word: "No previous version", tone: "still", isClosed: true, reason };
  if (cell?.drifts) return { ...base, word: `Drifts: ${cell.version}`, tone: "warn", reason };
  return {
    ...base,
    word: `Installed ${cell?.version ?? ""}`.trim(),
    tone: base.isHealthy ? "good" : "still",
    reason,
  };
}

const COMPATIBLE = { word: "Compatible", tone: "good" as const };
const ABSENT_NODE = {
  word: "Unreachable",
  tone: "still" as const,
  reason: "Applied when the node returns.",
};

export type NodeChoice = "healthy" | "compatible" | "missing" | "none";

export function chooseNodes(choice: NodeChoice, all: readonly NodeCandidate[]): Set<string> {
  const open = all.filter((one) => !one.isClosed);
  const of = {
    healthy: open.filter((one) => one.isHealthy && !one.isOdd),
    compatible: open.filter((one) => !one.isOdd),
    missing: open.filter((one) => !one.isOdd && one.isHealthy && !one.cell?.build),
    none: [],
  }[choice];
  return new Set(of.map((one) => one.node.id));
}

interface NodeRefusal {
  node: string;
  reason: string;
}

/** The reasons that an error brings along, one for each node. */
export function listRefusals(error: unknown): NodeRefusal[] {
  const found = asProblem(error).details.skipped;
  if (!Array.isArray(found)) return [];
  return found.filter(
    (one): one is NodeRefusal => typeof one?.node === "string" && typeof one?.reason === "string",
  );
}

export const ROLLOUT_PACES = ["once", "careful", "single", "custom"] as const;
export type RolloutPace = (typeof ROLLOUT_PACES)[number];

/** The sizes of the waves, or a sentence on what is wrong with the numbers. */
export function parseWaves(pace: RolloutPace, custom: string): number[] | string {
  if (pace === "once") return [];
  if (pace === "careful") return [1, 10_000];
  if (pace === "single") return [1];
  const sizes = custom
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean)
    .map(Number);
  const isWrong =
    sizes.length === 0 || sizes.some((size) => !Number.isInteger(size) || size < 1 || size > 10_000);
  return isWrong ? "Enter node counts separated by commas, for example 1,5." : sizes;
}
