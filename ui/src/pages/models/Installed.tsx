// The models of this cluster, the busy ones first.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { live, modelConfigs, operations, rules } from "@/api/queries";
import type { LiveOut, ModelOut, OperationOut, RuleOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Empty } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import { ModelActions } from "@/pages/models/actions";
import { planOf } from "@/pages/models/calls";
import { ReplicaChips } from "@/pages/models/ReplicaChips";
import { failures, isUnmet, liveOf, matches, ordered, stateOf, underWay } from "@/pages/models/state";
import { UnderWay } from "@/pages/models/UnderWay";
import { bytes, count } from "@/text/format";

export function Installed({ words, onCatalog }: { words: string; onCatalog: () => void }) {
  const models = useQuery(modelConfigs);
  const { data: shown } = useQuery(live);
  const { data: going } = useQuery(operations);
  const { data: ruled } = useQuery(rules);
  const byModel = useMemo(() => new Map((ruled ?? []).map((rule) => [rule.model, rule])), [ruled]);
  return (
    <Answered query={models}>
      {(all) => {
        const found = ordered(
          all.filter((model) => matches(model, words)),
          shown,
        );
        if (all.length === 0)
          return (
            <Empty title="There is no model yet.">
              <p>The catalog has some to begin with.</p>
              <p>
                <Button kind="primary" onClick={onCatalog}>
                  Open the catalog
                </Button>
              </p>
            </Empty>
          );
        if (found.length === 0)
          return <Empty title={`None of ${all.length} models has “${words}” in it.`}>Search for less.</Empty>;
        return (
          <ul className="plain models-rows" aria-label="Installed models">
            {found.map((model) => (
              <Row key={model.name} model={model} live={shown} going={going} rule={byModel.get(model.name)} />
            ))}
          </ul>
        );
      }}
    </Answered>
  );
}

interface RowProps {
  model: ModelOut;
  live: LiveOut | undefined;
  going: OperationOut[] | undefined;
  rule: RuleOut | undefined;
}

function Row({ model, live: shown, going, rule }: RowProps) {
  const busy = underWay(model.name, going);
  const failed = failures(model.name, going);
  const cannot = isUnmet(rule, model, failed, Date.now());
  const state = stateOf(model, { busy, isUnmet: cannot });
  return (
    <li className="models-row" aria-label={model.name}>
      <div className="models-row-main">
        <div className="models-row-name">
          <h2>
            <Link to="/models/$model" params={{ model: model.name }}>
              {model.name}
            </Link>
          </h2>
          <Pill tone={state.tone} title={state.detail}>
            {state.word}
          </Pill>
          {model.pinned && <Tag tone="warn">pinned</Tag>}
          <Tag>{model.backend}</Tag>
          {model.payload_bytes ? <span className="number faint">{bytes(model.payload_bytes)}</span> : null}
        </div>
        {model.description && <p className="soft small models-cut">{model.description}</p>}
        <ReplicaChips model={model} live={shown} />
        <Numbers model={model.name} live={shown} />
      </div>
      <ModelActions model={model} busy={busy} />
      {busy.map((operation) => (
        <UnderWay key={operation.id} operation={operation} />
      ))}
      {failed.map((operation) => (
        <UnderWay key={operation.id} operation={operation} />
      ))}
      {model.load_error && state.word === "load failed" && failed.length === 0 && (
        <LoadFailed model={model} />
      )}
      {cannot && failed.length === 0 && <Unmet model={model.name} />}
    </li>
  );
}

function Numbers({ model, live: shown }: { model: string; live: LiveOut | undefined }) {
  const one = liveOf(model, shown);
  if (!one) return null;
  const { waiting } = one;
  return (
    <p className="small soft models-numbers">
      <span>
        <span className="number">{count(one.in_flight)}</span> in flight
      </span>
      <span className={waiting ? "bad-text" : undefined}>
        <span className="number">{count(waiting)}</span> waiting
      </span>
      <span>
        <span className="number">{count(one.pace?.tokens_per_s ?? 0)}</span> tokens/s
      </span>
    </p>
  );
}

/** Why the last load failed, also after its operation was dismissed. */
export function LoadFailed({ model }: { model: ModelOut }) {
  return (
    <p className="small bad-text" role="status">
      Last load failed <Ago at={model.load_failed_at} />: {model.load_error}
    </p>
  );
}

/** Why a rule cannot be met, as the plan of its next replica says it. */
export function Unmet({ model }: { model: string }) {
  const plan = useQuery(planOf(model));
  return (
    <p className="models-warning small" role="status">
      <strong>Its rule cannot be met now.</strong> {plan.data?.message}{" "}
      <Link to="/models/$model" params={{ model }}>
        See why
      </Link>
    </p>
  );
}
