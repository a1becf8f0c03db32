// What is asked before replicas, names or files go.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { ModelOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Dialog } from "@/kit/Dialog";
import { Checkbox, TextField } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { filesOf, remove, rename, unload } from "@/pages/models/calls";
import { bytes, list, plural } from "@/text/format";

interface UnloadProps {
  model: ModelOut;
  /** Only there; null: everywhere. */
  node: string | null;
  /** Requests that are being answered. */
  busy: number;
  onClose: () => void;
}

export function Unload({ model, node, busy, onClose }: UnloadProps) {
  const toast = useToast();
  const [isForced, force] = useState(false);
  const where = node ? ` from ${node}` : "";
  return (
    <Confirm
      title={`Unload ${model.name}${where}`}
      verb={`Unload ${model.name}`}
      danger={busy > 0}
      onClose={onClose}
      onConfirm={async () => {
        await unload(model.name, node ? [node] : null, isForced);
        toast(`${model.name} is being unloaded${where}.`);
      }}
    >
      <div className="stack tight">
        <p>
          Its replicas{node ? " there" : ""} end; its files stay, so loading it again is quick. The next
          request loads it again.
        </p>
        {busy > 0 && (
          <div className="models-warning">
            <p>
              <strong>It is answering {plural(busy, "request")} now.</strong> Corral waits until they are
              answered, for a while.
            </p>
            <Checkbox
              label="End it at once; these requests fail."
              checked={isForced}
              onChange={(event) => force(event.target.checked)}
            />
          </div>
        )}
      </div>
    </Confirm>
  );
}

export function Delete({ model, onClose }: { model: ModelOut; onClose: () => void }) {
  const toast = useToast();
  const navigate = useNavigate();
  const held = useQuery(filesOf(model.name));
  const holding = [...new Set((held.data ?? []).flatMap((file) => file.nodes ?? []))].sort();
  const nodes = [...new Set((model.replicas ?? []).map((replica) => replica.node_name))].sort();
  const replicas = model.replicas?.length ?? 0;
  return (
    <Confirm
      title={`Delete ${model.name}`}
      verb={`Delete ${model.name}`}
      onClose={onClose}
      onConfirm={async () => {
        await remove(model.name);
        toast(`${model.name} is being deleted.`);
        await navigate({ to: "/models" });
      }}
    >
      <ul className="models-list">
        <li>Its configuration goes, with {plural(model.revision, "revision")}. This cannot be undone.</li>
        <li>
          {replicas ? `${plural(replicas, "replica")} on ${list(nodes)} end.` : "No replica of it runs."}
        </li>
        <li>
          {model.payload_bytes
            ? `Every node that has its files removes them, ${bytes(model.payload_bytes)} each${holding.length ? `: ${list(holding)}` : ""}. Nodes that are away do so when they are back.`
            : "It has no files."}
        </li>
        {model.has_rule && <li>Its rule stays. Delete that too if nobody needs it.</li>}
      </ul>
    </Confirm>
  );
}

export function Rename({ model, onClose }: { model: ModelOut; onClose: () => void }) {
  const navigate = useNavigate();
  const toast = useToast();
  const [name, setName] = useState(model.name);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await rename(model.name, name);
      toast(`${model.name} is called ${name} now.`);
      onClose();
      await navigate({ to: "/models/$model", params: { model: name } });
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const isSame = name.trim() === "" || name === model.name;
  return (
    <Dialog
      title={`Rename ${model.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Keep {model.name}</Button>
          <Button kind="primary" busy={isBusy} disabled={isSame} onClick={() => void save()}>
            Rename it
          </Button>
        </>
      }
    >
      <TextField
        label="New name"
        hint="Clients that use the old name get an error, unless you add it as an alias. Replicas end and are loaded again when they are needed."
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <Trouble error={error} />
    </Dialog>
  );
}
