// The overview of a model: its replicas, its rule, and the node that the next replica would be placed on.
import { useQuery } from "@tanstack/react-query";
import { live } from "@/api/queries";
import type { ModelOut, RuleOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { ModelReplicas } from "@/pages/models/ModelReplicas";
import { NextPlacement } from "@/pages/models/NextPlacement";
import { RulePanel } from "@/pages/models/RulePanel";
import { bytes, formatCount } from "@/text/format";

interface OverviewProps {
  model: ModelOut;
  rule: RuleOut | undefined;
  isUnmet: boolean;
}

export function ModelOverview({ model, rule, isUnmet }: OverviewProps) {
  const { data: shown } = useQuery(live);
  return (
    <div className="stack">
      <ModelReplicas model={model} live={shown} />
      <div className="columns">
        <RulePanel model={model} rule={rule} isUnmet={isUnmet} />
        <Panel title="Next replica" note="Where it would be placed now.">
          {model.enabled ? (
            <NextPlacement model={model.name} />
          ) : (
            <p className="soft">The model is disabled. Enable it to load it.</p>
          )}
        </Panel>
        <Facts model={model} />
      </div>
    </div>
  );
}

function Facts({ model }: { model: ModelOut }) {
  const facts = model.facts ?? {};
  const serves = Array.isArray(model.config.serves) ? model.config.serves.map(String) : [];
  const header = [
    text(facts.architecture),
    typeof facts.parameters === "number" ? `${formatCount(facts.parameters)} parameters` : "",
    text(facts.quantisation),
    typeof facts.context_length === "number" ? `context ${formatCount(facts.context_length)}` : "",
  ].filter(Boolean);
  const pairs: [string, string][] = [
    ["Adapter of", model.base ?? ""],
    ["Adapters", (model.adapters ?? []).join(", ")],
    ["Aliases", (model.aliases ?? []).join(", ")],
    ["Serves", serves.join(", ")],
    ["Source", model.gallery + (model.variant ? `, variant ${model.variant}` : "")],
    ["Made from", describeProvenance(model)],
    ["Size", model.payload_bytes ? bytes(model.payload_bytes) : "no files"],
    ["File metadata", header.join(", ")],
    ["Revision", String(model.revision)],
  ];
  return (
    <Panel title="Details" note={model.description}>
      <dl className="models-pairs">
        <dt>Backend</dt>
        <dd>
          <Tag>{model.backend}</Tag>
        </dd>
        {pairs
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <LabelledRow key={name} name={name} value={value} />
          ))}
      </dl>
    </Panel>
  );
}

/** What a quantisation has made the model from. */
function describeProvenance({ provenance: made }: ModelOut): string {
  if (!made) return "";
  const again = made.is_requantized ? "; its weights had been quantised before" : "";
  return `${made.model} (${(made.source_types ?? []).join(", ")}) by ${made.tool}${again}`;
}

function LabelledRow({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
