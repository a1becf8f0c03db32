// Edits the configuration as YAML. Changes are shown before they are saved; edits of other users are not overwritten.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { useState } from "react";
import { asProblem, Problem } from "@/api/client";
import type { FleetChangeOut, ModelOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Editor } from "@/kit/editor";
import { Panel } from "@/kit/Panel";
import { useToast } from "@/kit/toasts";
import { modelQuery, planConfig } from "@/pages/models/calls";
import { findLine, toOwnLines } from "@/pages/models/problems";
import { NewerRevisionNotice, Review } from "@/pages/models/Review";
import { toYaml } from "@/pages/models/yaml";

interface Draft {
  /** The revision that the draft is based on, and its text. */
  revision: number;
  before: string;
  text: string;
}

const draftOf = (model: ModelOut): Draft => {
  const text = toYaml(model.config);
  return { revision: model.revision, before: text, text };
};

export function ModelConfiguration({ model }: { model: ModelOut }) {
  const queries = useQueryClient();
  const toast = useToast();
  const [draft, setDraft] = useState(() => draftOf(model));
  const [reviewed, setReviewed] = useState<FleetChangeOut | null>(null);
  // Another `key` creates another editor, with the text of the other revision.
  const [edition, setEdition] = useState(0);
  const isChanged = draft.text !== draft.before;
  const isNewer = model.revision > draft.revision;
  const begin = (from: Draft) => {
    setDraft(from);
    setEdition((before) => before + 1);
    check.reset();
  };
  const check = useMutation({
    mutationFn: () => planned(draft.text, model.name),
    onSuccess: (step) => {
      if (step.action === "same") toast("No changes to save.");
      else setReviewed(step);
    },
  });
  if (isNewer && !isChanged) {
    setDraft(draftOf(model));
    setEdition(edition + 1);
  }
  const leaving = useBlocker({
    shouldBlockFn: () => isChanged,
    withResolver: true,
    enableBeforeUnload: isChanged,
  });
  const problem = check.error ? asProblem(check.error) : null;
  const line = problem ? findLine(draft.text, problem.message) : null;
  const sentence = problem ? [toOwnLines(problem.message), problem.hint].filter(Boolean).join(" ") : "";
  return (
    <Panel
      title="Configuration"
      note={`Revision ${draft.revision}. Omitted settings have their default values.`}
      actions={
        <>
          <Button small disabled={!isChanged} onClick={() => begin(draftOf(model))}>
            Discard changes
          </Button>
          <Button
            small
            kind="primary"
            disabled={!isChanged}
            busy={check.isPending}
            onClick={() => check.mutate()}
          >
            Review and save
          </Button>
        </>
      }
    >
      {isNewer && isChanged && (
        <NewerRevisionNotice
          draft={draft.before}
          model={model}
          onTake={() => begin(draftOf(model))}
          onGoOn={() => setDraft({ ...draft, revision: model.revision, before: toYaml(model.config) })}
        />
      )}
      {problem && line === null && (
        <ErrorNotice
          error={new Problem(problem.status, problem.code, toOwnLines(problem.message), problem.hint)}
        />
      )}
      <Editor
        key={edition}
        label={`Configuration of ${model.name}, YAML`}
        text={draft.text}
        problem={line === null ? null : { line, sentence }}
        onChange={(text) => {
          setDraft((before) => ({ ...before, text }));
          if (check.error) check.reset();
        }}
        onSave={() => isChanged && check.mutate()}
      />
      <p className="unseen" role="alert">
        {line === null ? "" : `Line ${line}: ${sentence}`}
      </p>
      {reviewed && (
        <Review
          model={model}
          draft={draft}
          step={reviewed}
          onClose={() => setReviewed(null)}
          onSaved={(saved) => {
            setReviewed(null);
            setDraft((before) => ({ ...before, revision: saved.revision, before: before.text }));
            void queries.invalidateQueries({ queryKey: modelQuery(model.name).queryKey });
          }}
        />
      )}
      {leaving.status === "blocked" && (
        <ConfirmDialog
          title="Leave without saving?"
          verb="Discard changes and leave"
          onConfirm={async () => leaving.proceed()}
          onClose={() => leaving.reset()}
        >
          Your changes to the configuration of {model.name} are not saved.
        </ConfirmDialog>
      )}
    </Panel>
  );
}

/** What saving would do. Refuses a text with another name, which would create another model. */
async function planned(text: string, name: string): Promise<FleetChangeOut> {
  const { steps } = await planConfig(text);
  const step = steps[0];
  if (steps.length !== 1 || step?.name !== name)
    throw new Problem(
      400,
      "bad_model",
      `The name of model ${name} cannot be changed here.`,
      "Use Rename in the menu of this page.",
    );
  return step;
}
