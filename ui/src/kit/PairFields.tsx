// Form fields for names with values: headers of a request, variables of a program, labels of a node.
import { Button, IconButton } from "@/kit/Button";
import { nextId, type Pair } from "@/kit/pairs";

interface PairFieldsProps {
  /** The legend of the group: "Headers". */
  label: string;
  /** What one row is: "header". */
  noun: string;
  hint?: string;
  error?: string | null | undefined;
  namePlaceholder?: string;
  valuePlaceholder?: string;
  pairs: Pair[];
  onChange: (pairs: Pair[]) => void;
}

export function PairFields({
  label,
  noun,
  hint,
  error,
  namePlaceholder,
  valuePlaceholder,
  pairs,
  onChange,
}: PairFieldsProps) {
  const set = (id: number, part: Partial<Pair>) =>
    onChange(pairs.map((pair) => (pair.id === id ? { ...pair, ...part } : pair)));
  return (
    <fieldset className="pairs">
      <legend>{label}</legend>
      {hint && <p className="small soft">{hint}</p>}
      {pairs.map((pair, place) => (
        <div key={pair.id} className="pair field">
          <input
            type="text"
            aria-label={`Name of ${noun} ${place + 1}`}
            aria-invalid={error ? true : undefined}
            autoComplete="off"
            spellCheck={false}
            placeholder={namePlaceholder}
            value={pair.name}
            onChange={(event) => set(pair.id, { name: event.target.value })}
          />
          <input
            type="text"
            aria-label={`Value of ${noun} ${place + 1}`}
            autoComplete="off"
            spellCheck={false}
            placeholder={valuePlaceholder}
            value={pair.value}
            onChange={(event) => set(pair.id, { value: event.target.value })}
          />
          <IconButton
            icon="trash"
            label={`Remove ${noun} ${pair.name || place + 1}`}
            onClick={() => onChange(pairs.filter((one) => one.id !== pair.id))}
          />
        </div>
      ))}
      {error && (
        <p className="small bad-text" role="alert">
          {error}
        </p>
      )}
      <div>
        <Button
          small
          icon="plus"
          onClick={() => onChange([...pairs, { id: nextId(pairs), name: "", value: "" }])}
        >
          {`Add ${noun}`}
        </Button>
      </div>
    </fieldset>
  );
}
