// Facts about one node in words and colours, and what a change would do.
import type { NodeOut, OperationOut, ReplicaOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { isAgent } from "@/pages/nodes/fleetSummary";
import { plural } from "@/text/format";

type Condition = NodeOut["conditions"][number];

const WORDS: Record<string, [yes: string, no: string, unknown: string]> = {
  approved: ["Approved", "Not approved", "Not approved yet"],
  alive: ["Reachable", "Unreachable", "No heartbeat yet"],
  on_bus: ["Connected to NATS", "Not connected to NATS", "NATS connection unknown"],
  draining: ["Draining", "Not draining", "Not draining"],
};

/** Draining is the only condition that is good when it does not hold. */
export function conditionWord({ name, holds }: Pick<Condition, "name" | "holds">): {
  text: string;
  tone: Tone;
} {
  const [yes, no, unknown] = WORDS[name] ?? [name, `not ${name}`, `${name}: unknown`];
  if (holds === null) return { text: unknown, tone: "still" };
  if (name === "draining") return { text: holds ? yes : no, tone: holds ? "warn" : "still" };
  return { text: holds ? yes : no, tone: holds ? "good" : "bad" };
}

/** Models that have more replicas here than `slots` would allow. */
export function describeSlotExcess(
  replicas: readonly Pick<ReplicaOut, "model_name" | "state">[],
  slots: number,
): string[] {
  const counts = new Map<string, number>();
  for (const { model_name, state } of replicas) {
    if (state !== "failed") counts.set(model_name, (counts.get(model_name) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count > slots).map(([model]) => model);
}

/** The CPU threads that are assigned to the replicas of the node. */
export function describeThreads({
  held_threads,
  cpu_threads,
}: Pick<NodeOut, "held_threads" | "cpu_threads">): string {
  return cpu_threads == null ? `${held_threads} in use` : `${held_threads} of ${cpu_threads} in use`;
}

/** Operations that have, or had, something to do on this node. Matched by its id, never by a name. */
export function filterByNode<T extends Pick<OperationOut, "nodeID" | "nodes">>(
  operations: readonly T[],
  id: string,
): T[] {
  return operations.filter(
    (operation) => operation.nodeID === id || operation.nodes?.some((target) => target.node_id === id),
  );
}

/** `2 of 4 runs active.`; `active` is null where the caller does not see all of them. */
export function describeRunPlaces({ max_runs }: Pick<NodeOut, "max_runs">, active: number | null): string {
  if (!max_runs)
    return "This node takes no runs: its worker was started with --max-runs 0, or lacks modules that its log names.";
  return active === null
    ? `Takes up to ${plural(max_runs, "run")} at the same time.`
    : `${active} of ${plural(max_runs, "run")} active.`;
}

const SOURCES: Record<string, string> = {
  admin: "set here",
  worker: "from the worker's settings",
  auto: "from the machine",
};

export function sourceWord(source: string | undefined): string {
  return SOURCES[source ?? ""] ?? "";
}

export interface LabelRow {
  key: string;
  value: string;
  source: string;
  /** Whether an admin has set the label. Others come back with the worker: they can be overridden, not removed. */
  isOurs: boolean;
  /** Whether the label is the machine's own, which cannot be set. */
  isFixed: boolean;
}

/** Automatic labels about engines, which an agent node does not run. */
const ENGINE_LABELS = new Set(["node.replica-slots", "gpu.vram"]);

export function labelRows(node: Pick<NodeOut, "node_type" | "labels" | "label_sources">): LabelRow[] {
  return Object.entries(node.labels)
    .filter(([key]) => !(isAgent(node) && ENGINE_LABELS.has(key)))
    .map(([key, value]) => {
      const source = node.label_sources[key] ?? "";
      return { key, value, source, isOurs: source === "admin", isFixed: source === "auto" };
    })
    .sort((a, b) => Number(b.isOurs) - Number(a.isOurs) || a.key.localeCompare(b.key));
}

export function shortDigest(digest: string): string {
  return digest.replace(/^sha256:/, "").slice(0, 12);
}
