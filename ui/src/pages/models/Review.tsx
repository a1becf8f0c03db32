// Before saving: what changes, what ends because of it. And what to do if somebody else was faster.
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { asProblem } from "@/api/client";
import type { ModelOut, SavedOut, StepOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { saveConfig } from "@/pages/models/calls";
import { Changes, Diff } from "@/pages/models/Diff";
import { toYaml } from "@/pages/models/yaml";
import { plural } from "@/text/format";

interface ReviewProps {
  model: ModelOut;
  draft: { revision: number; before: string; text: string };
  step: StepOut;
  onClose: () => void;
  onSaved: (saved: SavedOut) => void;
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
          <Button onClick={onClose}>Go on editing</Button>
          <Button kind="primary" busy={save.isPending} disabled={isConflict} onClick={() => save.mutate()}>
            Save as revision {draft.revision + 1}
          </Button>
        </>
      }
    >
      <Changes lines={step.changes ?? []} />
      <p className={step.stopped ? "models-warning" : "soft"}>
        {step.stopped
          ? `${plural(step.stopped, "replica")} of revision ${draft.revision} end when they have answered, and the model is loaded anew when it is asked for.`
          : "Nothing that runs is touched by this."}
      </p>
      <Diff before={draft.before} after={draft.text} label="The text before and after" />
      <Trouble error={save.error} />
    </Dialog>
  );
}

interface NewerProps {
  /** What the edited text began from. */
  draft: string;
  model: ModelOut;
  onTake: () => void;
  onGoOn: () => void;
}

/** Somebody has saved meanwhile. Nothing is thrown away without a word. */
export function Newer({ draft, model, onTake, onGoOn }: NewerProps) {
  const [isShown, show] = useState(false);
  return (
    <div className="models-warning stack tight" role="alert">
      <p>
        <strong>Somebody has saved revision {model.revision} while you were writing.</strong> Saving yours now
        would be refused.
      </p>
      <div className="row">
        <Button small onClick={() => show(!isShown)}>
          {isShown ? "Hide what they changed" : "Show what they changed"}
        </Button>
        <Button small onClick={onTake}>
          Take theirs, lose mine
        </Button>
        <Button small onClick={onGoOn}>
          Keep mine, review it against theirs
        </Button>
      </div>
      {isShown && <Diff before={draft} after={toYaml(model.config)} label="What they changed" />}
    </div>
  );
}
