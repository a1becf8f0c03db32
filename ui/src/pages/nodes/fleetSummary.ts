// Counts nodes and sums their memory, for every page. Pure. Unknown values are left out of a sum.
import type { NodeOut } from "@/api/schema";
import { formatCount, plural } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

export interface ResourceAmount {
  used: number | null;
  total: number | null;
  reserved: number;
}

export interface FleetSummary {
  /** Every node, also those that are pending approval or unreachable. */
  all: number;
  byStatus: Record<string, number>;
  agents: number;
  /** Nodes whose memory is counted: approved backend nodes with a current heartbeat. */
  total: number;
  vram: ResourceAmount;
  ram: ResourceAmount;
  threads: number;
}

const REACHABLE_STATUSES = new Set(["healthy", "draining", "unhealthy"]);

export const isAgent = (node: Pick<NodeOut, "node_type">): boolean => node.node_type === "agent";

/** Whether heartbeats arrive. A drained node may be away as well. */
export function hasCurrentHeartbeat(node: Pick<NodeOut, "status" | "conditions">): boolean {
  if (node.status === "offline") return false;
  return !(node.conditions ?? []).some((fact) => fact.name === "alive" && fact.holds === false);
}

export function summariseFleet(nodes: readonly NodeOut[]): FleetSummary {
  const byStatus: Record<string, number> = {};
  for (const { status } of nodes) byStatus[status] = (byStatus[status] ?? 0) + 1;
  const reachable = nodes.filter(
    (node) => REACHABLE_STATUSES.has(node.status) && !isAgent(node) && hasCurrentHeartbeat(node),
  );
  return {
    all: nodes.length,
    byStatus,
    agents: nodes.filter(isAgent).length,
    total: reachable.length,
    vram: sum(
      reachable,
      (node) => node.total_vram,
      (node) => node.reported_available_vram ?? node.available_vram,
      (node) => node.reserved_vram,
    ),
    ram: sum(
      reachable,
      (node) => node.total_ram,
      (node) => node.available_ram,
    ),
    threads: reachable.reduce((threads, node) => threads + (node.cpu_threads ?? 0), 0),
  };
}

type AmountSource = (node: NodeOut) => number | null | undefined;

function sum(
  nodes: readonly NodeOut[],
  total: AmountSource,
  free: AmountSource,
  reserved: AmountSource = () => 0,
): ResourceAmount {
  let known: ResourceAmount = { used: null, total: null, reserved: 0 };
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

const STATUS_ORDER = ["healthy", "pending", "draining", "unhealthy", "offline"];

/** `3 healthy`, `1 offline`: every status that some node has, in a fixed order. */
export function statusWords(fleet: FleetSummary): string[] {
  const others = Object.keys(fleet.byStatus).filter((status) => !STATUS_ORDER.includes(status));
  return [...STATUS_ORDER, ...others]
    .filter((status) => fleet.byStatus[status])
    .map((status) => `${formatCount(fleet.byStatus[status])} ${findStateWord("node", status)}`);
}

/** The caption that says which nodes the memory is of. */
export function describeCapacity(fleet: FleetSummary): string {
  return `on ${plural(fleet.total, "reachable node")}`;
}
