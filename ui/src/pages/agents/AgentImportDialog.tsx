// Creates an agent from an exported file, and says what of the file has no effect here and which secrets are missing.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Problem } from "@/api/client";
import type { AgentImportOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { importAgent } from "@/pages/agents/calls";
import { parseDocument } from "@/pages/agents/importFile";
import { plural } from "@/text/format";

const FILE_BYTES_MAX = 5 * 1024 * 1024;

export function AgentImportDialog({ onClose }: { onClose: () => void }) {
  const cache = useQueryClient();
  const [file, setFile] = useState<File | null>(null);
  const [name, setName] = useState("");
  const submission = useMutation({
    mutationFn: async (chosen: File) => {
      if (chosen.size > FILE_BYTES_MAX) throw new Problem(-1, "too_large", "The file is too large.");
      return importAgent(parseDocument(await chosen.text()), name.trim());
    },
    onSuccess: () => void cache.invalidateQueries({ queryKey: ["agents"] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (file) submission.mutate(file);
  };
  if (submission.data) return <ImportReport agent={submission.data} onClose={onClose} />;
  return (
    <Dialog title="Import an agent" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <TextField
          type="file"
          label="File"
          accept=".json,application/json"
          hint="JSON, as Export writes it. Files of LocalAGI are read, too."
          required
          onChange={(event) => {
            setFile(event.target.files?.[0] ?? null);
            submission.reset();
          }}
        />
        <TextField
          label="Name"
          hint="Optional: another name than that in the file."
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <ErrorNotice error={submission.error} />
        <div className="row agents-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!file} busy={submission.isPending}>
            Import
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ImportReport({ agent, onClose }: { agent: AgentImportOut; onClose: () => void }) {
  const missing = agent.missing_secrets ?? [];
  const ignored = agent.ignored ?? [];
  return (
    <Dialog
      title={`Imported ${agent.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Link
            className="button primary"
            to="/agents/$agent"
            params={{ agent: agent.name }}
            search={{ tab: "configuration" }}
          >
            Open its configuration
          </Link>
        </>
      }
    >
      {missing.length > 0 && (
        <section aria-label="Missing secrets" className="agents-report warn">
          <p>
            <strong>{plural(missing.length, "secret")} missing.</strong> Store{" "}
            {missing.length === 1 ? "it" : "them"} on the page of{" "}
            <Link to="/access" search={{ tab: "secrets" }}>
              secrets
            </Link>{" "}
            before you talk to the agent.
          </p>
          <NameList names={missing} />
        </section>
      )}
      {ignored.length > 0 && (
        <section aria-label="Ignored fields">
          <p>{plural(ignored.length, "field")} of the file had no effect here:</p>
          <NameList names={ignored} />
        </section>
      )}
      {missing.length + ignored.length === 0 && <p>The agent is complete.</p>}
    </Dialog>
  );
}

function NameList({ names }: { names: readonly string[] }) {
  return (
    <ul className="plain row tight agents-names">
      {names.map((name) => (
        <li key={name}>
          <code>{name}</code>
        </li>
      ))}
    </ul>
  );
}
