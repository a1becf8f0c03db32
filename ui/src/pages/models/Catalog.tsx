// The catalog: the entries of all model galleries.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useState } from "react";
import type { GalleryModelOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Tag } from "@/kit/status";
import { galleryQuery } from "@/pages/models/calls";
import { bytes, plural } from "@/text/format";

interface CatalogProps {
  words: string;
  tag: string;
  onTag: (tag: string) => void;
  onOpen: (entry: string) => void;
}

export function Catalog({ words, tag, onTag, onOpen }: CatalogProps) {
  const term = useDeferredValue(words);
  const [page, setPage] = useState(1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another search begins at its first page
  useEffect(() => setPage(1), [term, tag]);
  const found = useQuery({ ...galleryQuery({ term, tag, page }), placeholderData: keepPreviousData });
  return (
    <QueryView query={found}>
      {(gallery) => (
        <div className="stack">
          <Tags all={gallery.allTags} chosen={tag} onTag={onTag} />
          {gallery.models.length === 0 ? (
            <EmptyState title="No catalog entries match this search.">
              Use fewer words, or import a model from a URL.
            </EmptyState>
          ) : (
            <ul className="plain models-cards" aria-label="Catalog entries">
              {gallery.models.map((entry) => (
                <EntryCard key={entry.id} entry={entry} onOpen={onOpen} />
              ))}
            </ul>
          )}
          {gallery.totalPages > 1 && (
            <nav className="row apart" aria-label="Catalog pages">
              <Button
                small
                disabled={gallery.currentPage <= 1}
                onClick={() => setPage(gallery.currentPage - 1)}
              >
                Previous page
              </Button>
              <span className="small soft">
                Page {gallery.currentPage} of {gallery.totalPages},{" "}
                {plural(gallery.availableModels, "entry", "entries")}
              </span>
              <Button
                small
                disabled={gallery.currentPage >= gallery.totalPages}
                onClick={() => setPage(gallery.currentPage + 1)}
              >
                Next page
              </Button>
            </nav>
          )}
        </div>
      )}
    </QueryView>
  );
}

function Tags({ all, chosen, onTag }: { all: string[]; chosen: string; onTag: (tag: string) => void }) {
  if (all.length === 0) return null;
  return (
    <fieldset className="models-tags">
      <legend className="unseen">Filter by tag</legend>
      {all.map((tag) => (
        <button
          key={tag}
          type="button"
          className="tag"
          aria-pressed={tag === chosen}
          onClick={() => onTag(tag === chosen ? "" : tag)}
        >
          {tag}
        </button>
      ))}
    </fieldset>
  );
}

interface EntryCardProps {
  entry: GalleryModelOut;
  onOpen: (entry: string) => void;
}

function EntryCard({ entry, onOpen }: EntryCardProps) {
  const variants = entry.variants?.length ?? 0;
  return (
    <li className="panel models-card" aria-label={entry.name}>
      <header className="row apart">
        <h2>{entry.name}</h2>
        <span className="number faint">{entry.sizeBytes ? bytes(entry.sizeBytes) : "no files"}</span>
      </header>
      <p className="soft small">{entry.description}</p>
      <p className="row models-facts">
        {(entry.serves ?? []).map((call) => (
          <Tag key={call}>{call}</Tag>
        ))}
        {variants > 0 && <Tag tone="busy">{plural(variants + 1, "variant")}</Tag>}
        {entry.processing && <Tag tone="busy">installing</Tag>}
        {entry.isUnverified && (
          <Tag tone="warn" title="Not yet tested on real hardware.">
            untested
          </Tag>
        )}
      </p>
      {(entry.models ?? []).length > 0 && (
        <p className="small row">
          <Icon name="check" />
          {(entry.models ?? []).map((model) => (
            <Link key={model} to="/models/$model" params={{ model }}>
              {model}
            </Link>
          ))}
        </p>
      )}
      <footer className="row apart">
        <span className="small faint">
          {entry.backend}
          {entry.license && ` · ${entry.license}`}
        </span>
        <Button
          small
          kind={entry.installed ? "plain" : "primary"}
          aria-label={entry.installed ? `Reinstall ${entry.name}` : `Install ${entry.name}`}
          onClick={() => onOpen(entry.id)}
        >
          {entry.installed ? "Reinstall" : "Install"}
        </Button>
      </footer>
    </li>
  );
}
