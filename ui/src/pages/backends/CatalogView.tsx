// The catalog: the entries of the galleries, and whether they can run on this cluster.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { CatalogEntryOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Checkbox, SearchField } from "@/kit/fields";
import { EmptyState } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import { CatalogEntry } from "@/pages/backends/CatalogEntry";
import type { ChangeDraft } from "@/pages/backends/ChangeDialog";
import { backendGalleries, catalog } from "@/pages/backends/calls";
import { ExternalDialog } from "@/pages/backends/ExternalDialog";
import { FilterRail } from "@/pages/backends/FilterRail";
import { filterCatalog, findEntry } from "@/pages/backends/listing";
import type { FleetQueries } from "@/pages/backends/useFleet";
import { usePageSearch } from "@/shell/usePageSearch";

export function CatalogView({
  known,
  onChange,
}: {
  known: FleetQueries;
  onChange: (change: ChangeDraft) => void;
}) {
  const [search, setSearch] = usePageSearch("/backends");
  const tags = useQuery(catalog).data?.tags ?? [];
  const [isExternal, setExternal] = useState(false);
  const { q = "", tag = "", all = false, development = false } = search;
  const entries = filterCatalog(known.fleet.entries, { q, tag, all, development });
  const chosen = search.backend ? findEntry(known.fleet.entries, search.backend) : undefined;
  const set = (part: Parameters<typeof setSearch>[0]) => setSearch(part, true);
  return (
    <div className="stack">
      {search.target && (
        <div className="row backends-target" role="status">
          <span>
            For node <strong>{search.target}</strong>
          </span>
          <Button small kind="quiet" onClick={() => set({ target: undefined })}>
            For the whole fleet instead
          </Button>
        </div>
      )}
      <div className="row">
        <SearchField
          label="Search the catalog"
          value={q}
          onChange={(value) => set({ q: value || undefined })}
        />
        <Checkbox
          label="Builds for special hardware"
          checked={all}
          onChange={(event) => set({ all: event.target.checked || undefined })}
        />
        <Checkbox
          label="Development"
          checked={development}
          onChange={(event) => set({ development: event.target.checked || undefined })}
        />
        <Button small icon="plus" onClick={() => setExternal(true)}>
          Install from URL
        </Button>
      </div>
      <div className="row backends-chips" role="group" aria-label="Tags">
        {tags.map((one) => (
          <button
            key={one}
            type="button"
            className="backends-chip"
            aria-pressed={one === tag}
            onClick={() => set({ tag: one === tag ? undefined : one })}
          >
            {one}
          </button>
        ))}
      </div>
      <Problems />
      {entries.length === 0 ? (
        <EmptyState title="No catalog entries match this filter.">
          <Button onClick={() => set({ q: undefined, tag: undefined, all: true })}>Clear filters</Button>
        </EmptyState>
      ) : (
        <FilterRail
          label="Catalog"
          groups={[{ title: "Catalog", items: entries.map(item) }]}
          chosen={chosen?.id}
          onChoose={(id) => setSearch({ backend: id })}
        >
          {chosen ? (
            <CatalogEntry entry={chosen} known={known} target={search.target} onChange={onChange} />
          ) : (
            <EmptyState title="Select a backend to see its details." />
          )}
        </FilterRail>
      )}
      {isExternal && (
        <ExternalDialog known={known} target={search.target} onClose={() => setExternal(false)} />
      )}
    </div>
  );
}

function item(entry: CatalogEntryOut) {
  return {
    id: entry.id,
    name: entry.name,
    note: entry.description,
    marks: (
      <>
        {entry.isUnverified && <Tag tone="warn">unverified</Tag>}
        {entry.isDevelopment && <Tag>development</Tag>}
        {entry.installed ? (
          <Pill tone="good">installed</Pill>
        ) : (
          (entry.runsOn?.length ?? 0) === 0 && <Pill tone="still">no compatible node</Pill>
        )}
      </>
    ),
  };
}

/** A notice about galleries that could not be fetched, whose previous copy is shown. */
function Problems() {
  const found = useQuery(backendGalleries).data?.filter((one) => one.problem) ?? [];
  if (found.length === 0) return null;
  return (
    <ul className="plain small">
      {found.map((one) => (
        <li key={one.name}>
          <Pill tone="warn">{one.name}</Pill> {one.problem}
        </li>
      ))}
    </ul>
  );
}
