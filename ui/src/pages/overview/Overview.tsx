// The overview page, made to stay open on a second screen: items that need a person, capacity, and live charts.
import { useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";
import {
  installedBackends,
  live as liveQuery,
  modelConfigs,
  nodes as nodesQuery,
  operations as operationsQuery,
  rules as rulesQuery,
  upgrades as upgradesQuery,
} from "@/api/queries";
import { PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { useDegradations } from "@/live/degradations";
import { assignmentsQuery } from "@/pages/operations/queries";
import { Attention } from "@/pages/overview/Attention";
import { listAttentionItems } from "@/pages/overview/attentionItems";
import { BusiestModels } from "@/pages/overview/BusiestModels";
import { Charts } from "@/pages/overview/Charts";
import { FirstSteps } from "@/pages/overview/FirstSteps";
import { FleetTiles } from "@/pages/overview/FleetTiles";
import { findFirstStep } from "@/pages/overview/firstStep";
import { computeFleetNumbers } from "@/pages/overview/fleetNumbers";
import { useHasScope } from "@/shell/me";
import "@/pages/overview/overview.css";

export default function Overview() {
  return useHasScope("operate") ? <FleetPanel /> : <Navigate to="/playground" />;
}

function FleetPanel() {
  const nodes = useQuery(nodesQuery);
  const live = useQuery(liveQuery);
  const operations = useQuery(operationsQuery).data;
  const models = useQuery(modelConfigs).data;
  return (
    <>
      <PageHeader title="Overview" />
      <div className="stack overview">
        {nodes.data && models && operations && (
          <FirstSteps
            step={findFirstStep(
              nodes.data,
              models.map((model) => model.name),
              operations,
            )}
          />
        )}
        <Needs />
        <QueryView query={nodes}>
          {(all) => <FleetTiles fleet={computeFleetNumbers(all, live.data)} />}
        </QueryView>
        <Charts />
        <QueryView query={live}>{(now) => <BusiestModels live={now} />}</QueryView>
      </div>
    </>
  );
}

/** Says that everything is healthy only after all queries that could contradict it have been read. */
function Needs() {
  const nodes = useQuery(nodesQuery).data;
  const operations = useQuery(operationsQuery).data;
  const assignments = useQuery(assignmentsQuery).data;
  const installed = useQuery(installedBackends).data;
  const upgrades = useQuery(upgradesQuery).data;
  const rules = useQuery(rulesQuery).data;
  const live = useQuery(liveQuery).data;
  const items = listAttentionItems({
    degraded: useDegradations(),
    nodes: nodes ?? [],
    operations: operations ?? [],
    assignments: assignments ?? [],
    installed: installed ?? [],
    upgrades: upgrades ?? {},
    rules: rules ?? [],
    live,
  });
  const isWhole = nodes && operations && assignments && installed && upgrades && rules && live;
  return items.length > 0 || isWhole ? <Attention items={items} /> : null;
}
