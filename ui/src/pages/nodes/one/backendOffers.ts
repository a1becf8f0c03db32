// Lists the actions for a backend on one node, and what each does.
import type { NodeBackendOut, OperationOut } from "@/api/schema";
import type { IconName } from "@/kit/icons";
import type { NodeBackendVerb } from "@/pages/nodes/calls";

interface BackendOffer {
  verb: NodeBackendVerb;
  label: string;
  icon: IconName;
  danger?: boolean;
}

type NodeBackend = Pick<
  NodeBackendOut,
  "name" | "meta" | "alias" | "version" | "previous_version" | "is_system"
>;

export function backendOffers(backend: NodeBackend, available: string): BackendOffer[] {
  if (backend.is_system) return [];
  const { name } = backend;
  const offers: BackendOffer[] = [];
  if (available) offers.push({ verb: "upgrade", label: `Upgrade ${name} to ${available}`, icon: "up" });
  if (backend.previous_version) {
    offers.push({
      verb: "rollback",
      label: `Roll ${name} back to ${backend.previous_version}`,
      icon: "down",
    });
  }
  offers.push({ verb: "reinstall", label: `Reinstall ${name}`, icon: "again" });
  offers.push({ verb: "delete", label: `Remove ${name}`, icon: "trash", danger: true });
  return offers;
}

export function describeConsequence(verb: NodeBackendVerb, backend: NodeBackend): string {
  switch (verb) {
    case "upgrade":
      return "The new version replaces it after download and verification. Running engines restart one at a time.";
    case "rollback":
      return `${backend.previous_version} is still on the node; nothing is downloaded.`;
    case "reinstall":
      return `${backend.version || "It"} is downloaded again and replaces the installed copy.`;
    case "delete":
      return "Its processes on this node are stopped. Loading a model that needs it installs it again.";
  }
}

/** The active operation about this backend on this node; operations on other nodes do not count. */
export function findOperation(
  operations: readonly OperationOut[],
  node: string,
  backend: NodeBackend,
): OperationOut | undefined {
  const names = new Set([backend.name, backend.meta, backend.alias].filter(Boolean));
  return operations.find(
    (operation) =>
      operation.isBackend &&
      names.has(operation.name) &&
      operation.nodes?.some(
        (target) =>
          target.node_id === node &&
          !["success", "cancelled", "superseded", "skipped"].includes(target.state),
      ),
  );
}
