// The page of one node: status and conditions, replicas, limits, and logs of its engines.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useRef } from "react";
import { nodes, operations } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { NodeStatus, Tag } from "@/kit/status";
import { Tabs } from "@/kit/Tabs";
import { hasCurrentHeartbeat, isAgent } from "@/pages/nodes/fleetSummary";
import { NodeOperation } from "@/pages/nodes/NodeOperation";
import { Meters } from "@/pages/nodes/NodeRow";
import { operationByNode } from "@/pages/nodes/nodeList";
import { hasCondition } from "@/pages/nodes/offers";
import { Conditions, Machine } from "@/pages/nodes/one/Conditions";
import { Labels } from "@/pages/nodes/one/Labels";
import { Limits } from "@/pages/nodes/one/Limits";
import { Logs } from "@/pages/nodes/one/Logs";
import { Metrics } from "@/pages/nodes/one/Metrics";
import { NodeBackends } from "@/pages/nodes/one/NodeBackends";
import { NodeOperationList } from "@/pages/nodes/one/NodeOperationList";
import { NodeReplicas } from "@/pages/nodes/one/NodeReplicas";
import { NodeRuns } from "@/pages/nodes/one/NodeRuns";
import { Processes } from "@/pages/nodes/one/Processes";
import type { NODE_TABS } from "@/pages/nodes/search";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { describeAdvice, describeHardware, describeReason } from "@/pages/nodes/words";
import "@/pages/nodes/nodes.css";
import "@/pages/nodes/one/node.css";

const LABELS: Record<(typeof NODE_TABS)[number], string> = {
  overview: "Overview",
  backends: "Backends",
  logs: "Logs",
  operations: "Operations",
};
const UP_FRONT = new Set(["approve", "drain", "resume"]);

export default function NodePage() {
  const { node: requested } = useParams({ from: "/nodes/$node" });
  const query = useQuery(nodes);
  const shown = useRef({ requested: "", name: "" });
  return (
    <>
      <p className="small">
        <Link to="/nodes">All nodes</Link>
      </p>
      <QueryView query={query}>
        {(all) => {
          const found =
            all.find((node) => node.id === requested) ?? all.find((node) => node.name === requested);
          if (found) {
            shown.current = { requested, name: found.name };
            return <Page key={found.id} node={found} />;
          }
          if (shown.current.requested === requested) return <RemovedNotice name={shown.current.name} />;
          return (
            <EmptyState title={`Node ${requested} not found.`}>
              It was removed or never joined. <Link to="/nodes">All nodes</Link>
            </EmptyState>
          );
        }}
      </QueryView>
    </>
  );
}

/** Shown for a node that was removed while its page was open. */
function RemovedNotice({ name }: { name: string }) {
  return (
    <div role="status">
      <EmptyState title={`${name} was removed.`}>
        The node was removed from the cluster while this page was open. To rejoin, its worker needs a new join
        token. <Link to="/nodes">All nodes</Link>
      </EmptyState>
    </div>
  );
}

function Page({ node }: { node: NodeOut }) {
  const { tab = "overview" } = useSearch({ from: "/nodes/$node" });
  const { data: allOperations } = useQuery(operations);
  const operation = operationByNode(allOperations ?? []).get(node.id);
  return (
    <>
      <NodeHeader node={node} />
      <div className="stack">
        {operation && (
          <div className="panel">
            <NodeOperation operation={operation} node={node} />
          </div>
        )}
        {isAgent(node) ? (
          <AgentOverview node={node} />
        ) : (
          <Tabs label={`About ${node.name}`} tabs={LABELS} shown={tab}>
            {tab === "overview" && <Overview node={node} />}
            {tab === "backends" && <NodeBackends node={node} />}
            {tab === "logs" && <Logs node={node} />}
            {tab === "operations" && <NodeOperationList node={node} />}
          </Tabs>
        )}
      </div>
    </>
  );
}

function NodeHeader({ node }: { node: NodeOut }) {
  const navigate = useNavigate();
  const actions = useNodeActions(node, () => void navigate({ to: "/nodes" }));
  return (
    <>
      <PageHeader
        title={node.name}
        note={
          <>
            <p className="row">
              <NodeStatus status={node.status} reason={node.status_reason} />
              {isAgent(node) && <Tag title="Runs agents, no engines.">agent</Tag>}
              <span aria-live="polite">{describeReason(node)}</span>
              {!hasCurrentHeartbeat(node) && node.last_heartbeat && (
                <span>
                  · last heartbeat <RelativeTime at={node.last_heartbeat} />
                </span>
              )}
            </p>
            {describeAdvice(node) && <p>{describeAdvice(node)}</p>}
            <p className="small">{describeHardware(node)}</p>
          </>
        }
      >
        {actions.offers
          .filter((offer) => UP_FRONT.has(offer.id))
          .map((offer) => (
            <Button
              key={offer.id}
              icon={offer.icon}
              kind={offer.id === "approve" ? "primary" : "plain"}
              aria-label={offer.label}
              busy={actions.pending === offer.id}
              onClick={() => actions.run(offer.id)}
            >
              {offer.label.split(" ", 1)[0]}
            </Button>
          ))}
        <Menu
          label={`Actions for ${node.name}`}
          items={actions.items.filter((_, place) => !UP_FRONT.has(actions.offers[place]?.id ?? ""))}
        />
      </PageHeader>
      {actions.dialog}
    </>
  );
}

function Overview({ node }: { node: NodeOut }) {
  const isReachable = hasCondition(node, "alive") && hasCondition(node, "on_bus");
  return (
    <div className="node-overview">
      <div className="stack">
        <Metrics node={node} />
        <NodeReplicas node={node} />
        {Boolean(node.max_runs) && <NodeRuns node={node} />}
        {isReachable && <Processes node={node} />}
        <Machine node={node} />
      </div>
      <div className="stack">
        <section className="panel" aria-label="Resource usage">
          <Meters node={node} />
        </section>
        <Conditions node={node} />
        <Limits node={node} />
        <Labels node={node} />
      </div>
    </div>
  );
}

/** An agent node runs no engines: it has runs in place of replicas, and no backends, VRAM budget or slots. */
function AgentOverview({ node }: { node: NodeOut }) {
  return (
    <div className="node-overview">
      <div className="stack">
        <NodeRuns node={node} />
        <Metrics node={node} />
        <Machine node={node} />
      </div>
      <div className="stack">
        <section className="panel" aria-label="Resource usage">
          <Meters node={node} />
        </section>
        <Conditions node={node} />
        <Labels node={node} />
      </div>
    </div>
  );
}
