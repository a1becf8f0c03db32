// The choice of what happens after the installation: load on any node, on chosen nodes, or do not load.
import { Checkbox } from "@/kit/fields";
import type { NodeFit } from "@/pages/models/fit";

export interface LoadChoiceValue {
  loads: boolean;
  /** The chosen nodes; null for the node that is ready soonest. */
  nodes: string[] | null;
}

interface LoadChoiceProps {
  value: LoadChoiceValue;
  nodes: readonly NodeFit[];
  onChange: (value: LoadChoiceValue) => void;
}

export function LoadChoice({ value, nodes, onChange }: LoadChoiceProps) {
  const isFree = value.loads && value.nodes === null;
  const choose = (node: string, isOn: boolean) => {
    const kept = (value.nodes ?? []).filter((one) => one !== node);
    onChange({ loads: true, nodes: isOn ? [...kept, node] : kept.length ? kept : null });
  };
  const option = (label: string, note: string, isChosen: boolean, to: LoadChoiceValue) => (
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
      <legend>After download</legend>
      {option("Load on the best node", "Corral selects the node.", isFree, {
        loads: true,
        nodes: null,
      })}
      {first &&
        option("Load on selected nodes", "", value.loads && value.nodes !== null, {
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
      {option("Do not load", "The first request loads the model.", !value.loads, {
        loads: false,
        nodes: null,
      })}
    </fieldset>
  );
}
