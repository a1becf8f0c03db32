// One machine: how it is and why, what runs on it, what it may use, and what its engines print.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useRef } from "react";
import { nodes, operations } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { Empty, PageHead } from "@/kit/Panel";
import { NodeStatus, Tag } from "@/kit/status";
import { Tabs } from "@/kit/Tabs";
import { Meters } from "@/pages/nodes/NodeRow";
import { holds } from "@/pages/nodes/offers";
import { Backends } from "@/pages/nodes/one/Backends";
import { Conditions, Machine } from "@/pages/nodes/one/Conditions";
import { Labels } from "@/pages/nodes/one/Labels";
import { Limits } from "@/pages/nodes/one/Limits";
import { Logs } from "@/pages/nodes/one/Logs";
import { Metrics } from "@/pages/nodes/one/Metrics";
import { Operations } from "@/pages/nodes/one/Operations";
import { Processes } from "@/pages/nodes/one/Processes";
import { Replicas } from "@/pages/nodes/one/Replicas";
import { operationByNode } from "@/pages/nodes/roster";
import type { TABS } from "@/pages/nodes/search";
import { isAgent, isHeard } from "@/pages/nodes/tally";
import { Under } from "@/pages/nodes/Under";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { adviceOf, hardwareOf, reasonOf } from "@/pages/nodes/words";
import "@/pages/nodes/nodes.css";
import "@/pages/nodes/one/node.css";

const LABELS: Record<(typeof TABS)[number], string> = {
  overview: "Overview",
  backends: "Backends",
  logs: "Logs",
  operations: "Operations",
};
const UP_FRONT = new Set(["approve", "drain", "resume"]);

export default function NodePage() {
  const { node: wanted } = useParams({ from: "/nodes/$node" });
  const asked = useQuery(nodes);
  const shown = useRef({ wanted: "", name: "" });
  return (
    <>
      <p className="small">
        <Link to="/nodes">All nodes</Link>
      </p>
      <Answered query={asked}>
        {(all) => {
          const found = all.find((node) => node.id === wanted) ?? all.find((node) => node.name === wanted);
          if (found) {
            shown.current = { wanted, name: found.name };
            return <Page key={found.id} node={found} />;
          }
          if (shown.current.wanted === wanted) return <Removed name={shown.current.name} />;
          return (
            <Empty title={`There is no node ${wanted}.`}>
              It was removed, or never joined. <Link to="/nodes">All nodes</Link> shows those that are there.
            </Empty>
          );
        }}
      </Answered>
    </>
  );
}

/** For a node that went while its page was open. */
function Removed({ name }: { name: string }) {
  return (
    <div role="status">
      <Empty title={`${name} was removed.`}>
        The node was removed from the cluster while this page was open. To come back, its worker needs a new
        join token. <Link to="/nodes">All nodes</Link>
      </Empty>
    </div>
  );
}

function Page({ node }: { node: NodeOut }) {
  const { tab = "overview" } = useSearch({ from: "/nodes/$node" });
  const { data: going } = useQuery(operations);
  const operation = operationByNode(going ?? []).get(node.id);
  return (
    <>
      <Head node={node} />
      <div className="stack">
        {operation && (
          <div className="panel">
            <Under operation={operation} node={node} />
          </div>
        )}
        {isAgent(node) ? (
          <AgentOverview node={node} />
        ) : (
          <Tabs label={`About ${node.name}`} tabs={LABELS} shown={tab}>
            {tab === "overview" && <Overview node={node} />}
            {tab === "backends" && <Backends node={node} />}
            {tab === "logs" && <Logs node={node} />}
            {tab === "operations" && <Operations node={node} />}
          </Tabs>
        )}
      </div>
    </>
  );
}

function Head({ node }: { node: NodeOut }) {
  const navigate = useNavigate();
  const actions = useNodeActions(node, () => void navigate({ to: "/nodes" }));
  return (
    <>
      <PageHead
        title={node.name}
        note={
          <>
            <p className="row">
              <NodeStatus status={node.status} reason={node.status_reason} />
              {isAgent(node) && <Tag title="It runs agents, and no engines.">agent</Tag>}
              <span aria-live="polite">{reasonOf(node)}</span>
              {!isHeard(node) && node.last_heartbeat && (
                <span>
                  · last heard <Ago at={node.last_heartbeat} />
                </span>
              )}
            </p>
            {adviceOf(node) && <p>{adviceOf(node)}</p>}
            <p className="small">{hardwareOf(node)}</p>
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
          label={`More about ${node.name}`}
          items={actions.items.filter((_, place) => !UP_FRONT.has(actions.offers[place]?.id ?? ""))}
        />
      </PageHead>
      {actions.dialog}
    </>
  );
}

function Overview({ node }: { node: NodeOut }) {
  const isReachable = holds(node, "alive") && holds(node, "on_bus");
  return (
    <div className="node-overview">
      <div className="stack">
        <Metrics node={node} />
        <Replicas node={node} />
        {isReachable && <Processes node={node} />}
        <Machine node={node} />
      </div>
      <div className="stack">
        <section className="panel" aria-label="How full it is">
          <Meters node={node} />
        </section>
        <Conditions node={node} />
        <Limits node={node} />
        <Labels node={node} />
      </div>
    </div>
  );
}

/** An agent node runs no engines: it has no replicas, backends, VRAM budget or slots. */
function AgentOverview({ node }: { node: NodeOut }) {
  return (
    <div className="node-overview">
      <div className="stack">
        <Metrics node={node} />
        <Machine node={node} />
      </div>
      <div className="stack">
        <section className="panel" aria-label="How full it is">
          <Meters node={node} />
        </section>
        <Conditions node={node} />
        <Labels node={node} />
      </div>
    </div>
  );
}
