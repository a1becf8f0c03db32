// Runs a task: its parameters, files of this machine, and the same call as a command.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ChangeEvent, type FormEvent, useId, useState } from "react";
import { asProblem } from "@/api/client";
import type { TaskOut } from "@/api/schema";
import { Button, IconButton } from "@/kit/Button";
import { CopyButton } from "@/kit/CopyButton";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextArea } from "@/kit/fields";
import { QueryView } from "@/kit/QueryView";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import {
  findFilesFault,
  makeCurlCall,
  makeJobBody,
  pickMediaField,
  readAsDataUri,
} from "@/pages/tasks/jobForm";
import { startJob, taskQuery } from "@/pages/tasks/queries";
import { useCaller } from "@/pages/tasks/useCaller";
import { bytes } from "@/text/format";

/** Names of parameters that an error says are missing. */
function listMissing(error: unknown): readonly string[] {
  const problem = error ? asProblem(error) : null;
  const missing = problem?.code === "missing_parameter" ? problem.details.missing : [];
  return Array.isArray(missing) ? missing.map(String) : [];
}

export function RunTaskDialog({ task, onClose }: { task: TaskOut; onClose: () => void }) {
  // The list of tasks has no parameters.
  const query = useQuery(taskQuery(task.id, useCaller()));
  return (
    <Dialog title={`Run ${task.name}`} onClose={onClose} wide>
      <QueryView query={query}>{(found) => <RunTaskForm task={found} onClose={onClose} />}</QueryView>
    </Dialog>
  );
}

function RunTaskForm({ task, onClose }: { task: TaskOut; onClose: () => void }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const names = task.parameters ?? [];
  const [fields, setFields] = useState<Record<string, string>>(() =>
    Object.fromEntries(names.map((name) => [name, ""])),
  );
  const [files, setFiles] = useState<File[]>([]);
  const fault = findFilesFault(files);
  const submission = useMutation({
    mutationFn: async () => {
      const media = await Promise.all(
        files.map(async (file) => ({ type: file.type, data: await readAsDataUri(file) })),
      );
      return await startJob(makeJobBody(task, fields, media));
    },
    // The content of files stays nowhere in this page.
    gcTime: 0,
    onSuccess: async ({ job_id }) => {
      toast(`Started a job of ${task.name}.`);
      void cache.invalidateQueries({ queryKey: ["runs"] });
      onClose();
      await navigate({ to: "/tasks/jobs/$job", params: { job: job_id } });
    },
  });
  const missing = listMissing(submission.error);
  const isAtField = missing.some((name) => names.includes(name));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!fault) submission.mutate();
  };
  return (
    <form className="stack" onSubmit={submit}>
      {names.length === 0 ? (
        <p className="soft">The prompt of this task has no parameters.</p>
      ) : (
        <div className="columns">
          {names.map((name) => (
            <TextArea
              key={name}
              label={name}
              rows={1}
              className="tasks-parameter"
              value={fields[name] ?? ""}
              error={missing.includes(name) ? "The prompt needs a value." : null}
              onChange={(event) => setFields((was) => ({ ...was, [name]: event.target.value }))}
            />
          ))}
        </div>
      )}
      {names.length > 0 && (
        <p className="small soft tasks-under">
          Leave a field empty if the prompt has a default for it. A list or an object in JSON is passed as
          such.
        </p>
      )}
      <FileChoice files={files} fault={fault} onChange={setFiles} />
      {!isAtField && <ErrorNotice error={submission.error} />}
      <details>
        <summary>The same call as a command</summary>
        <div className="stack tight tasks-call">
          <CopyButton text={makeCurlCall(window.location.origin, task, fields, files)} label="the command" />
          <p className="small soft">
            <code>CORRAL_API_KEY</code> is a key of yours.
            {files.length > 0 && " Files are addresses here; data URIs work too."}
          </p>
        </div>
      </details>
      <div className="row tasks-buttons">
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" icon="play" type="submit" busy={submission.isPending}>
          Run
        </Button>
      </div>
    </form>
  );
}

const KIND_WORDS = { images: "image", videos: "video", audios: "audio", files: "file" } as const;

interface FileChoiceProps {
  files: File[];
  fault: string | null;
  onChange: (files: File[]) => void;
}

function FileChoice({ files, fault, onChange }: FileChoiceProps) {
  const id = useId();
  const add = (event: ChangeEvent<HTMLInputElement>) => {
    onChange([...files, ...(event.target.files ?? [])]);
    // The same file can be chosen again after it was removed.
    event.target.value = "";
  };
  return (
    <div className="field">
      <label htmlFor={id}>Files</label>
      <input id={id} type="file" multiple onChange={add} aria-invalid={fault ? true : undefined} />
      <p className="small soft">
        Images, audio, video and texts are sent with the prompt. They replace the task's own attachments of
        the same kind.
      </p>
      {fault && (
        <p className="small bad-text" role="alert">
          {fault}
        </p>
      )}
      {files.length > 0 && (
        <ul className="plain tasks-files" aria-label="Chosen files">
          {files.map((file, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two files may have one name
            <li key={place} className="row">
              <Tag>{KIND_WORDS[pickMediaField(file.type)]}</Tag>
              <span className="cut">{file.name}</span>
              <span className="small faint">{bytes(file.size)}</span>
              <IconButton
                icon="trash"
                label={`Remove ${file.name}`}
                onClick={() => onChange(files.filter((_, other) => other !== place))}
              />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
