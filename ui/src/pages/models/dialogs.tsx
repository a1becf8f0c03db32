// The dialogs that confirm unloading, renaming and deleting a model.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { ModelOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { deleteModel, filesQuery, renameModel, unloadModel } from "@/pages/models/calls";
import { bytes, joinWords, plural } from "@/text/format";

interface UnloadDialogProps {
  model: ModelOut;
  /** The node to unload from; null for all nodes. */
  node: string | null;
  /** The number of requests that are being answered. */
  busy: number;
  onClose: () => void;
}

export function UnloadDialog({ model, node, busy, onClose }: UnloadDialogProps) {
  const toast = useToast();
  const [isForced, force] = useState(false);
  const where = node ? ` from ${node}` : "";
  return (
    <ConfirmDialog
      title={`Unload ${model.name}${where}`}
      verb={`Unload ${model.name}`}
      danger={busy > 0}
      onClose={onClose}
      onConfirm={async () => {
        await unloadModel(model.name, node ? [node] : null, isForced);
        toast(`Unloading ${model.name}${where}.`);
      }}
    >
      <div className="stack tight">
        <p>
          Its replicas{node ? " on this node" : ""} stop; its files stay, so reloading is quick. The next
          request loads it again.
        </p>
        {busy > 0 && (
          <div className="models-warning">
            <p>
              <strong>{plural(busy, "request is", "requests are")} in flight.</strong> Corral waits for them,
              up to a limit.
            </p>
            <Checkbox
              label="Stop at once; these requests fail."
              checked={isForced}
              onChange={(event) => force(event.target.checked)}
            />
          </div>
        )}
      </div>
    </ConfirmDialog>
  );
}

export function DeleteDialog({ model, onClose }: { model: ModelOut; onClose: () => void }) {
  const toast = useToast();
  const navigate = useNavigate();
  const held = useQuery(filesQuery(model.name));
  const holding = [...new Set((held.data ?? []).flatMap((file) => file.nodes ?? []))].sort();
  const nodes = [...new Set((model.replicas ?? []).map((replica) => replica.node_name))].sort();
  const replicas = model.replicas?.length ?? 0;
  return (
    <ConfirmDialog
      title={`Delete ${model.name}`}
      verb={`Delete ${model.name}`}
      onClose={onClose}
      onConfirm={async () => {
        await deleteModel(model.name);
        toast(`Deleting ${model.name}.`);
        await navigate({ to: "/models" });
      }}
    >
      <ul className="models-list">
        <li>Deletes its configuration with {plural(model.revision, "revision")}. This cannot be undone.</li>
        <li>
          {replicas
            ? `${plural(replicas, "replica")} on ${joinWords(nodes)} stop.`
            : "No replica is running."}
        </li>
        <li>
          {model.payload_bytes
            ? `Every node that has its files removes them, ${bytes(model.payload_bytes)} each${holding.length ? `: ${joinWords(holding)}` : ""}. Unreachable nodes do so when they return.`
            : "It has no files."}
        </li>
        {model.has_rule && <li>Its rule is kept; delete it separately.</li>}
      </ul>
    </ConfirmDialog>
  );
}

export function RenameDialog({ model, onClose }: { model: ModelOut; onClose: () => void }) {
  const navigate = useNavigate();
  const toast = useToast();
  const [name, setName] = useState(model.name);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await renameModel(model.name, name);
      toast(`Renamed ${model.name} to ${name}.`);
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
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" busy={isBusy} disabled={isSame} onClick={() => void save()}>
            Rename
          </Button>
        </>
      }
    >
      <TextField
        label="New name"
        hint="Clients that use the old name get an error, unless you add it as an alias. Replicas stop and reload on demand."
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <ErrorNotice error={error} />
    </Dialog>
  );
}
