// A backend has one name for people and, behind it, one build for each kind of hardware. A family is the name with all
// its builds: that is what a row of the matrix is, and what an operation is about.
import type { CatalogEntryOut, InstalledBackendOut, NodeOut } from "@/api/schema";

export class BackendFamilies {
  private readonly byBuild = new Map<string, string>();

  constructor(entries: readonly CatalogEntryOut[], installed: readonly InstalledBackendOut[]) {
    for (const entry of entries) if (entry.metaBackendFor) this.byBuild.set(entry.name, entry.metaBackendFor);
    for (const one of installed) if (one.meta) this.byBuild.set(one.Name, one.meta);
  }

  /** The family of a name as a person, an operation or a node says it: with a gallery in front or without. */
  of(name: string): string {
    const plain = name.includes("@") ? name.slice(name.indexOf("@") + 1) : name;
    return this.byBuild.get(plain) ?? plain;
  }
}

const SMALL_VRAM = 4 * 1024 ** 3;

/** What kind of machine a node is, as galleries name it. */
export function getCapability(node: NodeOut): string {
  if (node.capability) return node.capability;
  return node.gpu_vendor && (node.total_vram ?? 0) > SMALL_VRAM ? node.gpu_vendor : "default";
}

/** The build that this kind of machine gets; null: none fits; undefined: only the server can say. */
function findBuild(entry: CatalogEntryOut, capability: string): string | null | undefined {
  if (entry.isMeta) {
    const builds = entry.capabilities ?? {};
    return builds[capability] || builds.default || builds.cpu || null;
  }
  return entry.runsOn?.includes(capability) ? entry.name : undefined;
}

/** Whether a backend may go there. What is not known is not denied: the plan says for certain. */
export function fitsNode(entry: CatalogEntryOut | undefined, node: NodeOut): boolean {
  if (!entry) return true;
  const build = findBuild(entry, getCapability(node));
  if (build !== undefined) return build !== null;
  // The server judges by the nodes that may get work: of those, silence is a no.
  return !(node.status === "healthy" && node.schedulable);
}

/** Those that can have backends at all. */
export function backendNodes(nodes: readonly NodeOut[]): NodeOut[] {
  return nodes
    .filter((node) => node.node_type !== "agent" && node.status !== "pending")
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}
