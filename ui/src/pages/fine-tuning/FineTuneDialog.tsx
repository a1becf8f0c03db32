// Starts a fine-tuning: the model, the examples, what is learned from them, and a few settings; the others have defaults.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { modelConfigs } from "@/api/queries";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { datasetsQuery, startFineTuning, uploadDataset } from "@/pages/fine-tuning/queries";
import { METHODS } from "@/pages/fine-tuning/words";
import "@/pages/fine-tuning/fine-tuning.css";

export function FineTuneDialog({ onClose }: { onClose: () => void }) {
  const cache = useQueryClient();
  const toast = useToast();
  const models = useQuery(modelConfigs);
  const datasets = useQuery(datasetsQuery);
  const [model, setModel] = useState("");
  const [dataset, setDataset] = useState("");
  const [file, setFile] = useState<File | null>(null);
  const [method, setMethod] = useState("sft");
  const [kind, setKind] = useState("lora");
  const [epochs, setEpochs] = useState("3");
  const [rank, setRank] = useState("16");
  const [rate, setRate] = useState("0.0002");
  const trainable = (models.data ?? []).filter((one) =>
    one.files?.some((each) => each.path === "config.json"),
  );
  const chosenModel = model || trainable[0]?.name || "";
  const chosenDataset = dataset || datasets.data?.[0]?.id || "";
  const submission = useMutation({
    mutationFn: async () => {
      const source = file ? (await uploadDataset(file)).id : chosenDataset;
      return await startFineTuning({
        model: chosenModel,
        dataset_source: source,
        training_method: method,
        training_type: kind,
        num_epochs: Number(epochs),
        adapter_rank: Number(rank),
        learning_rate: Number(rate),
      } as never);
    },
    onSuccess: () => {
      toast(`Training ${chosenModel}.`);
      void cache.invalidateQueries({ queryKey: ["runs"] });
      void cache.invalidateQueries({ queryKey: ["datasets"] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    submission.mutate();
  };
  return (
    <Dialog title="Train a model on examples" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <Select
          label="Model"
          hint={trainable.length === 0 ? "No model has config.json and safetensors." : undefined}
          value={chosenModel}
          onChange={(event) => setModel(event.target.value)}
        >
          {trainable.map((one) => (
            <option key={one.name} value={one.name}>
              {one.name}
            </option>
          ))}
        </Select>
        <Select
          label="Dataset"
          value={chosenDataset}
          disabled={file !== null}
          onChange={(event) => setDataset(event.target.value)}
        >
          {(datasets.data ?? []).map((one) => (
            <option key={one.id} value={one.id}>
              {`${one.name}, ${one.rows} rows`}
            </option>
          ))}
        </Select>
        <TextField
          label="Or upload one"
          hint="JSON lines, CSV or JSON."
          type="file"
          accept=".jsonl,.csv,.json"
          onChange={(event) => setFile(event.target.files?.[0] ?? null)}
        />
        <Select label="Learns from" value={method} onChange={(event) => setMethod(event.target.value)}>
          {Object.entries(METHODS).map(([value, text]) => (
            <option key={value} value={value}>
              {`${text} (${value})`}
            </option>
          ))}
        </Select>
        <Select label="Trains" value={kind} onChange={(event) => setKind(event.target.value)}>
          <option value="lora">an adapter (LoRA)</option>
          <option value="full">all weights</option>
        </Select>
        <TextField label="Epochs" value={epochs} onChange={(event) => setEpochs(event.target.value)} />
        <TextField
          label="Rank of the adapter"
          value={rank}
          onChange={(event) => setRank(event.target.value)}
        />
        <TextField label="Learning rate" value={rate} onChange={(event) => setRate(event.target.value)} />
        <ErrorNotice error={submission.error} />
        <div className="row fine-tune-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            busy={submission.isPending}
            disabled={chosenModel === "" || (file === null && chosenDataset === "")}
          >
            Train
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
