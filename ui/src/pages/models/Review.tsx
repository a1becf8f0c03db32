// The review before saving: the changes, the replicas that they stop, and the choices if another user saved first.
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { asProblem } from "@/api/client";
import type { FleetChangeOut, ModelOut, SavedModelOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { useToast } from "@/kit/toasts";
import { saveConfig } from "@/pages/models/calls";
import { ChangedLines, Diff } from "@/pages/models/Diff";
import { toYaml } from "@/pages/models/yaml";
import { plural } from "@/text/format";

interface ReviewProps {
  model: ModelOut;
  draft: { revision: number; before: string; text: string };
  step: FleetChangeOut;
  onClose: () => void;
  onSaved: (saved: SavedModelOut) => void;
}

export function Review({ model, draft, step, onClose, onSaved }: ReviewProps) {
  const toast = useToast();
  const save = useMutation({
    mutationFn: () => saveConfig(model.name, draft.text, draft.revision),
    onSuccess: (saved) => {
      toast([saved.message, ...(saved.warnings ?? [])].join(" "), saved.warnings?.length ? "warn" : "good");
      onSaved(saved);
    },
  });
  const isConflict = save.error !== null && asProblem(save.error).status === 409;
  return (
    <Dialog
      wide
      title={`Save ${model.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Continue editing</Button>
          <Button kind="primary" busy={save.isPending} disabled={isConflict} onClick={() => save.mutate()}>
            Save as revision {draft.revision + 1}
          </Button>
        </>
      }
    >
      <ChangedLines lines={step.changes ?? []} />
      <p className={step.stopped ? "models-warning" : "soft"}>
        {step.stopped
          ? `${plural(step.stopped, "replica")} of revision ${draft.revision} stop after their in-flight requests; the model reloads on the next request.`
          : "Running replicas are not affected."}
      </p>
      <Diff before={draft.before} after={draft.text} label="Text before and after" />
      <ErrorNotice error={save.error} />
    </Dialog>
  );
}

interface NewerRevisionNoticeProps {
  /** The text of the revision that the edit is based on. */
  draft: string;
  model: ModelOut;
  onTake: () => void;
  onGoOn: () => void;
}

/** Shown if another user has saved meanwhile. No text is discarded without a choice. */
export function NewerRevisionNotice({ draft, model, onTake, onGoOn }: NewerRevisionNoticeProps) {
  const [isShown, show] = useState(false);
  return (
    <div className="models-warning stack tight" role="alert">
      <p>
        <strong>Revision {model.revision} was saved while you were editing.</strong> Your version cannot be
        saved over it.
      </p>
      <div className="row">
        <Button small onClick={() => show(!isShown)}>
          {isShown ? "Hide their changes" : "Show their changes"}
        </Button>
        <Button small onClick={onTake}>
          Discard mine, use theirs
        </Button>
        <Button small onClick={onGoOn}>
          Keep mine, compare with theirs
        </Button>
      </div>
      {isShown && <Diff before={draft} after={toYaml(model.config)} label="Their changes" />}
    </div>
  );
}
