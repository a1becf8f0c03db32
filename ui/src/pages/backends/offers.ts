// What makes sense for one backend on one node.
import type { Cell } from "@/pages/backends/fleet";

export type Verb = "install" | "upgrade" | "reinstall" | "rollback" | "delete";

export interface Offer {
  id:
    | "install"
    | "upgrade"
    | "repair"
    | "rollback"
    | "reinstall"
    | "remove"
    | "retry"
    | "revive"
    | "drop"
    | "cancel";
  label: string;
  verb?: Verb;
  version?: string;
}

/** The first is what most people will want. */
export function offers(cell: Cell): Offer[] {
  if (cell.state === "unfit" || cell.isSystem) return [];
  if (cell.state === "busy" || cell.state === "queued")
    return cell.kind === "backend_delete" && cell.state === "busy"
      ? []
      : [{ id: "cancel", label: "Cancel the operation" }];
  const first: Offer[] = [];
  if (cell.state === "failed")
    first.push(
      cell.isDead ? { id: "revive", label: "Ask for it again" } : { id: "retry", label: "Try again" },
    );
  if (cell.state === "failed" || cell.state === "owed")
    if (cell.isDead || cell.state === "owed") first.push({ id: "drop", label: "Do not ask for it any more" });
  if (!cell.build) {
    if (cell.state === "missing") first.push({ id: "install", label: "Install", verb: "install" });
    return first;
  }
  return [...first, ...ofInstalled(cell)];
}

function ofInstalled(cell: Cell): Offer[] {
  const found: Offer[] = [];
  if (cell.drifts && cell.usual && cell.usual !== cell.version)
    found.push({
      id: "repair",
      label: `Bring to ${cell.usual} as elsewhere`,
      verb: "upgrade",
      version: cell.usual,
    });
  else if (cell.drifts) found.push({ id: "repair", label: "Bring to what is elsewhere", verb: "reinstall" });
  if (cell.upgrade && cell.upgrade !== cell.usual)
    found.push({ id: "upgrade", label: `Upgrade to ${cell.upgrade}`, verb: "upgrade" });
  if (cell.previous) found.push({ id: "rollback", label: `Roll back to ${cell.previous}`, verb: "rollback" });
  found.push({ id: "reinstall", label: "Reinstall", verb: "reinstall", version: cell.version });
  found.push({ id: "remove", label: "Remove", verb: "delete" });
  return found;
}

/** The version that brings all nodes of a row together: the newest that can be had, else what most have. */
export function commonVersion(cells: readonly Cell[], available: string): string {
  if (available) return available;
  const counts = new Map<string, number>();
  for (const cell of cells) if (cell.version) counts.set(cell.version, (counts.get(cell.version) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}
