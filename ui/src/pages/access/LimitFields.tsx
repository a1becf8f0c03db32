// Form fields for the limits of a key: of all models together, and of single models.
import { Button, IconButton } from "@/kit/Button";
import { TextField } from "@/kit/fields";
import { LIMIT_MEASURES, type LimitLine, type LimitMeasure, makeEmptyLine } from "@/pages/access/keyForm";

const LABELS: Record<LimitMeasure, string> = {
  requests_per_minute: "Requests per minute",
  tokens_per_minute: "Tokens per minute",
  tokens_per_day: "Tokens per day",
  tokens_per_month: "Tokens per month",
};

interface LimitFieldsProps {
  lines: LimitLine[];
  onChange: (lines: LimitLine[]) => void;
}

export function LimitFields({ lines, onChange }: LimitFieldsProps) {
  const set = (id: number, part: Partial<LimitLine>) =>
    onChange(lines.map((line) => (line.id === id ? { ...line, ...part } : line)));
  const add = () => onChange([...lines, makeEmptyLine(Math.max(0, ...lines.map((line) => line.id)) + 1)]);
  return (
    <fieldset className="access-limits stack">
      <legend>Limits</legend>
      <p className="small soft">Empty: no limit. Days and months are in UTC.</p>
      {lines.map((line, place) => (
        <div key={line.id} className="access-limit">
          {place === 0 ? (
            <p className="access-limit-of">All models</p>
          ) : (
            <TextField
              label="Model"
              value={line.model}
              required
              onChange={(event) => set(line.id, { model: event.target.value })}
            />
          )}
          {LIMIT_MEASURES.map((measure) => (
            <TextField
              key={measure}
              label={LABELS[measure]}
              type="number"
              min={1}
              value={line.amounts[measure]}
              onChange={(event) =>
                set(line.id, { amounts: { ...line.amounts, [measure]: event.target.value } })
              }
            />
          ))}
          {place > 0 && (
            <IconButton
              icon="trash"
              label={`Remove the limits of ${line.model || "this model"}`}
              onClick={() => onChange(lines.filter((one) => one.id !== line.id))}
            />
          )}
        </div>
      ))}
      <div>
        <Button small icon="plus" onClick={add}>
          Add limits for a model
        </Button>
      </div>
    </fieldset>
  );
}
