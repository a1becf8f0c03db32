// Installs a backend that is in no gallery: its address, its name, and the digest that the download must have.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useId, useMemo, useState } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { ALL_AT_ONCE, type BackendChange, planChange, requestChange } from "@/pages/backends/calls";
import { NodePicker } from "@/pages/backends/NodePicker";
import { listCandidates } from "@/pages/backends/nodeChoice";
import { OperationFollower } from "@/pages/backends/OperationFollower";
import { PlanPreview } from "@/pages/backends/PlanPreview";
import type { FleetQueries } from "@/pages/backends/useFleet";
import { plural } from "@/text/format";

interface ExternalDialogProps {
  known: FleetQueries;
  target: string | undefined;
  onClose: () => void;
}

const SHA256 = /^[0-9a-f]{64}$/i;

export function ExternalDialog({ known, target, onClose }: ExternalDialogProps) {
  const [uri, setUri] = useState("");
  const [name, setName] = useState("");
  const [sha256, setSha256] = useState("");
  const [chosen, setChosen] = useState(
    () =>
      new Set(
        known.fleet.nodes.filter((one) => one.name === target || one.id === target).map((one) => one.id),
      ),
  );
  const [planned, setPlanned] = useState<BackendChange | null>(null);
  const [followed, setFollowed] = useState<string | null>(null);
  const form = useId();
  const row = known.matrix.rows.find((one) => one.name === name);
  const all = useMemo(
    () => listCandidates("install", known.fleet.nodes, row, undefined, undefined),
    [known.fleet.nodes, row],
  );
  const change: BackendChange = {
    verb: "install",
    backend: name,
    nodes: [...chosen].sort(),
    version: "",
    ignoresHardware: false,
    strategy: ALL_AT_ONCE,
    source: { uri: uri.trim(), name: name.trim(), sha256: sha256.trim() },
  };
  const isPlanned = planned !== null && JSON.stringify(planned) === JSON.stringify(change);
  const seen = useQuery({
    ...planChange(planned ?? change),
    enabled: isPlanned,
    placeholderData: keepPreviousData,
  });
  const begin = useMutation({
    mutationFn: () => requestChange(change),
    onSuccess: (admitted) => setFollowed(admitted.id),
  });
  const isWrong = sha256.trim() !== "" && !SHA256.test(sha256.trim());
  const isReady = isPlanned && seen.data !== undefined && !seen.error && !seen.isPlaceholderData;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) begin.mutate();
    else setPlanned(change);
  };
  if (followed) {
    return (
      <Dialog
        title={`Install ${name || "from a URL"}`}
        wide
        onClose={onClose}
        actions={<Button onClick={onClose}>Close</Button>}
      >
        <OperationFollower id={followed} onNext={setFollowed} />
      </Dialog>
    );
  }
  return (
    <Dialog
      title="Install from URL"
      wide
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            form={form}
            busy={begin.isPending}
            disabled={!uri.trim() || chosen.size === 0 || isWrong}
          >
            {isReady ? `Install on ${plural(chosen.size, "node")}` : "Preview"}
          </Button>
        </>
      }
    >
      <form id={form} className="stack tight" onSubmit={submit}>
        <TextField
          label="URL"
          hint="An archive, a wheel or an OCI artifact: https://…, oci://…"
          value={uri}
          onChange={(event) => setUri(event.target.value)}
        />
        <div className="columns">
          <TextField
            label="Name"
            hint="Name of the backend. Required for images."
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <TextField
            label="SHA-256"
            hint="Checksum of the file. Without it the download is not verified."
            value={sha256}
            error={isWrong ? "A SHA-256 has 64 hexadecimal digits." : null}
            onChange={(event) => setSha256(event.target.value)}
          />
        </div>
      </form>
      <NodePicker all={all} chosen={chosen} onChange={setChosen} withMissing={false} />
      {isPlanned && <PlanPreview query={seen} />}
      <ErrorNotice error={begin.error} />
    </Dialog>
  );
}
