// Small fleets for the tests of this page.
import type {
  CatalogEntryOut,
  InstalledBackendOut,
  InstalledOn,
  IntentOut,
  NodeOut,
  OperationInFull,
  OperationOut,
  TargetInFull,
  TargetOut,
  UpgradeOut,
} from "@/api/schema";
import type { Fleet } from "@/pages/backends/fleet";

export const node = (name: string, more: Partial<NodeOut> = {}) =>
  ({
    id: `id-${name}`,
    name,
    node_type: "backend",
    status: "healthy",
    schedulable: true,
    capability: "default",
    labels: {},
    ...more,
  }) as NodeOut;

export const on = (name: string, version: string, more: Partial<InstalledOn> = {}) =>
  ({
    node_id: `id-${name}`,
    node_name: name,
    node_status: "healthy",
    version,
    previous_version: "",
    digest: "",
    uri: "",
    installed_at: "2026-01-01T00:00:00Z",
    drifts: false,
    ...more,
  }) as InstalledOn;

export const backend = (Name: string, Nodes: InstalledOn[], more: Partial<InstalledBackendOut> = {}) =>
  ({
    Name,
    Nodes,
    meta: "",
    IsSystem: false,
    version: Nodes[0]?.version ?? "",
    ...more,
  }) as InstalledBackendOut;

export const entry = (name: string, more: Partial<CatalogEntryOut> = {}) =>
  ({
    id: `corral@${name}`,
    name,
    gallery: "corral",
    isMeta: false,
    installed: false,
    runsOn: ["default"],
    ...more,
  }) as CatalogEntryOut;

export const target = (name: string, state: string, more: Partial<TargetInFull> = {}) =>
  ({
    node_id: `id-${name}`,
    node_name: name,
    state,
    percentage: 0,
    version: "",
    previous_version: "",
    wave: 0,
    is_rollback: false,
    ...more,
  }) as TargetInFull;

export const operation = (name: string, targets: TargetOut[], more: Partial<OperationInFull> = {}) =>
  ({
    id: `op-${name}`,
    name,
    kind: "backend_install",
    state: "running",
    isBackend: true,
    createdAt: "2026-01-02T00:00:00Z",
    updatedAt: "2026-01-02T00:00:00Z",
    nodes: targets,
    request: {},
    ...more,
  }) as OperationInFull & OperationOut;

export const intent = (name: string, of: string, more: Partial<IntentOut> = {}) =>
  ({
    node_id: `id-${name}`,
    node_name: name,
    backend: of,
    desired: "present",
    state: "open",
    version: "2.0",
    operation_id: "op-owed",
    ...more,
  }) as IntentOut;

export const upgrade = (of: string, available: string, more: Partial<UpgradeOut> = {}) =>
  ({
    backend_name: of,
    available_version: available,
    available_digest: "",
    node_drift: [],
    ...more,
  }) as UpgradeOut;

export const fleet = (more: Partial<Fleet> = {}): Fleet => ({
  nodes: [node("b"), node("a")],
  installed: [],
  entries: [],
  upgrades: {},
  intents: [],
  operations: [],
  ...more,
});
