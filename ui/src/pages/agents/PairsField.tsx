// Edits a map as a list of rows: rules of tools, labels, headers. The order of the rows is kept.
import { type ReactNode, useId } from "react";
import { Button, IconButton } from "@/kit/Button";
import { moveUp, type Pair } from "@/pages/agents/form";

interface PairsFieldProps {
  label: string;
  hint: ReactNode;
  error?: string | null;
  /** What one row is: "rule". */
  noun: string;
  keyLabel: string;
  keyExample: string;
  valueExample?: string;
  /** The values to choose from; without them a value is written. */
  options?: readonly { value: string; label: string }[];
  /** Whether the order of the rows counts, so that they can be moved. */
  isOrdered?: boolean;
  pairs: readonly Pair[];
  onChange: (pairs: Pair[]) => void;
}

export function PairsField({
  label,
  hint,
  error,
  noun,
  keyLabel,
  keyExample,
  valueExample,
  options,
  isOrdered = false,
  pairs,
  onChange,
}: PairsFieldProps) {
  const id = useId();
  const change = (place: number, part: Partial<Pair>) =>
    onChange(pairs.map((pair, other) => (other === place ? { ...pair, ...part } : pair)));
  return (
    <fieldset
      className={`form-group form-wide ${error ? "form-invalid" : ""}`}
      aria-describedby={`${id}-hint`}
    >
      <legend>{label}</legend>
      <p className="small soft" id={`${id}-hint`}>
        {hint}
      </p>
      {pairs.map((pair, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names of their own
        <div className={`form-pair field ${isOrdered ? "form-ordered" : ""}`} key={place}>
          <input
            type="text"
            aria-label={`${keyLabel} of ${noun} ${place + 1}`}
            aria-invalid={error ? true : undefined}
            placeholder={keyExample}
            autoComplete="off"
            spellCheck={false}
            value={pair.key}
            onChange={(event) => change(place, { key: event.target.value })}
          />
          {options ? (
            <select
              aria-label={`Value of ${noun} ${place + 1}`}
              value={pair.value}
              onChange={(event) => change(place, { value: event.target.value })}
            >
              {options.map((option) => (
                <option key={option.value} value={option.value}>
                  {option.label}
                </option>
              ))}
            </select>
          ) : (
            <input
              type="text"
              aria-label={`Value of ${noun} ${place + 1}`}
              placeholder={valueExample}
              autoComplete="off"
              spellCheck={false}
              value={pair.value}
              onChange={(event) => change(place, { value: event.target.value })}
            />
          )}
          {isOrdered && (
            <IconButton
              icon="up"
              label={`Move ${noun} ${place + 1} up`}
              disabled={place === 0}
              onClick={() => onChange(moveUp(pairs, place))}
            />
          )}
          <IconButton
            icon="cross"
            label={`Remove ${noun} ${place + 1}`}
            onClick={() => onChange(pairs.filter((_, other) => other !== place))}
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
          onClick={() => onChange([...pairs, { key: "", value: options?.[1]?.value ?? "" }])}
        >
          {`Add ${noun}`}
        </Button>
      </div>
    </fieldset>
  );
}
