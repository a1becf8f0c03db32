// Describes a node in words: its hardware, its status, and what removing it would do.
import type { NodeOut } from "@/api/schema";
import { isAgent } from "@/pages/nodes/fleetSummary";
import { bytes, joinWords, plural } from "@/text/format";

/** `2 × RTX 4090, 16 cores, 64 GiB, x86_64`. Hardware that the machine did not report is left out. */
export function describeHardware(node: NodeOut): string {
  const gpus = countedBy((node.gpus ?? []).map((gpu) => gpu.name || gpu.vendor));
  const words = [
    ...gpus,
    gpus.length === 0 && (node.total_vram ?? 0) > 0 && node.gpu_vendor,
    node.cpu_cores && plural(node.cpu_cores, "core"),
    node.total_ram && bytes(node.total_ram),
    node.architecture,
  ];
  return words.filter(Boolean).join(", ");
}

function countedBy(names: string[]): string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`));
}

export function computeUsed(
  total: number | null | undefined,
  available: number | null | undefined,
): number | null {
  return total == null || available == null ? null : Math.max(0, total - available);
}

/** What is lost when a node is removed: only what it has is listed. */
export function describeLoss(
  node: Pick<
    NodeOut,
    | "node_type"
    | "model_count"
    | "in_flight_count"
    | "label_sources"
    | "vram_budget_manually_set"
    | "max_replicas_per_model_manually_set"
  >,
): string {
  const labels = Object.values(node.label_sources).filter((source) => source === "admin").length;
  const lost = [
    node.model_count > 0 && plural(node.model_count, "replica"),
    labels > 0 && plural(labels, "label"),
    node.vram_budget_manually_set && "its VRAM budget",
    node.max_replicas_per_model_manually_set && "its replica slots",
    !isAgent(node) && "its pending changes",
  ].filter((word) => word !== false);
  const deleted = lost.length > 0 ? [`This also deletes ${joinWords(lost)}.`] : [];
  if (isAgent(node)) return [...deleted, "Its runs begin again on another node, or are lost."].join(" ");
  const busy =
    node.in_flight_count > 0
      ? ` ${plural(node.in_flight_count, "request is", "requests are")} in flight.`
      : "";
  return `${deleted.join("")}${busy}`;
}

/** What a user can do about a node that is not healthy; empty if nothing has to be done. */
export function describeAdvice(node: Pick<NodeOut, "status" | "status_reason">): string {
  if (node.status === "unhealthy")
    return "The worker runs but is not connected to NATS. Check that the machine reaches NATS, then look at the worker's log.";
  if (node.status !== "offline") return "";
  return node.status_reason.includes("stopped")
    ? "Start the worker again on that machine, or remove the node if the machine is gone."
    : "Check that the machine is on and reaches this cluster: the worker reconnects by itself. If the machine is gone, remove the node.";
}

/** Why the node has its status, without the commands that the server's sentence names. */
export function describeReason(
  node: Pick<NodeOut, "status" | "status_reason"> &
    Partial<Pick<NodeOut, "proposed_labels" | "address_note">>,
): string {
  if (node.status !== "pending") return node.status_reason;
  return ["Waiting for approval.", ...approvalNotes(node)].join(" ");
}

/** What an admin should know before approving a node: its reported address, and the labels that its worker sends. */
export function approvalNotes(node: Partial<Pick<NodeOut, "proposed_labels" | "address_note">>): string[] {
  const labels = Object.entries(node.proposed_labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const brings = labels.length > 0 && `Approving the node also approves its labels: ${labels.join(", ")}.`;
  return [node.address_note, brings].filter((note): note is string => Boolean(note));
}
