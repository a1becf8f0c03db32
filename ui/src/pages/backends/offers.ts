// Lists the actions for one backend on one node.
import type { MatrixCellData } from "@/pages/backends/fleet";

export type BackendVerb = "install" | "upgrade" | "reinstall" | "rollback" | "delete";

export interface CellOffer {
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
  verb?: BackendVerb;
  version?: string;
}

/** The actions of a cell; the most likely one comes first. */
export function listCellOffers(cell: MatrixCellData): CellOffer[] {
  if (cell.state === "unfit" || cell.isSystem) return [];
  if (cell.state === "busy" || cell.state === "queued")
    return cell.kind === "backend_delete" && cell.state === "busy"
      ? []
      : [{ id: "cancel", label: "Cancel the operation" }];
  const first: CellOffer[] = [];
  if (cell.state === "failed")
    first.push(cell.isDead ? { id: "revive", label: "Retry" } : { id: "retry", label: "Retry" });
  if (cell.state === "failed" || cell.state === "pending")
    if (cell.isDead || cell.state === "pending") first.push({ id: "drop", label: "Discard pending change" });
  if (!cell.build) {
    if (cell.state === "missing") first.push({ id: "install", label: "Install", verb: "install" });
    return first;
  }
  return [...first, ...ofInstalled(cell)];
}

function ofInstalled(cell: MatrixCellData): CellOffer[] {
  const found: CellOffer[] = [];
  if (cell.drifts && cell.usual && cell.usual !== cell.version)
    found.push({
      id: "repair",
      label: `Align to ${cell.usual}`,
      verb: "upgrade",
      version: cell.usual,
    });
  else if (cell.drifts) found.push({ id: "repair", label: "Align with other nodes", verb: "reinstall" });
  if (cell.upgrade && cell.upgrade !== cell.usual)
    found.push({ id: "upgrade", label: `Upgrade to ${cell.upgrade}`, verb: "upgrade" });
  if (cell.previous) found.push({ id: "rollback", label: `Roll back to ${cell.previous}`, verb: "rollback" });
  found.push({ id: "reinstall", label: "Reinstall", verb: "reinstall", version: cell.version });
  found.push({ id: "remove", label: "Remove", verb: "delete" });
  return found;
}

/** The version that all nodes of a row should have: the newest available one, else the one that most nodes have. */
export function pickCommonVersion(cells: readonly MatrixCellData[], available: string): string {
  if (available) return available;
  const counts = new Map<string, number>();
  for (const cell of cells) if (cell.version) counts.set(cell.version, (counts.get(cell.version) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}
