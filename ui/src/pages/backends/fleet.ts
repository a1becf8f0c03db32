// The fleet as a matrix: one row for each backend, one column for each node. Pure.
import type {
  AssignmentOut,
  BackendInstallationOut,
  BackendUpgradeOut,
  CatalogEntryOut,
  InstalledBackendOut,
  NodeOut,
  OperationOut,
  TargetOut,
} from "@/api/schema";
import { BackendFamilies, backendNodes, fitsNode } from "@/pages/backends/families";
import { findUpgrade, sortNewestFirst } from "@/pages/backends/versions";

export interface BackendFleet {
  nodes: readonly NodeOut[];
  installed: readonly InstalledBackendOut[];
  entries: readonly CatalogEntryOut[];
  upgrades: Readonly<Record<string, BackendUpgradeOut>>;
  assignments: readonly AssignmentOut[];
  operations: readonly OperationOut[];
}

export type CellState = "missing" | "unfit" | "installed" | "queued" | "busy" | "pending" | "failed";

export interface MatrixCellData {
  nodeId: string;
  nodeName: string;
  state: CellState;
  /** Why the backend cannot be installed on the node. */
  reason: string;
  /** The installed build; empty if there is none. */
  build: string;
  version: string;
  /** The rank of its version among the versions of the row and the newest available one; 0 is the newest. */
  shade: number;
  previous: string;
  digest: string;
  uri: string;
  installedAt: string;
  size: number | null;
  isSystem: boolean;
  drifts: boolean;
  /** The version that most nodes have; empty unless this node differs. */
  usual: string;
  /** The version that an upgrade would install. */
  upgrade: string;
  /** The operation that is active, has failed, or has a change pending in this cell. */
  operationId: string;
  kind: string;
  phase: string;
  percent: number | null;
  targetVersion: string;
  error: string;
  isDead: boolean;
  /** The name of the backend in the pending assignment. */
  assignedBackend: string;
}

export interface BackendRow {
  name: string;
  /** Every version that some node has, newest first. */
  versions: string[];
  /** The newest available version. */
  available: string;
  cells: MatrixCellData[];
  drifting: number;
  upgradable: number;
}

export interface MatrixData {
  columns: NodeOut[];
  rows: BackendRow[];
}

interface TargetWork {
  operation: OperationOut;
  target: TargetOut;
}

const ACTIVE_TARGETS = new Set(["queued", "working", "unconfirmed"]);
const OPEN = new Set(["queued", "running", "waiting_on_nodes", "paused"]);

export function buildMatrix(fleet: BackendFleet): MatrixData {
  const families = new BackendFamilies(fleet.entries, fleet.installed);
  const columns = backendNodes(fleet.nodes);
  const entries = new Map<string, CatalogEntryOut>();
  for (const entry of fleet.entries) if (!entries.has(entry.name)) entries.set(entry.name, entry);
  const places = groupBy(fleet.installed, (one) => families.of(one.Name));
  const work = workByFamily(fleet.operations, families);
  const assignments = groupBy(fleet.assignments, (one) => families.of(one.backend));
  const names = [...new Set([...places.keys(), ...work.keys(), ...assignments.keys()])].sort();
  const rows = names.map((name) =>
    makeRow(name, columns, {
      installed: places.get(name) ?? [],
      work: work.get(name) ?? new Map(),
      assignments: new Map((assignments.get(name) ?? []).map((one) => [one.node_id, one])),
      entry: entries.get(name),
      upgrades: fleet.upgrades,
    }),
  );
  return { columns, rows };
}

interface RowInput {
  installed: readonly InstalledBackendOut[];
  work: ReadonlyMap<string, TargetWork>;
  assignments: ReadonlyMap<string, AssignmentOut>;
  entry: CatalogEntryOut | undefined;
  upgrades: Readonly<Record<string, BackendUpgradeOut>>;
}

function makeRow(name: string, columns: readonly NodeOut[], input: RowInput): BackendRow {
  const installations = new Map<string, { backend: InstalledBackendOut; place: BackendInstallationOut }>();
  for (const backend of input.installed)
    for (const place of backend.Nodes) installations.set(place.node_id, { backend, place });
  const versions = sortNewestFirst([...installations.values()].map((one) => one.place.version));
  const available =
    sortNewestFirst(input.installed.map((one) => input.upgrades[one.Name]?.available_version ?? ""))[0] ?? "";
  const ranked = sortNewestFirst([...versions, available]);
  const cells = columns.map((node) => {
    const has = installations.get(node.id);
    const base = has
      ? makeInstalledCell(node, has, ranked, input.upgrades)
      : makeAbsentCell(node, explainUnfit(input.entry, node));
    return addAssignment(addWork(base, input.work.get(node.id)), input.assignments.get(node.id));
  });
  return {
    name,
    versions,
    available,
    cells,
    drifting: cells.filter((cell) => cell.drifts).length,
    upgradable: cells.filter((cell) => cell.upgrade !== "").length,
  };
}

function makeInstalledCell(
  node: NodeOut,
  { backend, place }: { backend: InstalledBackendOut; place: BackendInstallationOut },
  versions: readonly string[],
  upgrades: Readonly<Record<string, BackendUpgradeOut>>,
): MatrixCellData {
  const found = upgrades[backend.Name];
  const isOther = found?.node_drift?.some((drift) => drift.node_id === node.id) ?? false;
  const drifts = place.drifts || isOther;
  return {
    ...makeAbsentCell(node, ""),
    state: "installed",
    build: backend.Name,
    version: place.version,
    shade: Math.max(0, versions.indexOf(place.version)),
    previous: place.previous_version,
    digest: place.digest,
    uri: place.uri,
    installedAt: place.installed_at ?? "",
    size: place.size_bytes ?? null,
    isSystem: backend.IsSystem,
    drifts,
    usual: drifts ? backend.version : "",
    upgrade: found ? findUpgrade(found, place) : "",
  };
}

/** Why the backend cannot be installed on a node; empty if it can. */
function explainUnfit(entry: CatalogEntryOut | undefined, node: NodeOut): string {
  if (!entry) return "Not in any gallery. Install it from a URL in the catalog.";
  return fitsNode(entry, node) ? "" : "No compatible build for this node.";
}

function makeAbsentCell(node: NodeOut, reason: string): MatrixCellData {
  return {
    nodeId: node.id,
    nodeName: node.name,
    state: reason ? "unfit" : "missing",
    reason,
    build: "",
    version: "",
    shade: 0,
    previous: "",
    digest: "",
    uri: "",
    installedAt: "",
    size: null,
    isSystem: false,
    drifts: false,
    usual: "",
    upgrade: "",
    operationId: "",
    kind: "",
    phase: "",
    percent: null,
    targetVersion: "",
    error: "",
    isDead: false,
    assignedBackend: "",
  };
}

/** Adds the active or failed operation to a cell, unless the node has changed its backend since. */
function addWork(cell: MatrixCellData, work: TargetWork | undefined): MatrixCellData {
  if (!work) return cell;
  const { operation, target } = work;
  const shown = {
    operationId: operation.id,
    kind: operation.kind,
    targetVersion: target.version,
    error: target.error ?? "",
    phase: target.phase ?? "",
  };
  if (target.state === "error") {
    const end = target.finished_at ?? operation.finishedAt ?? operation.updatedAt;
    const isOld = cell.installedAt !== "" && Date.parse(cell.installedAt) > Date.parse(end);
    return isOld ? cell : { ...cell, ...shown, state: "failed", error: shown.error || "Failed." };
  }
  if (operation.state === "completed_with_pending") return { ...cell, ...shown, state: "pending" };
  const isBusy = target.state === "working" || target.state === "unconfirmed";
  return { ...cell, ...shown, state: isBusy ? "busy" : "queued", percent: isBusy ? target.percentage : null };
}

function addAssignment(cell: MatrixCellData, assignment: AssignmentOut | undefined): MatrixCellData {
  if (!assignment || cell.state === "busy" || cell.state === "queued") return cell;
  if (cell.state === "failed" && assignment.state !== "dead") return cell;
  const shown = {
    operationId: assignment.operation_id,
    targetVersion: assignment.version,
    error: assignment.error ?? "",
    assignedBackend: assignment.backend,
  };
  if (assignment.state === "dead") {
    return {
      ...cell,
      ...shown,
      state: "failed",
      isDead: true,
      error: shown.error || "Failed too often; no more retries.",
    };
  }
  return { ...cell, ...shown, kind: cell.kind || KIND_OF[assignment.desired] || "", state: "pending" };
}

const KIND_OF: Record<string, string> = {
  present: "backend_install",
  replaced: "backend_upgrade",
  absent: "backend_delete",
  rolled_back: "backend_rollback",
};

/** The newest relevant operation, by family and node. */
function workByFamily(
  operations: readonly OperationOut[],
  families: BackendFamilies,
): Map<string, Map<string, TargetWork>> {
  const found = new Map<string, Map<string, TargetWork>>();
  for (const operation of operations.filter((one) => one.isBackend)) {
    const family = families.of(operation.name);
    for (const target of operation.nodes ?? []) {
      if (!isShownInCell(operation, target)) continue;
      const ofFamily = found.get(family) ?? new Map<string, TargetWork>();
      found.set(family, ofFamily);
      const known = ofFamily.get(target.node_id);
      if (!known || isLater(operation, known.operation)) ofFamily.set(target.node_id, { operation, target });
    }
  }
  return found;
}

function isShownInCell(operation: OperationOut, target: TargetOut): boolean {
  if (target.state === "error") return true;
  return (
    ACTIVE_TARGETS.has(target.state) &&
    (OPEN.has(operation.state) || operation.state === "completed_with_pending")
  );
}

function isLater(operation: OperationOut, than: OperationOut): boolean {
  return Date.parse(operation.createdAt) > Date.parse(than.createdAt);
}

export function groupBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const known = groups.get(key(item));
    if (known) known.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}
