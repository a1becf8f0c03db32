// The list of the caller's quantisations, newest first, as a view of the models page.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { QuantizationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import {
  deleteQuantization,
  quantizationsQuery,
  registerQuantization,
  resultAddress,
  stopQuantization,
} from "@/pages/quantization/queries";
import { describeEnd, describeStatus, isOpen, nameJob } from "@/pages/quantization/words";
import "@/pages/quantization/quantization.css";

type JobAction = { kind: "stop" | "delete" | "register"; job: QuantizationOut };

export function Quantizations() {
  const query = useQuery(quantizationsQuery);
  const [action, setAction] = useState<JobAction | null>(null);
  const close = () => setAction(null);
  return (
    <>
      <QueryView query={query}>
        {(jobs) =>
          jobs.length === 0 ? (
            <EmptyState title="You have quantised no model yet.">
              <p>A quantised model takes less memory. Open the actions of a model and choose Quantise.</p>
            </EmptyState>
          ) : (
            <ul className="plain quantization-list" aria-label="Quantisations">
              {jobs.map((job) => (
                <JobRow key={job.id} job={job} onAction={(kind) => setAction({ kind, job })} />
              ))}
            </ul>
          )
        }
      </QueryView>
      {action?.kind === "stop" && <StopDialog job={action.job} onClose={close} />}
      {action?.kind === "delete" && <DeleteDialog job={action.job} onClose={close} />}
      {action?.kind === "register" && <RegisterDialog job={action.job} onClose={close} />}
    </>
  );
}

function JobRow({ job, onAction }: { job: QuantizationOut; onAction: (kind: JobAction["kind"]) => void }) {
  const { text, tone } = describeStatus(job);
  const name = nameJob(job);
  const end = describeEnd(job);
  return (
    <li className="quantization-row panel" aria-label={`${name}: ${text}`}>
      <div className="row apart">
        <Link className="quantization-name" to="/runs/$run" params={{ run: job.run_id }}>
          {name}
        </Link>
        <Pill tone={tone}>{text}</Pill>
      </div>
      {isOpen(job) && <Progress value={job.progress_percent} label={`Progress of ${name}`} />}
      {end && <p className={`small ${job.status === "failed" ? "bad-text" : "soft"}`}>{end}</p>}
      <div className="row apart">
        <span className="small soft">
          {job.node_name && `${job.node_name} · `}
          <RelativeTime at={job.created_at} />
        </span>
        <span className="row">
          {job.import_model_name && (
            <Link
              className="button plain small-button"
              to="/models/$model"
              params={{ model: job.import_model_name }}
            >
              {job.import_model_name}
            </Link>
          )}
          {job.output_file && (
            <a
              className="button plain small-button"
              href={resultAddress(job.id)}
              download
              aria-label={`Download ${name}`}
            >
              <Icon name="download" />
              <span>Download</span>
            </a>
          )}
          {job.output_file && !job.import_model_name && (
            <Button small icon="plus" aria-label={`Register ${name}`} onClick={() => onAction("register")}>
              Register
            </Button>
          )}
          {isOpen(job) ? (
            <Button small icon="stop" aria-label={`Cancel ${name}`} onClick={() => onAction("stop")}>
              Cancel
            </Button>
          ) : (
            <Button small icon="trash" aria-label={`Delete ${name}`} onClick={() => onAction("delete")}>
              Delete
            </Button>
          )}
        </span>
      </div>
    </li>
  );
}

interface JobDialogProps {
  job: QuantizationOut;
  onClose: () => void;
}

function StopDialog({ job, onClose }: JobDialogProps) {
  const cache = useQueryClient();
  const toast = useToast();
  return (
    <ConfirmDialog
      title={`Cancel quantising ${nameJob(job)}?`}
      verb="Cancel it"
      dismissLabel="Back"
      onConfirm={async () => {
        await stopQuantization(job.id);
        toast(`Cancelled quantising ${nameJob(job)}.`);
        await cache.invalidateQueries({ queryKey: ["runs"] });
      }}
      onClose={onClose}
    >
      <p>Its program is stopped, and what it has written is deleted.</p>
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
        await deleteQuantization(job.id);
        toast(`Deleted ${nameJob(job)}.`);
        await cache.invalidateQueries({ queryKey: ["runs"] });
      }}
      onClose={onClose}
    >
      <p>
        {job.import_model_name
          ? `The model ${job.import_model_name} stays.`
          : "The file that it has made is deleted with it."}
      </p>
    </ConfirmDialog>
  );
}

function RegisterDialog({ job, onClose }: JobDialogProps) {
  const cache = useQueryClient();
  const toast = useToast();
  const [name, setName] = useState(`${job.model}-${job.quantization_type}`);
  const [error, setError] = useState<unknown>(null);
  const register = async () => {
    try {
      const made = await registerQuantization(job.id, name.trim());
      toast(made.message);
      await cache.invalidateQueries({ queryKey: ["runs"] });
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title={`Register ${nameJob(job)}`} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void register();
        }}
      >
        <TextField label="Name of the model" value={name} onChange={(event) => setName(event.target.value)} />
        <ErrorNotice error={error} />
        <div className="row quantization-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={name.trim() === ""}>
            Register
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
