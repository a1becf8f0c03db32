// One model: what runs, what it is made of, what it was, and its files.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { operations, rules } from "@/api/queries";
import type { ModelOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { PageHead } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import { Tabs } from "@/kit/Tabs";
import { ModelActions } from "@/pages/models/actions";
import { Configuration } from "@/pages/models/Configuration";
import { modelOf } from "@/pages/models/calls";
import { Files } from "@/pages/models/Files";
import { Overview } from "@/pages/models/Overview";
import { Revisions } from "@/pages/models/Revisions";
import type { TABS } from "@/pages/models/search";
import { failures, isUnmet, stateOf, underWay } from "@/pages/models/state";
import { UnderWay } from "@/pages/models/UnderWay";
import "@/pages/models/models.css";

const LABELS: Record<(typeof TABS)[number], string> = {
  overview: "Overview",
  configuration: "Configuration",
  revisions: "Revisions",
  files: "Files",
};

export default function ModelPage() {
  const { model } = useParams({ from: "/models/$model" });
  const found = useQuery(modelOf(model));
  return (
    <>
      <p className="small">
        <Link to="/models">All models</Link>
      </p>
      <Answered query={found}>{(one) => <Page key={one.name} model={one} />}</Answered>
    </>
  );
}

function Page({ model }: { model: ModelOut }) {
  const { tab = "overview" } = useSearch({ from: "/models/$model" });
  const { data: going } = useQuery(operations);
  const { data: ruled } = useQuery(rules);
  const rule = ruled?.find((one) => one.model === model.name);
  const busy = underWay(model.name, going);
  const failed = failures(model.name, going);
  const cannot = isUnmet(rule, model, failed, Date.now());
  const state = stateOf(model, { busy, isUnmet: cannot });
  return (
    <>
      <PageHead
        title={model.name}
        note={
          <span className="row">
            <Pill tone={state.tone}>{state.word}</Pill>
            {model.pinned && <Tag tone="warn">pinned</Tag>}
            <span>{state.detail || model.description}</span>
          </span>
        }
      >
        <ModelActions model={model} busy={busy} />
      </PageHead>
      <div className="stack">
        {[...busy, ...failed].map((operation) => (
          <UnderWay key={operation.id} operation={operation} />
        ))}
        <Tabs label={`About ${model.name}`} tabs={LABELS} shown={tab}>
          {tab === "overview" && <Overview model={model} rule={rule} isUnmet={cannot} />}
          {tab === "configuration" && <Configuration model={model} />}
          {tab === "revisions" && <Revisions model={model} />}
          {tab === "files" && <Files model={model} />}
        </Tabs>
      </div>
    </>
  );
}
