// Filters the catalog and the list of installed backends.
import type { CatalogEntryOut, InstalledBackendOut } from "@/api/schema";
import type { FILTERS } from "@/pages/backends/search";

interface CatalogFilter {
  q: string;
  tag: string;
  /** Whether builds for special hardware are listed too. */
  all: boolean;
  development: boolean;
}

export function filterCatalog(entries: readonly CatalogEntryOut[], filter: CatalogFilter): CatalogEntryOut[] {
  const words = filter.q.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (entry: CatalogEntryOut) => {
    const text = [entry.id, entry.alias, entry.description, ...(entry.tags ?? [])].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return entries
    .filter((entry) => (filter.all || !entry.metaBackendFor) && (filter.development || !entry.isDevelopment))
    .filter((entry) => (!filter.tag || entry.tags?.includes(filter.tag)) && matches(entry))
    .sort((a, b) => Number(b.installed) - Number(a.installed) || a.name.localeCompare(b.name));
}

/** The entry that the URL names: by its full name, else by its name. */
export function findEntry(entries: readonly CatalogEntryOut[], name: string): CatalogEntryOut | undefined {
  return entries.find((entry) => entry.id === name) ?? entries.find((entry) => entry.name === name);
}

export type InstalledFilter = (typeof FILTERS)[number] | undefined;

const ABSENT_STATUSES = new Set(["offline", "unhealthy"]);

export function matchesInstalledFilter(filter: InstalledFilter, backend: InstalledBackendOut): boolean {
  if (filter === "user") return !backend.IsSystem;
  if (filter === "updates") return backend.has_upgrade;
  if (filter === "offline") return backend.Nodes.some((place) => ABSENT_STATUSES.has(place.node_status));
  return true;
}
