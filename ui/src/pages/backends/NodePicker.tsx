// A table to choose nodes from, with a word about each one's suitability.
import { Button } from "@/kit/Button";
import { NodeStatus, Pill, Tag } from "@/kit/status";
import { getCapability } from "@/pages/backends/families";
import { chooseNodes, type NodeCandidate, type NodeChoice } from "@/pages/backends/nodeChoice";
import { bytes } from "@/text/format";

interface NodePickerProps {
  all: readonly NodeCandidate[];
  chosen: ReadonlySet<string>;
  onChange: (chosen: Set<string>) => void;
  withMissing: boolean;
}

const LABELS_SHOWN = 3;

export function NodePicker({ all, chosen, onChange, withMissing }: NodePickerProps) {
  const choices: [NodeChoice, string][] = [
    ["healthy", "All healthy"],
    ["compatible", "All compatible"],
    ...(withMissing ? ([["missing", "Not installed"]] as [NodeChoice, string][]) : []),
    ["none", "Clear"],
  ];
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    onChange(next);
  };
  return (
    <fieldset className="backends-picker">
      <legend className="unseen">Nodes</legend>
      <div className="row">
        {choices.map(([choice, label]) => (
          <Button small key={choice} onClick={() => onChange(chooseNodes(choice, all))}>
            {label}
          </Button>
        ))}
        <span className="small soft" role="status">
          {chosen.size} of {all.length} selected
        </span>
      </div>
      <ul className="plain backends-candidates">
        {all.map((one) => (
          <li key={one.node.id}>
            <CandidateRow candidate={one} isChosen={chosen.has(one.node.id)} onToggle={toggle} />
          </li>
        ))}
      </ul>
    </fieldset>
  );
}

function CandidateRow({
  candidate: { node, word, tone, reason, isClosed },
  isChosen,
  onToggle,
}: {
  candidate: NodeCandidate;
  isChosen: boolean;
  onToggle: (id: string) => void;
}) {
  const labels = Object.entries(node.labels).filter(([key]) => !key.startsWith("node."));
  return (
    <label className={isClosed ? "closed" : undefined}>
      <input
        type="checkbox"
        checked={isChosen}
        disabled={isClosed}
        aria-label={`${node.name}: ${word}`}
        onChange={() => onToggle(node.id)}
      />
      <span className="backends-who">
        <strong>{node.name}</strong>
        {labels.slice(0, LABELS_SHOWN).map(([key, value]) => (
          <Tag key={key}>{value ? `${key}=${value}` : key}</Tag>
        ))}
      </span>
      <span className="small soft">{hardware(getCapability(node), node.total_vram)}</span>
      <NodeStatus status={node.status} reason={node.status_reason} />
      <Pill tone={tone} title={reason || undefined}>
        {word}
      </Pill>
      {reason && <span className="small soft backends-reason">{reason}</span>}
    </label>
  );
}

function hardware(capability: string, vram: number | null | undefined): string {
  const kind = capability === "default" ? "CPU" : capability;
  return vram ? `${kind}, ${bytes(vram)}` : kind;
}
