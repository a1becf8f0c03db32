// One collection: its entries with their states, uploads, a search, and its sources.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { type ChangeEvent, type FormEvent, useRef, useState } from "react";
import type { CollectionEntryOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { Menu } from "@/kit/Menu";
import { EmptyState, PageHeader, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, type Tone } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import {
  addSource,
  deleteCollection,
  deleteEntry,
  deleteSource,
  entriesQuery,
  rawAddress,
  searchCollection,
  sourcesQuery,
  uploadDocument,
} from "@/pages/collections/queries";
import { usePageName } from "@/shell/pageName";
import { bytes, formatCount, plural } from "@/text/format";
import "@/pages/collections/collections.css";

const ACCEPTED = ".txt,.md,.html,.htm,.pdf,.docx,.pptx,.xlsx,.csv,.json";
const TONES: Record<string, Tone> = { ready: "good", failed: "bad", reading: "busy", queued: "still" };

export default function CollectionPage() {
  const { collection: name } = useParams({ from: "/agents/collections/$collection" });
  const [isDeleting, setDeleting] = useState(false);
  const navigate = useNavigate();
  const cache = useQueryClient();
  usePageName(name);
  return (
    <>
      <PageHeader title={name} note="A collection of documents.">
        <UploadButton name={name} />
        <Button icon="trash" onClick={() => setDeleting(true)}>
          Delete
        </Button>
      </PageHeader>
      <div className="stack">
        <SearchPanel name={name} />
        <EntriesPanel name={name} />
        <SourcesPanel name={name} />
      </div>
      {isDeleting && (
        <ConfirmDialog
          title={`Delete ${name}?`}
          verb="Delete the collection"
          onConfirm={async () => {
            await deleteCollection(name);
            await navigate({ to: "/agents/collections" });
            await cache.invalidateQueries({ queryKey: ["collections"] });
          }}
          onClose={() => setDeleting(false)}
        >
          <p>Deletes its documents, their files and its sources. This cannot be undone.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function UploadButton({ name }: { name: string }) {
  const cache = useQueryClient();
  const toast = useToast();
  const input = useRef<HTMLInputElement>(null);
  const [left, setLeft] = useState<File[]>([]);
  const upload = useMutation({
    mutationFn: async (files: File[]) => {
      for (const [index, file] of files.entries()) {
        setLeft(files.slice(index));
        await uploadDocument(name, file);
        await cache.invalidateQueries({ queryKey: ["collections", name] });
      }
      return files.length;
    },
    onSuccess: (count) => toast(count === 1 ? "Uploaded one document." : `Uploaded ${count} documents.`),
  });
  const pick = (event: ChangeEvent<HTMLInputElement>) => {
    const files = [...(event.target.files ?? [])];
    // The same file can be chosen again.
    event.target.value = "";
    if (files.length > 0) upload.mutate(files);
  };
  const current = left[0];
  const progress = current && `Uploading ${current.name} (${bytes(current.size)}), ${left.length} left`;
  return (
    <div className="stack tight">
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept={ACCEPTED}
        aria-label="Documents"
        onChange={pick}
      />
      <Button kind="primary" icon="up" busy={upload.isPending} onClick={() => input.current?.click()}>
        {(upload.isPending && progress) || "Upload documents"}
      </Button>
      <ErrorNotice error={upload.error} />
    </div>
  );
}

function SearchPanel({ name }: { name: string }) {
  const [query, setQuery] = useState("");
  const search = useMutation({ mutationFn: () => searchCollection(name, query) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (query.trim()) search.mutate();
  };
  return (
    <Panel title="Search">
      <form className="row collections-search" onSubmit={submit}>
        <TextField
          label="Question or words"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
        />
        <Button type="submit" icon="search" busy={search.isPending} disabled={!query.trim()}>
          Search
        </Button>
      </form>
      <ErrorNotice error={search.error} />
      {search.data?.results.length === 0 && <p className="soft">Nothing was found.</p>}
      {search.data && search.data.results.length > 0 && (
        <ol className="plain collections-list" aria-label="Results">
          {search.data.results.map((one) => (
            <li key={one.id} className="collections-row panel">
              <p className="small soft">
                {`${one.metadata.file_name ?? ""} · similarity ${one.similarity.toFixed(2)}`}
              </p>
              <p className="collections-text">{one.content}</p>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function EntriesPanel({ name }: { name: string }) {
  const query = useQuery(entriesQuery(name));
  return (
    <Panel title="Entries">
      <QueryView query={query}>
        {(found) =>
          found.items.length === 0 ? (
            <EmptyState title="The collection is empty.">
              <p>Upload documents, or add a source.</p>
            </EmptyState>
          ) : (
            <>
              <ul className="plain collections-list" aria-label="Entries">
                {found.items.map((entry) => (
                  <EntryRow key={entry.name} name={name} entry={entry} />
                ))}
              </ul>
              {found.has_more && (
                <p className="small soft">These are the first {formatCount(found.items.length)} entries.</p>
              )}
            </>
          )
        }
      </QueryView>
    </Panel>
  );
}

function EntryRow({ name, entry }: { name: string; entry: CollectionEntryOut }) {
  const cache = useQueryClient();
  const removal = useMutation({
    mutationFn: () => deleteEntry(name, entry.name),
    onSettled: () => cache.invalidateQueries({ queryKey: ["collections"] }),
  });
  return (
    <li className="collections-row panel" aria-label={entry.name}>
      <div className="row apart">
        <span className="row collections-name">
          {entry.name}
          <Pill tone={TONES[entry.state] ?? "still"}>{entry.state}</Pill>
        </span>
        <Menu
          label={`Actions for ${entry.name}`}
          items={[
            { label: "Download", icon: "download", href: rawAddress(name, entry.name) },
            { label: "Delete", icon: "trash", danger: true, onSelect: () => removal.mutate() },
          ]}
        />
      </div>
      {entry.message && <p className="small">{entry.message}</p>}
      <p className="small soft">
        {`${bytes(entry.size_bytes)} · ${plural(entry.chunks, "chunk")} · `}
        <RelativeTime at={entry.updated_at} />
      </p>
      <ErrorNotice error={removal.error} />
    </li>
  );
}

function SourcesPanel({ name }: { name: string }) {
  const cache = useQueryClient();
  const query = useQuery(sourcesQuery(name));
  const [url, setUrl] = useState("");
  const [interval, setInterval] = useState("1h");
  const refresh = () => cache.invalidateQueries({ queryKey: ["collections", name] });
  const addition = useMutation({
    mutationFn: () => addSource(name, url.trim(), interval.trim()),
    onSuccess: () => setUrl(""),
    onSettled: refresh,
  });
  const removal = useMutation({
    mutationFn: (address: string) => deleteSource(name, address),
    onSettled: refresh,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (url.trim()) addition.mutate();
  };
  return (
    <Panel title="Sources" note="Web pages that are read again at an interval.">
      <form className="row collections-search" onSubmit={submit}>
        <TextField label="Address" value={url} onChange={(event) => setUrl(event.target.value)} />
        <TextField
          label="Read again every"
          value={interval}
          onChange={(event) => setInterval(event.target.value)}
        />
        <Button type="submit" icon="plus" busy={addition.isPending} disabled={!url.trim()}>
          Add source
        </Button>
      </form>
      <ErrorNotice error={addition.error ?? removal.error} />
      <QueryView query={query}>
        {(sources) => (
          <ul className="plain collections-list" aria-label="Sources">
            {sources.map((source) => (
              <li key={source.url} className="collections-row panel" aria-label={source.url}>
                <div className="row apart">
                  <span className="collections-name">{source.url}</span>
                  <Button small icon="trash" onClick={() => removal.mutate(source.url)}>
                    Delete source
                  </Button>
                </div>
                {source.problem && <p className="small bad-text">{source.problem}</p>}
                <p className="small soft">
                  {`every ${formatCount(source.update_interval)} min · `}
                  {source.last_update ? <RelativeTime at={source.last_update} /> : "not read yet"}
                </p>
              </li>
            ))}
          </ul>
        )}
      </QueryView>
    </Panel>
  );
}
