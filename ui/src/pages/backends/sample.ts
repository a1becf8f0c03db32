// Small fleets for the tests of this page.
import type {
  AssignmentOut,
  BackendInstallationOut,
  BackendUpgradeOut,
  CatalogEntryOut,
  InstalledBackendOut,
  NodeOut,
  OperationDetailOut,
  OperationOut,
  TargetDetailOut,
  TargetOut,
} from "@/api/schema";
import type { BackendFleet } from "@/pages/backends/fleet";

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

export const installation = (name: string, version: string, more: Partial<BackendInstallationOut> = {}) =>
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
  }) as BackendInstallationOut;

export const backend = (
  Name: string,
  Nodes: BackendInstallationOut[],
  more: Partial<InstalledBackendOut> = {},
) =>
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

export const target = (name: string, state: string, more: Partial<TargetDetailOut> = {}) =>
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
  }) as TargetDetailOut;

export const operation = (name: string, targets: TargetOut[], more: Partial<OperationDetailOut> = {}) =>
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
  }) as OperationDetailOut & OperationOut;

export const assignment = (name: string, of: string, more: Partial<AssignmentOut> = {}) =>
  ({
    node_id: `id-${name}`,
    node_name: name,
    backend: of,
    desired: "present",
    state: "open",
    version: "2.0",
    operation_id: "op-pending",
    ...more,
  }) as AssignmentOut;

export const upgrade = (of: string, available: string, more: Partial<BackendUpgradeOut> = {}) =>
  ({
    backend_name: of,
    available_version: available,
    available_digest: "",
    node_drift: [],
    ...more,
  }) as BackendUpgradeOut;

export const fleet = (more: Partial<BackendFleet> = {}): BackendFleet => ({
  nodes: [node("b"), node("a")],
  installed: [],
  entries: [],
  upgrades: {},
  assignments: [],
  operations: [],
  ...more,
});
