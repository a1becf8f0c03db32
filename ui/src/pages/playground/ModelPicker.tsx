// A searchable list of models, with what each needs before it can answer.
import { useState } from "react";
import { Dialog } from "@/kit/Dialog";
import { SearchField } from "@/kit/fields";
import { Icon } from "@/kit/icons";
import { EmptyState } from "@/kit/Panel";
import { Pill, type Tone } from "@/kit/status";
import type { ModelChoice, ModelReadiness } from "@/pages/playground/choices";

const TONES: Record<ModelReadiness, Tone> = {
  loaded: "good",
  loading: "busy",
  cold: "still",
  absent: "still",
};
const WORDS: Record<ModelReadiness, string> = {
  loaded: "loaded",
  loading: "loading",
  cold: "not loaded",
  absent: "not installed",
};

interface ModelPickerProps {
  choices: ModelChoice[];
  chosen: ModelChoice | null;
  named: string | undefined;
  onChoose: (name: string) => void;
}

export function ModelPicker({ choices, chosen, named, onChoose }: ModelPickerProps) {
  const [isOpen, setOpen] = useState(false);
  const [term, setTerm] = useState("");
  const found = choices.filter((choice) => choice.name.toLowerCase().includes(term.trim().toLowerCase()));
  const title = chosen?.name ?? named ?? "No model";
  return (
    <>
      <button
        type="button"
        className="button plain playground-model"
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        <span className="unseen">Model: </span>
        <span className="cut">{title}</span>
        {chosen && <Pill tone={TONES[chosen.ready]}>{WORDS[chosen.ready]}</Pill>}
        <Icon name="down" />
      </button>
      {isOpen && (
        <Dialog title="Select a model" onClose={() => setOpen(false)}>
          <SearchField label="Search models" value={term} onChange={setTerm} />
          {found.length === 0 && <EmptyState title="No models match." />}
          <ul className="plain playground-choices">
            {found.map((choice) => (
              <li key={choice.name}>
                <button
                  type="button"
                  aria-current={choice.name === chosen?.name}
                  onClick={() => {
                    setOpen(false);
                    onChoose(choice.name);
                  }}
                >
                  <strong>{choice.name}</strong>
                  <Pill tone={TONES[choice.ready]}>{WORDS[choice.ready]}</Pill>
                  <span className="small soft">{choice.note}</span>
                </button>
              </li>
            ))}
          </ul>
        </Dialog>
      )}
    </>
  );
}
