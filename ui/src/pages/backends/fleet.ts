// The fleet as a matrix: one row for each backend, one column for each node. Pure: from what was read to what is shown.
import type {
  CatalogEntryOut,
  InstalledBackendOut,
  InstalledOn,
  IntentOut,
  NodeOut,
  OperationOut,
  TargetOut,
  UpgradeOut,
} from "@/api/schema";
import { backendNodes, Families, fits } from "@/pages/backends/families";
import { newestFirst, upgradeOf } from "@/pages/backends/versions";

export interface Fleet {
  nodes: readonly NodeOut[];
  installed: readonly InstalledBackendOut[];
  entries: readonly CatalogEntryOut[];
  upgrades: Readonly<Record<string, UpgradeOut>>;
  intents: readonly IntentOut[];
  operations: readonly OperationOut[];
}

export type CellState = "missing" | "unfit" | "installed" | "queued" | "busy" | "owed" | "failed";

export interface Cell {
  nodeId: string;
  nodeName: string;
  state: CellState;
  /** Why it cannot be had there. */
  reason: string;
  /** The build that is there; empty: none. */
  build: string;
  version: string;
  /** Its place among the versions of the row and the newest that can be had; 0 is the newest. */
  shade: number;
  previous: string;
  digest: string;
  uri: string;
  installedAt: string;
  size: number | null;
  isSystem: boolean;
  drifts: boolean;
  /** What most nodes have; empty unless this one differs. */
  usual: string;
  /** The version that it could have. */
  upgrade: string;
  /** What is being done, or failed, or is owed. */
  operationId: string;
  kind: string;
  phase: string;
  percent: number | null;
  wanted: string;
  error: string;
  isDead: boolean;
  /** Under which name it is owed. */
  owes: string;
}

export interface Row {
  name: string;
  /** Every version that some node has, newest first. */
  versions: string[];
  /** The newest that can be had. */
  available: string;
  cells: Cell[];
  drifting: number;
  upgradable: number;
}

export interface Matrix {
  columns: NodeOut[];
  rows: Row[];
}

interface Work {
  operation: OperationOut;
  target: TargetOut;
}

const UNDER_WAY = new Set(["queued", "working", "unconfirmed"]);
const OPEN = new Set(["queued", "running", "waiting_on_nodes", "paused"]);

export function matrixOf(fleet: Fleet): Matrix {
  const families = new Families(fleet.entries, fleet.installed);
  const columns = backendNodes(fleet.nodes);
  const entries = new Map<string, CatalogEntryOut>();
  for (const entry of fleet.entries) if (!entries.has(entry.name)) entries.set(entry.name, entry);
  const places = grouped(fleet.installed, (one) => families.of(one.Name));
  const work = workByFamily(fleet.operations, families);
  const owed = grouped(fleet.intents, (one) => families.of(one.backend));
  const names = [...new Set([...places.keys(), ...work.keys(), ...owed.keys()])].sort();
  const rows = names.map((name) =>
    rowOf(name, columns, {
      installed: places.get(name) ?? [],
      work: work.get(name) ?? new Map(),
      owed: new Map((owed.get(name) ?? []).map((one) => [one.node_id, one])),
      entry: entries.get(name),
      upgrades: fleet.upgrades,
    }),
  );
  return { columns, rows };
}

interface OfRow {
  installed: readonly InstalledBackendOut[];
  work: ReadonlyMap<string, Work>;
  owed: ReadonlyMap<string, IntentOut>;
  entry: CatalogEntryOut | undefined;
  upgrades: Readonly<Record<string, UpgradeOut>>;
}

function rowOf(name: string, columns: readonly NodeOut[], of: OfRow): Row {
  const there = new Map<string, { backend: InstalledBackendOut; place: InstalledOn }>();
  for (const backend of of.installed)
    for (const place of backend.Nodes) there.set(place.node_id, { backend, place });
  const versions = newestFirst([...there.values()].map((one) => one.place.version));
  const available =
    newestFirst(of.installed.map((one) => of.upgrades[one.Name]?.available_version ?? ""))[0] ?? "";
  const ranked = newestFirst([...versions, available]);
  const cells = columns.map((node) => {
    const has = there.get(node.id);
    const base = has
      ? installedCell(node, has, ranked, of.upgrades)
      : absentCell(node, whyNot(of.entry, node));
    return withOwed(withWork(base, of.work.get(node.id)), of.owed.get(node.id));
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

function installedCell(
  node: NodeOut,
  { backend, place }: { backend: InstalledBackendOut; place: InstalledOn },
  versions: readonly string[],
  upgrades: Readonly<Record<string, UpgradeOut>>,
): Cell {
  const found = upgrades[backend.Name];
  const isOther = found?.node_drift?.some((drift) => drift.node_id === node.id) ?? false;
  const drifts = place.drifts || isOther;
  return {
    ...absentCell(node, ""),
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
    upgrade: found ? upgradeOf(found, place) : "",
  };
}

/** Why a node cannot get what it does not have; empty: it can. */
function whyNot(entry: CatalogEntryOut | undefined, node: NodeOut): string {
  if (!entry) return "It is in no gallery: install it from an address, in the catalog.";
  return fits(entry, node) ? "" : "No build of it fits the hardware of this node.";
}

function absentCell(node: NodeOut, reason: string): Cell {
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
    wanted: "",
    error: "",
    isDead: false,
    owes: "",
  };
}

/** What an operation does there, or did in vain, unless the node has got something since. */
function withWork(cell: Cell, work: Work | undefined): Cell {
  if (!work) return cell;
  const { operation, target } = work;
  const said = {
    operationId: operation.id,
    kind: operation.kind,
    wanted: target.version,
    error: target.error ?? "",
    phase: target.phase ?? "",
  };
  if (target.state === "error") {
    const end = target.finished_at ?? operation.finishedAt ?? operation.updatedAt;
    const isOld = cell.installedAt !== "" && Date.parse(cell.installedAt) > Date.parse(end);
    return isOld ? cell : { ...cell, ...said, state: "failed", error: said.error || "It failed." };
  }
  if (operation.state === "completed_with_pending") return { ...cell, ...said, state: "owed" };
  const isBusy = target.state === "working" || target.state === "unconfirmed";
  return { ...cell, ...said, state: isBusy ? "busy" : "queued", percent: isBusy ? target.percentage : null };
}

function withOwed(cell: Cell, intent: IntentOut | undefined): Cell {
  if (!intent || cell.state === "busy" || cell.state === "queued") return cell;
  if (cell.state === "failed" && intent.state !== "dead") return cell;
  const said = {
    operationId: intent.operation_id,
    wanted: intent.version,
    error: intent.error ?? "",
    owes: intent.backend,
  };
  if (intent.state === "dead") {
    return { ...cell, ...said, state: "failed", isDead: true, error: said.error || "It failed too often." };
  }
  return { ...cell, ...said, kind: cell.kind || KIND_OF[intent.desired] || "", state: "owed" };
}

const KIND_OF: Record<string, string> = {
  present: "backend_install",
  replaced: "backend_upgrade",
  absent: "backend_delete",
  rolled_back: "backend_rollback",
};

/** By family and node, the newest operation that has something to say there. */
function workByFamily(
  operations: readonly OperationOut[],
  families: Families,
): Map<string, Map<string, Work>> {
  const found = new Map<string, Map<string, Work>>();
  for (const operation of operations.filter((one) => one.isBackend)) {
    const family = families.of(operation.name);
    for (const target of operation.nodes ?? []) {
      if (!saysSomething(operation, target)) continue;
      const ofFamily = found.get(family) ?? new Map<string, Work>();
      found.set(family, ofFamily);
      const known = ofFamily.get(target.node_id);
      if (!known || isLater(operation, known.operation)) ofFamily.set(target.node_id, { operation, target });
    }
  }
  return found;
}

function saysSomething(operation: OperationOut, target: TargetOut): boolean {
  if (target.state === "error") return true;
  return (
    UNDER_WAY.has(target.state) && (OPEN.has(operation.state) || operation.state === "completed_with_pending")
  );
}

function isLater(operation: OperationOut, than: OperationOut): boolean {
  return Date.parse(operation.createdAt) > Date.parse(than.createdAt);
}

export function grouped<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const known = groups.get(key(item));
    if (known) known.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}
