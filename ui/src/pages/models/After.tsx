// What happens when the files are here: load it, somewhere or on chosen nodes, or nothing yet.
import { Checkbox } from "@/kit/fields";
import type { Fit } from "@/pages/models/fit";

export interface Afterwards {
  loads: boolean;
  /** Null: where it is soonest ready. */
  nodes: string[] | null;
}

interface AfterProps {
  value: Afterwards;
  nodes: readonly Fit[];
  onChange: (value: Afterwards) => void;
}

export function After({ value, nodes, onChange }: AfterProps) {
  const isFree = value.loads && value.nodes === null;
  const choose = (node: string, isOn: boolean) => {
    const kept = (value.nodes ?? []).filter((one) => one !== node);
    onChange({ loads: true, nodes: isOn ? [...kept, node] : kept.length ? kept : null });
  };
  const option = (label: string, note: string, isChosen: boolean, to: Afterwards) => (
    <label className="models-option">
      <input type="radio" name="after" checked={isChosen} onChange={() => onChange(to)} />
      <span>
        <strong>{label}</strong> <span className="small soft">{note}</span>
      </span>
    </label>
  );
  const first = nodes[0];
  return (
    <fieldset className="models-options">
      <legend>When its files are here</legend>
      {option("Load it where it is ready soonest", "Corral chooses the node.", isFree, {
        loads: true,
        nodes: null,
      })}
      {first &&
        option("Load it on one of these nodes", "", value.loads && value.nodes !== null, {
          loads: true,
          nodes: [first.node],
        })}
      {value.loads && value.nodes !== null && (
        <div className="models-choices">
          {nodes.map((fit) => (
            <Checkbox
              key={fit.node}
              label={fit.node}
              hint={fit.fits ? undefined : "(does not fit now)"}
              checked={value.nodes?.includes(fit.node) ?? false}
              onChange={(event) => choose(fit.node, event.target.checked)}
            />
          ))}
        </div>
      )}
      {option("Leave it", "The first request loads it.", !value.loads, { loads: false, nodes: null })}
    </fieldset>
  );
}
