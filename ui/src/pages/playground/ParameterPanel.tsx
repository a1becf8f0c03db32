// The panel beside the conversation: the parameters, and the same request as code.
import { useState } from "react";
import { CopyButton } from "@/kit/CopyButton";
import { SegmentedControl, TextArea, TextField } from "@/kit/fields";
import { type ChatMessage, type ChatParameters, makeChatBody } from "@/pages/playground/chat";
import { LANGUAGES, type Language, makeCodeSample } from "@/pages/playground/samples";

interface ParameterPanelProps {
  model: string;
  messages: ChatMessage[];
  parameters: ChatParameters;
  onChange: (parameters: ChatParameters) => void;
}

const NUMBERS = [
  {
    name: "temperature",
    label: "Temperature",
    step: 0.1,
    min: 0,
    max: 2,
    hint: "0: deterministic",
  },
  { name: "top_p", label: "Top p", step: 0.05, min: 0, max: 1, hint: "" },
  { name: "max_tokens", label: "Max tokens", step: 1, min: 1, max: 100_000, hint: "" },
  { name: "seed", label: "Seed", step: 1, min: 0, max: 2_147_483_647, hint: "" },
] as const;

export function ParameterPanel({ model, messages, parameters, onChange }: ParameterPanelProps) {
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <div className="stack">
      <details className="panel" open>
        <summary>
          <h2>Parameters</h2>
        </summary>
        <div className="stack">
          <TextArea
            label="System prompt"
            rows={3}
            value={parameters.system}
            onChange={(event) => onChange({ ...parameters, system: event.target.value })}
          />
          <div className="playground-numbers">
            {NUMBERS.map(({ name, label, hint, ...range }) => (
              <TextField
                key={name}
                type="number"
                label={label}
                hint={hint}
                placeholder="default"
                {...range}
                value={parameters[name] ?? ""}
                onChange={(event) =>
                  onChange({
                    ...parameters,
                    [name]: event.target.value === "" ? null : Number(event.target.value),
                  })
                }
              />
            ))}
          </div>
        </div>
      </details>
      <details className="panel">
        <summary>
          <h2>Code</h2>
        </summary>
        <div className="stack tight">
          <SegmentedControl
            label="Language"
            value={language}
            options={LANGUAGES.map((value) => ({ value, label: value }))}
            onChange={setLanguage}
          />
          <CopyButton
            text={makeCodeSample(language, window.location.origin, makeChatBody(model, messages, parameters))}
            label={`the ${language} sample`}
          />
        </div>
      </details>
    </div>
  );
}
