// What can be done with a backend on one node, and what it does.
import type { NodeBackendOut, OperationOut } from "@/api/schema";
import type { IconName } from "@/kit/icons";
import type { BackendVerb } from "@/pages/nodes/calls";

interface BackendOffer {
  verb: BackendVerb;
  label: string;
  icon: IconName;
  danger?: boolean;
}

type Installed = Pick<
  NodeBackendOut,
  "name" | "meta" | "alias" | "version" | "previous_version" | "is_system"
>;

export function backendOffers(backend: Installed, available: string): BackendOffer[] {
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

export function consequence(verb: BackendVerb, backend: Installed): string {
  switch (verb) {
    case "upgrade":
      return "The new version takes its place when it has been fetched and checked. Engines that run are started anew, one after the other.";
    case "rollback":
      return `${backend.previous_version} is still on the node: nothing is fetched.`;
    case "reinstall":
      return `${backend.version || "It"} is fetched again and takes the place of what is there.`;
    case "delete":
      return "Its processes there are stopped. A model that needs it brings it back when it is loaded.";
  }
}

/** What is being done with this backend on this node. One that has another node to do marks nothing here. */
export function operationOf(
  underway: readonly OperationOut[],
  node: string,
  backend: Installed,
): OperationOut | undefined {
  const names = new Set([backend.name, backend.meta, backend.alias].filter(Boolean));
  return underway.find(
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
