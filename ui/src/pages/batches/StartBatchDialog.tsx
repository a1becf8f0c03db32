// Starts a batch: of a file of this machine, which is uploaded, or of one that was uploaded before.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { ENDPOINTS, HEAD_BYTES, inspectInput } from "@/pages/batches/input";
import { filesQuery, startBatch, uploadInput } from "@/pages/batches/queries";
import { useHasScope } from "@/shell/me";
import { bytes } from "@/text/format";

const OWN = "";

interface StartBatchDialogProps {
  /** The id of a file that was uploaded; without it, the user chooses one. */
  fileId?: string;
  onClose: () => void;
}

export function StartBatchDialog({ fileId = OWN, onClose }: StartBatchDialogProps) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const { data: files = [] } = useQuery(filesQuery(useHasScope("operate")));
  const inputs = files.filter((file) => file.purpose === "batch");
  const [chosen, setChosen] = useState(fileId);
  const [file, setFile] = useState<File | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const [endpoint, setEndpoint] = useState<string>(ENDPOINTS[0]);
  const upload = useRef(new AbortController());
  useEffect(() => () => upload.current.abort(), []);
  const submission = useMutation({
    mutationFn: async () => {
      let id = chosen;
      if (!id && file) {
        id = (await uploadInput(file, upload.current.signal)).id;
        // A batch that is refused is started again from the file that is there now.
        setChosen(id);
        await cache.invalidateQueries({ queryKey: ["runs", "files"] });
      }
      return await startBatch({ input_file_id: id, endpoint });
    },
    onSuccess: async () => {
      toast("Started the batch.");
      void cache.invalidateQueries({ queryKey: ["runs"] });
      onClose();
      await navigate({ to: "/tasks/batches" });
    },
  });
  const choose = async (picked: File | null) => {
    setFile(picked);
    submission.reset();
    if (!picked) return setFault(null);
    const found = inspectInput(await picked.slice(0, HEAD_BYTES).text(), picked.size);
    setFault(found.fault);
    if (found.endpoint) setEndpoint(found.endpoint);
  };
  const isReady = chosen !== OWN || (file !== null && fault === null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) submission.mutate();
  };
  return (
    <Dialog title="Start a batch" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {inputs.length > 0 && (
          <Select label="Requests" value={chosen} onChange={(event) => setChosen(event.target.value)}>
            <option value={OWN}>A file of this machine</option>
            {inputs.map((input) => (
              <option key={input.id} value={input.id}>
                {`${input.filename}, ${bytes(input.bytes)}`}
              </option>
            ))}
          </Select>
        )}
        {chosen === OWN && (
          <TextField
            type="file"
            label="File"
            accept=".jsonl,.ndjson,.json,application/jsonl,application/x-ndjson"
            hint="One request in JSON on each line, with a custom_id of its own. At most 50,000 lines and 200 MiB."
            error={fault}
            onChange={(event) => void choose(event.target.files?.[0] ?? null)}
          />
        )}
        <Select
          label="Endpoint"
          hint="The same for all lines."
          value={endpoint}
          onChange={(event) => setEndpoint(event.target.value)}
        >
          {ENDPOINTS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </Select>
        <p className="small soft">
          The requests count for you: your models, your limits, your usage. They wait behind all other
          requests.
        </p>
        <ErrorNotice error={submission.error} />
        <div className="row batches-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!isReady} busy={submission.isPending}>
            {chosen === OWN ? "Upload and start" : "Start"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
