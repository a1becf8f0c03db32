// Imports a model from an address. The resulting model is shown before anything is changed.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { nodes } from "@/api/queries";
import type { ModelPlanOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { addressProblem } from "@/pages/models/address";
import { installAddress, loadModel, planAddress } from "@/pages/models/calls";
import { FitList } from "@/pages/models/FitList";
import { computeFits, toVariant } from "@/pages/models/fit";
import { InstallProgress } from "@/pages/models/InstallProgress";
import { LoadChoice, type LoadChoiceValue } from "@/pages/models/LoadChoice";
import { bytes } from "@/text/format";

export function ImportDialog({ onClose }: { onClose: () => void }) {
  const [uri, setUri] = useState("");
  const [name, setName] = useState("");
  const [backend, setBackend] = useState("");
  const [after, setAfter] = useState<LoadChoiceValue>({ loads: true, nodes: null });
  const request = { uri: uri.trim(), name: name.trim(), backend: backend.trim() };
  const { data: all } = useQuery(nodes);
  const check = useMutation({ mutationFn: () => planAddress(request) });
  const start = useMutation({
    mutationFn: async () => {
      const operation = await installAddress(request);
      const loading = after.loads ? await loadModel(operation.name, after.nodes) : null;
      return { model: operation.name, install: operation.id, load: loading?.id ?? null };
    },
  });
  if (start.data) return <InstallProgress {...start.data} onClose={onClose} />;
  /** Discards the result of the check, because the input has changed. */
  const edit = (set: (value: string) => void) => (event: { target: { value: string } }) => {
    set(event.target.value);
    check.reset();
  };
  const fits = check.data ? computeFits(all ?? [], toVariant(check.data), check.data.size_bytes ?? null) : [];
  const problem = addressProblem(request.uri);
  const isReady = request.uri !== "" && problem === null;
  return (
    <Dialog
      wide
      title="Import from URL"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          {check.data ? (
            <Button kind="primary" busy={start.isPending} onClick={() => start.mutate()}>
              Install {check.data.name}
            </Button>
          ) : (
            <Button kind="primary" busy={check.isPending} disabled={!isReady} onClick={() => check.mutate()}>
              Check
            </Button>
          )}
        </>
      }
    >
      <TextField
        label="URL"
        hint="https://…/model.gguf, hf://owner/repository/file.gguf, ollama://name, oci://registry/name:tag."
        error={problem}
        value={uri}
        onChange={edit(setUri)}
      />
      <div className="columns">
        <TextField label="Name" hint="Default: the file name." value={name} onChange={edit(setName)} />
        <TextField
          label="Backend"
          hint="Default: derived from the file extension, for example llama-cpp for .gguf."
          value={backend}
          onChange={edit(setBackend)}
        />
      </div>
      <ErrorNotice error={start.error ?? check.error} />
      {check.data && (
        <>
          <ImportPlan plan={check.data} />
          <FitList fits={fits} />
          <LoadChoice value={after} nodes={fits.filter((fit) => fit.fits)} onChange={setAfter} />
        </>
      )}
    </Dialog>
  );
}

function ImportPlan({ plan }: { plan: ModelPlanOut }) {
  return (
    <section aria-label="Preview" className="stack tight">
      <p role="status">
        <strong>
          {plan.exists
            ? `Model ${plan.name} exists and will be updated.`
            : `Creates model ${plan.name}, served by ${plan.backend}.`}
        </strong>
      </p>
      <p>
        {plan.size_bytes
          ? `Found: about ${bytes(plan.size_bytes)} to download.`
          : "Found; download size unknown."}
      </p>
      <ul className="models-changes">
        {(plan.changes ?? []).map((change) => (
          <li key={change}>
            <code>{change}</code>
          </li>
        ))}
      </ul>
      {(plan.warnings ?? []).map((warning) => (
        <p key={warning} className="models-warning small">
          {warning}
        </p>
      ))}
    </section>
  );
}
