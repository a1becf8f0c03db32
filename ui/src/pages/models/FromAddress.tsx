// A model from an address. What it would become is shown before anything is done.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { nodes } from "@/api/queries";
import type { ModelPlanOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { TextField } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { After, type Afterwards } from "@/pages/models/After";
import { addressProblem } from "@/pages/models/address";
import { installAddress, load, planAddress } from "@/pages/models/calls";
import { Fits } from "@/pages/models/Fits";
import { asVariant, fitsOf } from "@/pages/models/fit";
import { Installing } from "@/pages/models/Installing";
import { bytes } from "@/text/format";

export function FromAddress({ onClose }: { onClose: () => void }) {
  const [uri, setUri] = useState("");
  const [name, setName] = useState("");
  const [backend, setBackend] = useState("");
  const [after, setAfter] = useState<Afterwards>({ loads: true, nodes: null });
  const wish = { uri: uri.trim(), name: name.trim(), backend: backend.trim() };
  const { data: all } = useQuery(nodes);
  const check = useMutation({ mutationFn: () => planAddress(wish) });
  const start = useMutation({
    mutationFn: async () => {
      const asked = await installAddress(wish);
      const loading = after.loads ? await load(asked.name, after.nodes) : null;
      return { model: asked.name, install: asked.id, load: loading?.id ?? null };
    },
  });
  if (start.data) return <Installing {...start.data} onClose={onClose} />;
  /** What was checked is no longer what is there. */
  const edit = (set: (value: string) => void) => (event: { target: { value: string } }) => {
    set(event.target.value);
    check.reset();
  };
  const fits = check.data ? fitsOf(all ?? [], asVariant(check.data), check.data.size_bytes ?? null) : [];
  const problem = addressProblem(wish.uri);
  const isReady = wish.uri !== "" && problem === null;
  return (
    <Dialog
      wide
      title="A model from an address"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Not now</Button>
          {check.data ? (
            <Button kind="primary" busy={start.isPending} onClick={() => start.mutate()}>
              Install {check.data.name}
            </Button>
          ) : (
            <Button kind="primary" busy={check.isPending} disabled={!isReady} onClick={() => check.mutate()}>
              Check it
            </Button>
          )}
        </>
      }
    >
      <TextField
        label="Address"
        hint="https://…/model.gguf, hf://owner/repository/file.gguf, ollama://name, oci://registry/name:tag."
        error={problem}
        value={uri}
        onChange={edit(setUri)}
      />
      <div className="columns">
        <TextField label="Name" hint="Empty: the name of the file." value={name} onChange={edit(setName)} />
        <TextField
          label="Backend"
          hint="Empty: by the end of the address, such as llama-cpp for .gguf."
          value={backend}
          onChange={edit(setBackend)}
        />
      </div>
      <Trouble error={start.error ?? check.error} />
      {check.data && (
        <>
          <Planned plan={check.data} />
          <Fits fits={fits} />
          <After value={after} nodes={fits.filter((fit) => fit.fits)} onChange={setAfter} />
        </>
      )}
    </Dialog>
  );
}

function Planned({ plan }: { plan: ModelPlanOut }) {
  return (
    <section aria-label="What would be made" className="stack tight">
      <p role="status">
        <strong>
          {plan.exists
            ? `There is a model ${plan.name} already. It would be changed.`
            : `This becomes the model ${plan.name}, which ${plan.backend} runs.`}
        </strong>
      </p>
      <p>
        {plan.size_bytes
          ? `The address answers: about ${bytes(plan.size_bytes)} are fetched.`
          : "The address answers, and does not say how large the files are."}
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
