// The list of the cluster's models, busy ones first.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { live, modelConfigs, operations, rules } from "@/api/queries";
import type { LiveOut, ModelOut, OperationOut, RuleOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { ModelActions } from "@/pages/models/actions";
import { loadPlanQuery } from "@/pages/models/calls";
import { ModelOperation } from "@/pages/models/ModelOperation";
import { ReplicaChips } from "@/pages/models/ReplicaChips";
import {
  describeModelState,
  findLiveModel,
  isRuleUnmet,
  listActiveOperations,
  listFailures,
  matches,
  sortModels,
} from "@/pages/models/state";
import { bytes, formatCount } from "@/text/format";

export function InstalledModels({ words, onCatalog }: { words: string; onCatalog: () => void }) {
  const models = useQuery(modelConfigs);
  const { data: shown } = useQuery(live);
  const { data: allOperations } = useQuery(operations);
  const { data: allRules } = useQuery(rules);
  const byModel = useMemo(() => new Map((allRules ?? []).map((rule) => [rule.model, rule])), [allRules]);
  return (
    <QueryView query={models}>
      {(all) => {
        const found = sortModels(
          all.filter((model) => matches(model, words)),
          shown,
        );
        if (all.length === 0)
          return (
            <EmptyState title="No models yet.">
              <p>Install one from the catalog.</p>
              <p>
                <Button kind="primary" onClick={onCatalog}>
                  Open the catalog
                </Button>
              </p>
            </EmptyState>
          );
        if (found.length === 0)
          return <EmptyState title={`No models match “${words}”.`}>Use fewer words.</EmptyState>;
        return (
          <ul className="plain models-rows" aria-label="Installed models">
            {found.map((model) => (
              <ModelRow
                key={model.name}
                model={model}
                live={shown}
                allOperations={allOperations}
                rule={byModel.get(model.name)}
              />
            ))}
          </ul>
        );
      }}
    </QueryView>
  );
}

interface ModelRowProps {
  model: ModelOut;
  live: LiveOut | undefined;
  allOperations: OperationOut[] | undefined;
  rule: RuleOut | undefined;
}

function ModelRow({ model, live: shown, allOperations, rule }: ModelRowProps) {
  const busy = listActiveOperations(model.name, allOperations);
  const failed = listFailures(model.name, allOperations);
  const cannot = isRuleUnmet(rule, model, failed, Date.now());
  const state = describeModelState(model, { busy, isUnmet: cannot });
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
        <LiveNumbers model={model.name} live={shown} />
      </div>
      <ModelActions model={model} busy={busy} />
      {busy.map((operation) => (
        <ModelOperation key={operation.id} operation={operation} />
      ))}
      {failed.map((operation) => (
        <ModelOperation key={operation.id} operation={operation} />
      ))}
      {model.load_error && state.word === "load failed" && failed.length === 0 && (
        <LoadFailureNotice model={model} />
      )}
      {cannot && failed.length === 0 && <UnmetRuleNotice model={model.name} />}
    </li>
  );
}

function LiveNumbers({ model, live: shown }: { model: string; live: LiveOut | undefined }) {
  const one = findLiveModel(model, shown);
  if (!one) return null;
  const { waiting } = one;
  return (
    <p className="small soft models-numbers">
      <span>
        <span className="number">{formatCount(one.in_flight)}</span> in flight
      </span>
      <span className={waiting ? "bad-text" : undefined}>
        <span className="number">{formatCount(waiting)}</span> queued
      </span>
      <span>
        <span className="number">{formatCount(one.pace?.tokens_per_s ?? 0)}</span> tokens/s
      </span>
    </p>
  );
}

/** Why the last load failed, also after its operation was dismissed. */
function LoadFailureNotice({ model }: { model: ModelOut }) {
  return (
    <p className="small bad-text" role="status">
      Last load failed <RelativeTime at={model.load_failed_at} />: {model.load_error}
    </p>
  );
}

/** Why a rule cannot be met, from the plan of its next replica. */
function UnmetRuleNotice({ model }: { model: string }) {
  const plan = useQuery(loadPlanQuery(model));
  return (
    <p className="models-warning small" role="status">
      <strong>Its rule cannot be satisfied right now.</strong> {plan.data?.message}{" "}
      <Link to="/models/$model" params={{ model }}>
        See why
      </Link>
    </p>
  );
}
