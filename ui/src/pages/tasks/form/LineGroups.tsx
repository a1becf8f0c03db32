// A section of the form with any number of groups of fields, each of which is added and removed.
import type { ReactNode } from "react";
import { Button } from "@/kit/Button";
import { Panel } from "@/kit/Panel";

interface LineGroupsProps<T extends { id: number }> {
  title: string;
  note: string;
  /** What one group is: "webhook". */
  noun: string;
  addLabel: string;
  lines: readonly T[];
  make: () => T;
  onChange: (lines: T[]) => void;
  /** What stands before and behind the groups. */
  before?: ReactNode;
  after?: ReactNode;
  children: (line: T, place: number, change: (part: Partial<T>) => void) => ReactNode;
}

export function LineGroups<T extends { id: number }>({
  title,
  note,
  noun,
  addLabel,
  lines,
  make,
  onChange,
  before,
  after,
  children,
}: LineGroupsProps<T>) {
  const change = (id: number, part: Partial<T>) =>
    onChange(lines.map((line) => (line.id === id ? { ...line, ...part } : line)));
  return (
    <Panel
      title={title}
      note={note}
      actions={
        <Button small icon="plus" onClick={() => onChange([...lines, make()])}>
          {addLabel}
        </Button>
      }
    >
      {before}
      {lines.map((line, place) => (
        <fieldset key={line.id} className="tasks-group">
          <legend>{`${noun.charAt(0).toUpperCase()}${noun.slice(1)} ${place + 1}`}</legend>
          {children(line, place, (part) => change(line.id, part))}
          <div>
            <Button
              small
              icon="trash"
              onClick={() => onChange(lines.filter((one) => one.id !== line.id))}
            >{`Remove ${noun} ${place + 1}`}</Button>
          </div>
        </fieldset>
      ))}
      {after}
    </Panel>
  );
}
