// Filters and sorts the list of nodes, finds the operation of each, and sums up the fleet.
import type { LiveOut, NodeOut, OperationOut } from "@/api/schema";
import type { NODE_KINDS, STATUSES } from "@/pages/nodes/search";
import { describeHardware } from "@/pages/nodes/words";

export type NodeStatusFilter = (typeof STATUSES)[number];
export type NodeKind = (typeof NODE_KINDS)[number];

// Nodes that wait for an admin come first, then those that have a problem.
const RANK: Record<string, number> = {
  pending: 0,
  unhealthy: 1,
  offline: 2,
  draining: 3,
  joining: 4,
  healthy: 5,
};
const order = new Intl.Collator("en", { numeric: true });

export function filterNodes(
  nodes: NodeOut[],
  term: string,
  status: NodeStatusFilter | undefined,
  kind: NodeKind | undefined = undefined,
): NodeOut[] {
  const words = term.toLowerCase().split(/\s+/).filter(Boolean);
  return nodes
    .filter((node) => !kind || node.node_type === kind)
    .filter((node) => !status || node.status === status)
    .filter((node) => words.length === 0 || has(listSearchWords(node), words))
    .sort((a, b) => (RANK[a.status] ?? 9) - (RANK[b.status] ?? 9) || order.compare(a.name, b.name));
}

function has(text: string, words: string[]): boolean {
  return words.every((word) => text.includes(word));
}

function listSearchWords(node: NodeOut): string {
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  return [node.name, node.address, node.id, describeHardware(node), ...labels].join(" ").toLowerCase();
}

export interface ReplicaChip {
  id: string;
  model: string;
  index: number;
  state: string;
  inFlight: number;
}

/** The replicas of each node, by its name. */
export function replicasByNode(live: LiveOut | undefined): Map<string, ReplicaChip[]> {
  const found = new Map<string, ReplicaChip[]>();
  for (const { name, replicas } of live?.models ?? []) {
    for (const { id, index, state, node, in_flight } of replicas) {
      const chips = found.get(node) ?? [];
      chips.push({ id, model: name, index, state, inFlight: in_flight ?? 0 });
      found.set(node, chips);
    }
  }
  return found;
}

/** The stream sends the live view every second, mostly with the same replicas. */
export function isSameChips(before: ReplicaChip[], after: ReplicaChip[]): boolean {
  return (
    before.length === after.length &&
    before.every((chip, place) => {
      const other = after[place];
      return chip.id === other?.id && chip.state === other.state && chip.inFlight === other.inFlight;
    })
  );
}

/** The requests that a node answers now. The live view changes every second, the numbers of nodes every two. */
export function sumInFlight(chips: readonly ReplicaChip[]): number {
  return chips.reduce((sum, chip) => sum + chip.inFlight, 0);
}

const WORKING_STATES = new Set(["working", "unconfirmed", "queued"]);

/** The operation of each node that has one: an active operation first, else a failed one. */
export function operationByNode(operations: OperationOut[]): Map<string, OperationOut> {
  const found = new Map<string, OperationOut>();
  for (const isWork of [false, true]) {
    for (const operation of operations) {
      for (const target of operation.nodes ?? []) {
        if (isWork ? WORKING_STATES.has(target.state) : target.state === "error") {
          found.set(target.node_id, operation);
        }
      }
    }
  }
  return found;
}
