// How much a key may ask: of all models together, and of single ones.
import { Button, IconButton } from "@/kit/Button";
import { TextField } from "@/kit/fields";
import { emptyLine, type LimitLine, MEASURES, type Measure } from "@/pages/access/keyform";

const LABELS: Record<Measure, string> = {
  requests_per_minute: "Requests a minute",
  tokens_per_minute: "Tokens a minute",
  tokens_per_day: "Tokens a day",
  tokens_per_month: "Tokens a month",
};

interface LimitFieldsProps {
  lines: LimitLine[];
  onChange: (lines: LimitLine[]) => void;
}

export function LimitFields({ lines, onChange }: LimitFieldsProps) {
  const set = (id: number, part: Partial<LimitLine>) =>
    onChange(lines.map((line) => (line.id === id ? { ...line, ...part } : line)));
  const add = () => onChange([...lines, emptyLine(Math.max(0, ...lines.map((line) => line.id)) + 1)]);
  return (
    <fieldset className="access-limits stack">
      <legend>Limits</legend>
      <p className="small soft">Nothing in a field: no limit. Days and months are those of UTC.</p>
      {lines.map((line, place) => (
        <div key={line.id} className="access-limit">
          {place === 0 ? (
            <p className="access-limit-of">All models together</p>
          ) : (
            <TextField
              label="Of the model"
              value={line.model}
              required
              onChange={(event) => set(line.id, { model: event.target.value })}
            />
          )}
          {MEASURES.map((measure) => (
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
          Limits of one model
        </Button>
      </div>
    </fieldset>
  );
}
