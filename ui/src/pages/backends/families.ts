// A backend has one name for people and, behind it, one build for each kind of hardware. A family is the name with all
// its builds: that is what a row of the matrix is, and what an operation is about.
import type { CatalogEntryOut, InstalledBackendOut, NodeOut } from "@/api/schema";

export class BackendFamilies {
  private readonly byBuild = new Map<string, string>();

  constructor(entries: readonly CatalogEntryOut[], installed: readonly InstalledBackendOut[]) {
    for (const entry of entries) if (entry.metaBackendFor) this.byBuild.set(entry.name, entry.metaBackendFor);
    for (const one of installed) if (one.meta) this.byBuild.set(one.Name, one.meta);
  }

  /** The family of a name as a user, an operation or a node writes it: with or without a gallery in front. */
  of(name: string): string {
    const plain = name.includes("@") ? name.slice(name.indexOf("@") + 1) : name;
    return this.byBuild.get(plain) ?? plain;
  }
}

const SMALL_VRAM = 4 * 1024 ** 3;

/** The capability of a node, such as `nvidia`, as galleries name it. */
export function getCapability(node: NodeOut): string {
  if (node.capability) return node.capability;
  return node.gpu_vendor && (node.total_vram ?? 0) > SMALL_VRAM ? node.gpu_vendor : "default";
}

/** The build for a capability; null if none fits; undefined if only the server can tell. */
function findBuild(entry: CatalogEntryOut, capability: string): string | null | undefined {
  if (entry.isMeta) {
    const builds = entry.capabilities ?? {};
    return builds[capability] || builds.default || builds.cpu || null;
  }
  return entry.runsOn?.includes(capability) ? entry.name : undefined;
}

/** Whether a backend can be installed on the node. True if unknown: the plan decides. */
export function fitsNode(entry: CatalogEntryOut | undefined, node: NodeOut): boolean {
  if (!entry) return true;
  const build = findBuild(entry, getCapability(node));
  if (build !== undefined) return build !== null;
  // `runsOn` covers all schedulable nodes: an entry that does not list such a node's capability cannot run there.
  return !(node.status === "healthy" && node.schedulable);
}

/** The nodes that can have backends. */
export function backendNodes(nodes: readonly NodeOut[]): NodeOut[] {
  return nodes
    .filter((node) => node.node_type !== "agent" && node.status !== "pending")
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}
