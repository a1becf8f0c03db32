// The galleries' entries.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useState } from "react";
import type { GalleryModelOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Empty } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { galleryOf } from "@/pages/models/calls";
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
  const found = useQuery({ ...galleryOf({ term, tag, page }), placeholderData: keepPreviousData });
  return (
    <Answered query={found}>
      {(gallery) => (
        <div className="stack">
          <Tags all={gallery.allTags} chosen={tag} onTag={onTag} />
          {gallery.models.length === 0 ? (
            <Empty title="The catalog has nothing like that.">
              Search for less, or install a model from its address.
            </Empty>
          ) : (
            <ul className="plain models-cards" aria-label="Entries of the catalog">
              {gallery.models.map((entry) => (
                <Card key={entry.id} entry={entry} onOpen={onOpen} />
              ))}
            </ul>
          )}
          {gallery.totalPages > 1 && (
            <nav className="row apart" aria-label="Pages of the catalog">
              <Button
                small
                disabled={gallery.currentPage <= 1}
                onClick={() => setPage(gallery.currentPage - 1)}
              >
                The page before
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
                The next page
              </Button>
            </nav>
          )}
        </div>
      )}
    </Answered>
  );
}

function Tags({ all, chosen, onTag }: { all: string[]; chosen: string; onTag: (tag: string) => void }) {
  if (all.length === 0) return null;
  return (
    <fieldset className="models-tags">
      <legend className="unseen">Only with this tag</legend>
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

interface CardProps {
  entry: GalleryModelOut;
  onOpen: (entry: string) => void;
}

function Card({ entry, onOpen }: CardProps) {
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
        {entry.processing && <Tag tone="busy">under way</Tag>}
        {entry.isUnverified && (
          <Tag tone="warn" title="Nobody has tried this entry on real hardware yet.">
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
          aria-label={entry.installed ? `Install ${entry.name} once more` : `Install ${entry.name}`}
          onClick={() => onOpen(entry.id)}
        >
          {entry.installed ? "Once more" : "Install"}
        </Button>
      </footer>
    </li>
  );
}
