// The list of the caller's fine-tunings with their curves, newest first, as a view of the models page.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { FineTuneOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select, TextField } from "@/kit/fields";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { FineTuneDialog } from "@/pages/fine-tuning/FineTuneDialog";
import { LossCurve } from "@/pages/fine-tuning/LossCurve";
import {
  archiveAddress,
  checkpointsQuery,
  deleteFineTuning,
  exportFineTuning,
  fineTunesQuery,
  stopFineTuning,
} from "@/pages/fine-tuning/queries";
import {
  describeEnd,
  describeStatus,
  describeSteps,
  FORMATS,
  isOpen,
  nameJob,
} from "@/pages/fine-tuning/words";
import "@/pages/fine-tuning/fine-tuning.css";

type JobAction = { kind: "stop" | "delete" | "export"; job: FineTuneOut };

export function FineTunings() {
  const query = useQuery(fineTunesQuery);
  const [starts, setStarts] = useState(false);
  const [action, setAction] = useState<JobAction | null>(null);
  const close = () => setAction(null);
  return (
    <>
      <div className="row">
        <Button icon="plus" onClick={() => setStarts(true)}>
          Train a model
        </Button>
      </div>
      <QueryView query={query}>
        {(jobs) =>
          jobs.length === 0 ? (
            <EmptyState title="You have trained no model yet.">
              <p>A training changes a model by your examples. It needs a model with safetensors.</p>
            </EmptyState>
          ) : (
            <ul className="plain fine-tune-list" aria-label="Fine-tunings">
              {jobs.map((job) => (
                <JobRow key={job.id} job={job} onAction={(kind) => setAction({ kind, job })} />
              ))}
            </ul>
          )
        }
      </QueryView>
      {starts && <FineTuneDialog onClose={() => setStarts(false)} />}
      {action?.kind === "stop" && <StopDialog job={action.job} onClose={close} />}
      {action?.kind === "delete" && <DeleteDialog job={action.job} onClose={close} />}
      {action?.kind === "export" && <ExportDialog job={action.job} onClose={close} />}
    </>
  );
}

function JobRow({ job, onAction }: { job: FineTuneOut; onAction: (kind: JobAction["kind"]) => void }) {
  const { text, tone } = describeStatus(job);
  const name = nameJob(job);
  const end = describeEnd(job);
  const steps = describeSteps(job);
  return (
    <li className="fine-tune-row panel" aria-label={`${name}: ${text}`}>
      <div className="row apart">
        <Link className="fine-tune-name" to="/runs/$run" params={{ run: job.run_id }}>
          {name}
        </Link>
        <Pill tone={tone}>{text}</Pill>
      </div>
      {isOpen(job) && <Progress value={job.progress_percent} label={`Progress of ${name}`} />}
      {steps && <p className="small soft">{steps}</p>}
      <LossCurve job={job} />
      {end && <p className={`small ${job.status === "failed" ? "bad-text" : "soft"}`}>{end}</p>}
      <div className="row apart">
        <span className="small soft">
          {job.node_name && `${job.node_name} · `}
          <RelativeTime at={job.created_at} />
        </span>
        <JobButtons job={job} name={name} onAction={onAction} />
      </div>
    </li>
  );
}

function JobButtons({
  job,
  name,
  onAction,
}: {
  job: FineTuneOut;
  name: string;
  onAction: (kind: JobAction["kind"]) => void;
}) {
  const hasEnded = !isOpen(job);
  return (
    <span className="row">
      {job.export_model_name && (
        <Link
          className="button plain small-button"
          to="/models/$model"
          params={{ model: job.export_model_name }}
        >
          {job.export_model_name}
        </Link>
      )}
      {hasEnded && (
        <>
          <a
            className="button plain small-button"
            href={archiveAddress(job.id)}
            download
            aria-label={`Download ${name}`}
          >
            <Icon name="download" />
            <span>Download</span>
          </a>
          <Button small icon="plus" aria-label={`Export ${name}`} onClick={() => onAction("export")}>
            Export
          </Button>
          <Button small icon="trash" aria-label={`Delete ${name}`} onClick={() => onAction("delete")}>
            Delete
          </Button>
        </>
      )}
      {!hasEnded && (
        <Button
          small
          icon="stop"
          aria-label={`Stop ${name}`}
          disabled={job.is_stopping}
          onClick={() => onAction("stop")}
        >
          Stop
        </Button>
      )}
    </span>
  );
}

interface JobDialogProps {
  job: FineTuneOut;
  onClose: () => void;
}

function StopDialog({ job, onClose }: JobDialogProps) {
  const cache = useQueryClient();
  const toast = useToast();
  return (
    <ConfirmDialog
      title={`Stop training ${nameJob(job)}?`}
      verb="Stop it"
      dismissLabel="Back"
      onConfirm={async () => {
        await stopFineTuning(job.id);
        toast(`Stopping ${nameJob(job)}.`);
        await cache.invalidateQueries({ queryKey: ["runs"] });
      }}
      onClose={onClose}
    >
      <p>It ends behind its present step, with a checkpoint from which it can go on.</p>
    </ConfirmDialog>
  );
}

function DeleteDialog({ job, onClose }: JobDialogProps) {
  const cache = useQueryClient();
  const toast = useToast();
  return (
    <ConfirmDialog
      title={`Delete ${nameJob(job)}?`}
      verb="Delete it"
      onConfirm={async () => {
        await deleteFineTuning(job.id);
        toast(`Deleted ${nameJob(job)}.`);
        await cache.invalidateQueries({ queryKey: ["runs"] });
      }}
      onClose={onClose}
    >
      <p>
        {job.export_model_name
          ? `Its checkpoints are deleted; the model ${job.export_model_name} stays.`
          : "Its checkpoints are deleted with it."}
      </p>
    </ConfirmDialog>
  );
}

function ExportDialog({ job, onClose }: JobDialogProps) {
  const cache = useQueryClient();
  const toast = useToast();
  const checkpoints = useQuery(checkpointsQuery(job.id));
  const [format, setFormat] = useState(job.training_type === "full" ? "merged_16bit" : "lora");
  const [checkpoint, setCheckpoint] = useState("");
  const [name, setName] = useState(`${job.model}-tuned`);
  const submission = useMutation({
    mutationFn: () =>
      exportFineTuning(job.id, {
        name: name.trim(),
        checkpoint_path: checkpoint,
        export_format: format,
        quantization_method: "",
      }),
    onSuccess: async (made) => {
      toast(made.message || `Exporting ${nameJob(job)}.`);
      await cache.invalidateQueries({ queryKey: ["runs"] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    submission.mutate();
  };
  return (
    <Dialog title={`Export ${nameJob(job)}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <Select label="Makes" value={format} onChange={(event) => setFormat(event.target.value)}>
          {Object.entries(FORMATS).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </Select>
        <Select label="Checkpoint" value={checkpoint} onChange={(event) => setCheckpoint(event.target.value)}>
          <option value="">the newest</option>
          {(checkpoints.data ?? []).map((one) => (
            <option key={one.name} value={one.name}>
              {one.name}
            </option>
          ))}
        </Select>
        <TextField label="Name of the model" value={name} onChange={(event) => setName(event.target.value)} />
        <ErrorNotice error={submission.error} />
        <div className="row fine-tune-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={submission.isPending} disabled={name.trim() === ""}>
            Export
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
