// Which nodes are shown, in which order, and how the fleet is as a whole.
import type { LiveOut, LiveReplica, NodeOut } from "@/api/schema";
import type { STATUSES } from "@/pages/nodes/search";
import { usedOf } from "@/pages/nodes/words";

export type Status = (typeof STATUSES)[number];

// Those that wait for somebody first, then those that have a problem.
const RANK: Record<string, number> = { pending: 0, unhealthy: 1, offline: 2, draining: 3, healthy: 4 };

export function shownNodes(nodes: NodeOut[], term: string, status: Status | undefined): NodeOut[] {
  const words = term.toLowerCase().split(/\s+/).filter(Boolean);
  return nodes
    .filter((node) => !status || node.status === status)
    .filter((node) => words.every((word) => wordsOf(node).includes(word)))
    .sort((a, b) => (RANK[a.status] ?? 9) - (RANK[b.status] ?? 9) || a.name.localeCompare(b.name));
}

function wordsOf(node: NodeOut): string {
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  return [node.name, node.address, node.id, ...labels].join(" ").toLowerCase();
}

export interface Pulse {
  nodes: number;
  byStatus: Record<string, number>;
  vramUsed: number;
  vramTotal: number;
}

export function pulseOf(nodes: NodeOut[]): Pulse {
  const byStatus: Record<string, number> = {};
  let vramUsed = 0;
  let vramTotal = 0;
  for (const node of nodes) {
    byStatus[node.status] = (byStatus[node.status] ?? 0) + 1;
    vramTotal += node.total_vram ?? 0;
    vramUsed += usedOf(node.total_vram, node.reported_available_vram ?? node.available_vram) ?? 0;
  }
  return { nodes: nodes.length, byStatus, vramUsed, vramTotal };
}

export interface Chip extends LiveReplica {
  model: string;
}

/** The replicas of each node, by its name. */
export function replicasByNode(live: LiveOut | undefined): Map<string, Chip[]> {
  const found = new Map<string, Chip[]>();
  for (const model of live?.models ?? []) {
    for (const replica of model.replicas) {
      const chips = found.get(replica.node) ?? [];
      chips.push({ ...replica, model: model.name });
      found.set(replica.node, chips);
    }
  }
  return found;
}
