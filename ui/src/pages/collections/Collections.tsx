// The list of the caller's collections of documents.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { collectionsQuery, createCollection } from "@/pages/collections/queries";
import { usePageName } from "@/shell/pageName";
import { plural } from "@/text/format";
import "@/pages/collections/collections.css";

export default function Collections() {
  const query = useQuery(collectionsQuery);
  const [isOpen, setOpen] = useState(false);
  usePageName("Collections");
  return (
    <>
      <PageHeader
        title="Collections"
        note="Documents that agents answer from, found by meaning and by words."
      >
        <Button kind="primary" icon="plus" onClick={() => setOpen(true)}>
          New collection
        </Button>
      </PageHeader>
      <QueryView query={query}>
        {(found) =>
          found.length === 0 ? (
            <EmptyState title="You have no collections yet.">
              <p>Create one, and upload text, Markdown, HTML, PDF or office files.</p>
            </EmptyState>
          ) : (
            <ul className="plain collections-list" aria-label="Collections">
              {found.map((one) => (
                <li key={one.name} className="collections-row panel" aria-label={one.name}>
                  <Link to="/agents/collections/$collection" params={{ collection: one.name }}>
                    {one.name}
                  </Link>
                  <p className="small soft">
                    {`${plural(one.entries, "entry", "entries")} · ${plural(one.chunks, "chunk")} · ${one.embedding_model}`}
                  </p>
                </li>
              ))}
            </ul>
          )
        }
      </QueryView>
      {isOpen && <NewCollectionDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function NewCollectionDialog({ onClose }: { onClose: () => void }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [model, setModel] = useState("");
  const [language, setLanguage] = useState("");
  const creation = useMutation({
    mutationFn: () => createCollection(name.trim(), model.trim(), language.trim() || "auto"),
    onSuccess: async (made) => {
      await cache.invalidateQueries({ queryKey: ["collections"] });
      await navigate({ to: "/agents/collections/$collection", params: { collection: made.name } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) creation.mutate();
  };
  return (
    <Dialog title="New collection" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <TextField label="Name" value={name} onChange={(event) => setName(event.target.value)} />
        <TextField
          label="Embedding model"
          hint="Empty: the default of the cluster."
          value={model}
          onChange={(event) => setModel(event.target.value)}
        />
        <TextField
          label="Language"
          hint="Empty: that of each document. Or simple (whole words), or one such as english or german."
          value={language}
          onChange={(event) => setLanguage(event.target.value)}
        />
        <ErrorNotice error={creation.error} />
        <div className="row collections-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={creation.isPending} disabled={!name.trim()}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
