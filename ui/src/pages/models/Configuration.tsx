// The configuration as YAML. What would change is shown before it is saved, and nobody's work is overwritten.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { useState } from "react";
import { asProblem, Problem } from "@/api/client";
import type { ModelOut, StepOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Editor } from "@/kit/editor";
import { Panel } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { modelOf, planConfig } from "@/pages/models/calls";
import { inOwnLines, lineOf } from "@/pages/models/problems";
import { Newer, Review } from "@/pages/models/Review";
import { toYaml } from "@/pages/models/yaml";

interface Draft {
  /** The revision that it began from, and its text. */
  revision: number;
  before: string;
  text: string;
}

const draftOf = (model: ModelOut): Draft => {
  const text = toYaml(model.config);
  return { revision: model.revision, before: text, text };
};

export function Configuration({ model }: { model: ModelOut }) {
  const queries = useQueryClient();
  const toast = useToast();
  const [draft, setDraft] = useState(() => draftOf(model));
  const [reviewed, setReviewed] = useState<StepOut | null>(null);
  // Another key is another editor: with the text of another revision.
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
      if (step.action === "same") toast("That says the same as before: there is nothing to save.");
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
  const line = problem ? lineOf(draft.text, problem.message) : null;
  const sentence = problem ? [inOwnLines(problem.message), problem.hint].filter(Boolean).join(" ") : "";
  return (
    <Panel
      title="Configuration"
      note={`Revision ${draft.revision}. Settings that are not written are as they would be anyway.`}
      actions={
        <>
          <Button small disabled={!isChanged} onClick={() => begin(draftOf(model))}>
            Undo my changes
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
        <Newer
          draft={draft.before}
          model={model}
          onTake={() => begin(draftOf(model))}
          onGoOn={() => setDraft({ ...draft, revision: model.revision, before: toYaml(model.config) })}
        />
      )}
      {problem && line === null && (
        <Trouble
          error={new Problem(problem.status, problem.code, inOwnLines(problem.message), problem.hint)}
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
            void queries.invalidateQueries({ queryKey: modelOf(model.name).queryKey });
          }}
        />
      )}
      {leaving.status === "blocked" && (
        <Confirm
          title="Leave without saving"
          verb="Leave, and lose my changes"
          onConfirm={async () => leaving.proceed()}
          onClose={() => leaving.reset()}
        >
          What you have written in the configuration of {model.name} is not saved.
        </Confirm>
      )}
    </Panel>
  );
}

/** What saving would do. Another name in it would make another model, which is not what is meant here. */
async function planned(text: string, name: string): Promise<StepOut> {
  const { steps } = await planConfig(text);
  const step = steps[0];
  if (steps.length !== 1 || step?.name !== name)
    throw new Problem(
      400,
      "bad_model",
      `Model ${name}: name has to stay ${name}.`,
      "Rename it with the menu at the top of this page.",
    );
  return step;
}
