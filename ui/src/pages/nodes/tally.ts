// Nodes and their memory as every page counts them. Pure. What is not known of a node is left out of a sum.
import type { NodeOut } from "@/api/schema";
import { count, plural } from "@/text/format";

export interface Amount {
  used: number | null;
  total: number | null;
  reserved: number;
}

export interface Tally {
  /** Every node, also those that wait for approval and those that are away. */
  all: number;
  byStatus: Record<string, number>;
  agents: number;
  /** Nodes whose memory is counted: backend nodes that are approved and heard from. */
  there: number;
  vram: Amount;
  ram: Amount;
  threads: number;
}

const THERE = new Set(["healthy", "draining", "unhealthy"]);

export const isAgent = (node: Pick<NodeOut, "node_type">): boolean => node.node_type === "agent";

/** Whether heartbeats arrive. A drained node may be away as well. */
export function isHeard(node: Pick<NodeOut, "status" | "conditions">): boolean {
  if (node.status === "offline") return false;
  return !(node.conditions ?? []).some((fact) => fact.name === "alive" && fact.holds === false);
}

export function tallyOf(nodes: readonly NodeOut[]): Tally {
  const byStatus: Record<string, number> = {};
  for (const { status } of nodes) byStatus[status] = (byStatus[status] ?? 0) + 1;
  const there = nodes.filter((node) => THERE.has(node.status) && !isAgent(node) && isHeard(node));
  return {
    all: nodes.length,
    byStatus,
    agents: nodes.filter(isAgent).length,
    there: there.length,
    vram: sum(
      there,
      (node) => node.total_vram,
      (node) => node.reported_available_vram ?? node.available_vram,
      (node) => node.reserved_vram,
    ),
    ram: sum(
      there,
      (node) => node.total_ram,
      (node) => node.available_ram,
    ),
    threads: there.reduce((threads, node) => threads + (node.cpu_threads ?? 0), 0),
  };
}

type Of = (node: NodeOut) => number | null | undefined;

function sum(nodes: readonly NodeOut[], total: Of, free: Of, reserved: Of = () => 0): Amount {
  let known: Amount = { used: null, total: null, reserved: 0 };
  for (const node of nodes) {
    const all = total(node);
    const left = free(node);
    if (!all || left == null) continue;
    known = {
      used: (known.used ?? 0) + Math.max(0, all - left),
      total: (known.total ?? 0) + all,
      reserved: known.reserved + (reserved(node) ?? 0),
    };
  }
  return known;
}

const WORDS: [status: string, word: string][] = [
  ["healthy", "healthy"],
  ["pending", "waiting for approval"],
  ["draining", "draining"],
  ["unhealthy", "unhealthy"],
  ["offline", "offline"],
];

/** `3 healthy`, `1 offline`: every status that some node has, in a fixed order. */
export function statusWords(tally: Tally): string[] {
  const known = WORDS.filter(([status]) => tally.byStatus[status]);
  const others = Object.keys(tally.byStatus).filter((status) => !WORDS.some(([one]) => one === status));
  return [
    ...known.map(([status, word]) => `${count(tally.byStatus[status])} ${word}`),
    ...others.map((status) => `${count(tally.byStatus[status])} ${status}`),
  ];
}

/** What the memory is the memory of. */
export function thereWords(tally: Tally): string {
  return `on ${plural(tally.there, "node")} that can be reached`;
}
