// The page that stays open on the second screen: what needs somebody, what there is, how it goes.
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
import { Answered } from "@/kit/Answered";
import { PageHead } from "@/kit/Panel";
import { useDegraded } from "@/live/degraded";
import { intents as intentsQuery } from "@/pages/operations/queries";
import { Attention } from "@/pages/overview/Attention";
import { attention } from "@/pages/overview/attention";
import { Busiest } from "@/pages/overview/Busiest";
import { Charts } from "@/pages/overview/Charts";
import { FirstSteps } from "@/pages/overview/FirstSteps";
import { first } from "@/pages/overview/first";
import { fleet } from "@/pages/overview/fleet";
import { Numbers } from "@/pages/overview/Numbers";
import { useMay } from "@/shell/me";
import "@/pages/overview/overview.css";

export default function Overview() {
  return useMay("operate") ? <Fleet /> : <Navigate to="/playground" />;
}

function Fleet() {
  const nodes = useQuery(nodesQuery);
  const live = useQuery(liveQuery);
  const operations = useQuery(operationsQuery).data;
  const models = useQuery(modelConfigs).data;
  return (
    <>
      <PageHead title="Overview" />
      <div className="stack overview">
        {nodes.data && models && operations && (
          <FirstSteps
            step={first(
              nodes.data,
              models.map((model) => model.name),
              operations,
            )}
          />
        )}
        <Needs />
        <Answered query={nodes}>{(all) => <Numbers fleet={fleet(all, live.data)} />}</Answered>
        <Charts />
        <Answered query={live}>{(now) => <Busiest live={now} />}</Answered>
      </div>
    </>
  );
}

/** Says that all is well only when everything has been read that could say otherwise. */
function Needs() {
  const nodes = useQuery(nodesQuery).data;
  const operations = useQuery(operationsQuery).data;
  const intents = useQuery(intentsQuery).data;
  const installed = useQuery(installedBackends).data;
  const upgrades = useQuery(upgradesQuery).data;
  const rules = useQuery(rulesQuery).data;
  const live = useQuery(liveQuery).data;
  const items = attention({
    degraded: useDegraded(),
    nodes: nodes ?? [],
    operations: operations ?? [],
    intents: intents ?? [],
    installed: installed ?? [],
    upgrades: upgrades ?? {},
    rules: rules ?? [],
    live,
  });
  const isWhole = nodes && operations && intents && installed && upgrades && rules && live;
  return items.length > 0 || isWhole ? <Attention items={items} /> : null;
}
