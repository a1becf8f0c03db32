// Beside the conversation: the parameters, and the same request as code.
import { useState } from "react";
import { Copy } from "@/kit/Copy";
import { Segments, TextArea, TextField } from "@/kit/fields";
import { bodyOf, type Message, type Parameters } from "@/pages/playground/chat";
import { LANGUAGES, type Language, sample } from "@/pages/playground/samples";

interface SideProps {
  model: string;
  messages: Message[];
  parameters: Parameters;
  onChange: (parameters: Parameters) => void;
}

const NUMBERS = [
  {
    name: "temperature",
    label: "Temperature",
    step: 0.1,
    min: 0,
    max: 2,
    hint: "0 is the same answer every time.",
  },
  { name: "top_p", label: "Top p", step: 0.05, min: 0, max: 1, hint: "" },
  { name: "max_tokens", label: "Most tokens", step: 1, min: 1, max: 100_000, hint: "" },
  { name: "seed", label: "Seed", step: 1, min: 0, max: 2_147_483_647, hint: "" },
] as const;

export function Side({ model, messages, parameters, onChange }: SideProps) {
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
          <h2>The same as code</h2>
        </summary>
        <div className="stack tight">
          <Segments
            label="Language"
            value={language}
            options={LANGUAGES.map((value) => ({ value, label: value }))}
            onChange={setLanguage}
          />
          <Copy
            text={sample(language, window.location.origin, bodyOf(model, messages, parameters))}
            label={`the ${language} sample`}
          />
        </div>
      </details>
    </div>
  );
}
