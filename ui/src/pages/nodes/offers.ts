// Lists the actions that a node offers in its present state, with their labels.
import type { NodeOut } from "@/api/schema";
import type { IconName } from "@/kit/icons";

export type OfferId = "approve" | "resume" | "drain" | "probe" | "stop" | "remove";

export interface NodeOffer {
  id: OfferId;
  label: string;
  icon: IconName;
  danger?: boolean;
}

/** The most likely action comes first. Labels name the node, because several rows have the same menu. */
export function listNodeOffers(node: Pick<NodeOut, "name" | "status" | "conditions">): NodeOffer[] {
  const { name } = node;
  const offers: NodeOffer[] = [];
  if (node.status === "pending") offers.push({ id: "approve", label: `Approve ${name}`, icon: "check" });
  if (isDrainedByAdmin(node)) offers.push({ id: "resume", label: `Resume ${name}`, icon: "play" });
  else offers.push({ id: "drain", label: `Drain ${name}`, icon: "pause" });
  // A node that is unreachable, or has no credential for the bus yet, cannot receive a command.
  if (hasCondition(node, "approved") && hasCondition(node, "alive")) {
    offers.push({ id: "probe", label: `Probe ${name}`, icon: "again" });
    offers.push({ id: "stop", label: `Stop the worker of ${name}`, icon: "stop" });
  }
  offers.push({ id: "remove", label: `Remove ${name}`, icon: "trash", danger: true });
  return offers;
}

export function hasCondition(node: Pick<NodeOut, "conditions">, name: string): boolean {
  return node.conditions.some((fact) => fact.name === name && fact.holds === true);
}

/** Whether an admin has drained the node. A worker that shuts down drains itself too, which a user cannot undo. */
function isDrainedByAdmin(node: Pick<NodeOut, "conditions">): boolean {
  return node.conditions.some(
    (fact) => fact.name === "draining" && fact.holds === true && fact.reason.startsWith("Drained by"),
  );
}
