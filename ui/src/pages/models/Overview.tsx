// What runs of a model and where, the rule that keeps it so, and where the next replica would go.
import { useQuery } from "@tanstack/react-query";
import { live } from "@/api/queries";
import type { ModelOut, RuleOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { NextPlace } from "@/pages/models/NextPlace";
import { Replicas } from "@/pages/models/Replicas";
import { RulePanel } from "@/pages/models/RulePanel";
import { bytes, count } from "@/text/format";

interface OverviewProps {
  model: ModelOut;
  rule: RuleOut | undefined;
  isUnmet: boolean;
}

export function Overview({ model, rule, isUnmet }: OverviewProps) {
  const { data: shown } = useQuery(live);
  return (
    <div className="stack">
      <Replicas model={model} live={shown} />
      <div className="columns">
        <RulePanel model={model} rule={rule} isUnmet={isUnmet} />
        <Panel title="The next replica" note="Where it would go if it were loaded now.">
          {model.enabled ? (
            <NextPlace model={model.name} />
          ) : (
            <p className="soft">The model is disabled: nothing of it is loaded. Enable it first.</p>
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
    typeof facts.parameters === "number" ? `${count(facts.parameters)} parameters` : "",
    text(facts.quantisation),
    typeof facts.context_length === "number" ? `context ${count(facts.context_length)}` : "",
  ].filter(Boolean);
  const pairs: [string, string][] = [
    ["Also called", (model.aliases ?? []).join(", ")],
    ["Serves", serves.join(", ")],
    ["Made of", model.gallery + (model.variant ? `, variant ${model.variant}` : "")],
    ["Size", model.payload_bytes ? bytes(model.payload_bytes) : "no files"],
    ["Its files say", header.join(", ")],
    ["Revision", String(model.revision)],
  ];
  return (
    <Panel title="What it is" note={model.description}>
      <dl className="models-pairs">
        <dt>Backend</dt>
        <dd>
          <Tag>{model.backend}</Tag>
        </dd>
        {pairs
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <Pair key={name} name={name} value={value} />
          ))}
      </dl>
    </Panel>
  );
}

function Pair({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
