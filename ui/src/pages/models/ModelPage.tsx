// The page of one model: replicas, configuration, MCP servers, revisions and files.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { operations, rules } from "@/api/queries";
import type { ModelOut } from "@/api/schema";
import { PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Pill, Tag } from "@/kit/status";
import { Tabs } from "@/kit/Tabs";
import { ModelActions } from "@/pages/models/actions";
import { modelQuery } from "@/pages/models/calls";
import { Files } from "@/pages/models/Files";
import { ModelConfiguration } from "@/pages/models/ModelConfiguration";
import { ModelOperation } from "@/pages/models/ModelOperation";
import { ModelOverview } from "@/pages/models/ModelOverview";
import { ModelServers } from "@/pages/models/ModelServers";
import { Revisions } from "@/pages/models/Revisions";
import type { MODEL_TABS } from "@/pages/models/search";
import { describeModelState, isRuleUnmet, listActiveOperations, listFailures } from "@/pages/models/state";
import "@/pages/models/models.css";

const LABELS: Record<(typeof MODEL_TABS)[number], string> = {
  overview: "Overview",
  configuration: "Configuration",
  servers: "MCP servers",
  revisions: "Revisions",
  files: "Files",
};

export default function ModelPage() {
  const { model } = useParams({ from: "/models/$model" });
  const found = useQuery(modelQuery(model));
  return (
    <>
      <p className="small">
        <Link to="/models">All models</Link>
      </p>
      <QueryView query={found}>{(one) => <Page key={one.name} model={one} />}</QueryView>
    </>
  );
}

function Page({ model }: { model: ModelOut }) {
  const { tab = "overview" } = useSearch({ from: "/models/$model" });
  const { data: allOperations } = useQuery(operations);
  const { data: allRules } = useQuery(rules);
  const rule = allRules?.find((one) => one.model === model.name);
  const busy = listActiveOperations(model.name, allOperations);
  const failed = listFailures(model.name, allOperations);
  const cannot = isRuleUnmet(rule, model, failed, Date.now());
  const state = describeModelState(model, { busy, isUnmet: cannot });
  return (
    <>
      <PageHeader
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
      </PageHeader>
      <div className="stack">
        {[...busy, ...failed].map((operation) => (
          <ModelOperation key={operation.id} operation={operation} />
        ))}
        <Tabs label={`About ${model.name}`} tabs={LABELS} shown={tab}>
          {tab === "overview" && <ModelOverview model={model} rule={rule} isUnmet={cannot} />}
          {tab === "configuration" && <ModelConfiguration model={model} />}
          {tab === "servers" && <ModelServers model={model} />}
          {tab === "revisions" && <Revisions model={model} />}
          {tab === "files" && <Files model={model} />}
        </Tabs>
      </div>
    </>
  );
}
