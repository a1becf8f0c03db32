// The catalog: what the galleries have, and whether it can run here.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { CatalogEntryOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Checkbox, Search } from "@/kit/fields";
import { Empty } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import type { Change } from "@/pages/backends/ChangeDialog";
import { catalog, galleries } from "@/pages/backends/data";
import { Entry } from "@/pages/backends/Entry";
import { ExternalDialog } from "@/pages/backends/ExternalDialog";
import { entryNamed, listed } from "@/pages/backends/listing";
import { Rail } from "@/pages/backends/Rail";
import type { Known } from "@/pages/backends/useFleet";
import { useAddress } from "@/shell/useAddress";

export function CatalogView({ known, onChange }: { known: Known; onChange: (change: Change) => void }) {
  const [search, say] = useAddress("/backends");
  const tags = useQuery(catalog).data?.tags ?? [];
  const [isExternal, setExternal] = useState(false);
  const { q = "", tag = "", all = false, development = false } = search;
  const entries = listed(known.fleet.entries, { q, tag, all, development });
  const chosen = search.backend ? entryNamed(known.fleet.entries, search.backend) : undefined;
  const set = (part: Parameters<typeof say>[0]) => say(part, true);
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
        <Search label="Search the catalog" value={q} onChange={(value) => set({ q: value || undefined })} />
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
          From an address
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
        <Empty title="Nothing in the catalog is like that.">
          <Button onClick={() => set({ q: undefined, tag: undefined, all: true })}>Show everything</Button>
        </Empty>
      ) : (
        <Rail
          label="Catalog"
          groups={[{ title: "Catalog", items: entries.map(item) }]}
          chosen={chosen?.id}
          onChoose={(id) => say({ backend: id })}
        >
          {chosen ? (
            <Entry entry={chosen} known={known} target={search.target} onChange={onChange} />
          ) : (
            <Empty title="Choose a backend to see what it is and where it can run." />
          )}
        </Rail>
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
          (entry.runsOn?.length ?? 0) === 0 && <Pill tone="still">no node fits</Pill>
        )}
      </>
    ),
  };
}

/** Galleries that could not be fetched: the copy from before is shown, and that has to be said. */
function Problems() {
  const found = useQuery(galleries).data?.filter((one) => one.problem) ?? [];
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
