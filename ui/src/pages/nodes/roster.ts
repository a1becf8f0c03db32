// Which nodes are shown, in which order, what is done on each, and how the fleet is as a whole.
import type { LiveOut, NodeOut, OperationOut } from "@/api/schema";
import type { KINDS, STATUSES } from "@/pages/nodes/search";
import { hardwareOf } from "@/pages/nodes/words";

export type Status = (typeof STATUSES)[number];
export type Kind = (typeof KINDS)[number];

// Those that wait for somebody first, then those that have a problem.
const RANK: Record<string, number> = {
  pending: 0,
  unhealthy: 1,
  offline: 2,
  draining: 3,
  joining: 4,
  healthy: 5,
};
const order = new Intl.Collator("en", { numeric: true });

export function shownNodes(
  nodes: NodeOut[],
  term: string,
  status: Status | undefined,
  kind: Kind | undefined = undefined,
): NodeOut[] {
  const words = term.toLowerCase().split(/\s+/).filter(Boolean);
  return nodes
    .filter((node) => !kind || node.node_type === kind)
    .filter((node) => !status || node.status === status)
    .filter((node) => words.length === 0 || has(wordsOf(node), words))
    .sort((a, b) => (RANK[a.status] ?? 9) - (RANK[b.status] ?? 9) || order.compare(a.name, b.name));
}

function has(text: string, words: string[]): boolean {
  return words.every((word) => text.includes(word));
}

function wordsOf(node: NodeOut): string {
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  return [node.name, node.address, node.id, hardwareOf(node), ...labels].join(" ").toLowerCase();
}

export interface Chip {
  id: string;
  model: string;
  index: number;
  state: string;
  inFlight: number;
}

/** The replicas of each node, by its name. */
export function replicasByNode(live: LiveOut | undefined): Map<string, Chip[]> {
  const found = new Map<string, Chip[]>();
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
export function sameChips(before: Chip[], after: Chip[]): boolean {
  return (
    before.length === after.length &&
    before.every((chip, place) => {
      const other = after[place];
      return chip.id === other?.id && chip.state === other.state && chip.inFlight === other.inFlight;
    })
  );
}

/** What a node is answering now. The live view moves every second, the numbers of nodes every two. */
export function inFlightOf(chips: readonly Chip[]): number {
  return chips.reduce((sum, chip) => sum + chip.inFlight, 0);
}

const AT_WORK = new Set(["working", "unconfirmed", "queued"]);

/** Marks only nodes that an operation has something to do on. Work comes before a failure, a failure before nothing. */
export function operationByNode(underway: OperationOut[]): Map<string, OperationOut> {
  const found = new Map<string, OperationOut>();
  for (const isWork of [false, true]) {
    for (const operation of underway) {
      for (const target of operation.nodes ?? []) {
        if (isWork ? AT_WORK.has(target.state) : target.state === "error") {
          found.set(target.node_id, operation);
        }
      }
    }
  }
  return found;
}
