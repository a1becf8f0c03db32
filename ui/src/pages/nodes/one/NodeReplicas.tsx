// The replicas on this node, each with its current load.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { live } from "@/api/queries";
import type { LiveReplicaOut, NodeOut, ReplicaOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { ReplicaState, Tag } from "@/kit/status";
import { ACTIONS, rightColumn, Table as Sheet } from "@/kit/Table";
import { hasCurrentHeartbeat } from "@/pages/nodes/fleetSummary";
import { replicasByNode, sumInFlight } from "@/pages/nodes/nodeList";
import { replicasQuery } from "@/pages/nodes/one/queries";
import { UnloadFromNodeDialog } from "@/pages/nodes/one/UnloadFromNodeDialog";
import { duration, formatCount, plural } from "@/text/format";
import { EXCLUDED } from "@/text/stateWords.gen";

const COLUMNS = [
  "Model",
  "State",
  rightColumn("In flight"),
  rightColumn("Tokens/s"),
  rightColumn("First byte"),
  "Last used",
  ACTIONS,
];

export function NodeReplicas({ node }: { node: NodeOut }) {
  const query = useQuery(replicasQuery(node.id));
  const { data: present } = useQuery(live);
  const inFlight = sumInFlight(replicasByNode(present).get(node.name) ?? []);
  return (
    <Panel
      title="Replicas"
      note={query.data && query.data.length > 0 && `${plural(inFlight, "request")} in flight.`}
    >
      <QueryView query={query}>
        {(replicas) =>
          replicas.length === 0 ? (
            <EmptyState title="No models are loaded here.">
              {hasCurrentHeartbeat(node) ? (
                <>
                  <Link to="/models">Load one</Link>, or send a request: the first request loads it.
                </>
              ) : (
                "Nothing is loaded on an unreachable node."
              )}
            </EmptyState>
          ) : (
            <Table node={node} replicas={replicas} />
          )
        }
      </QueryView>
    </Panel>
  );
}

function Table({ node, replicas }: { node: NodeOut; replicas: ReplicaOut[] }) {
  const [leaving, leave] = useState<string | null>(null);
  const { data: present } = useQuery(live);
  const liveOf = (replica: ReplicaOut) =>
    present?.models
      .find((model) => model.name === replica.model_name)
      ?.replicas.find((one) => one.node === node.name && one.index === replica.replica_index);
  const countInFlight = (model: string) =>
    replicas
      .filter((one) => one.model_name === model)
      .reduce((sum, one) => sum + (liveOf(one)?.in_flight ?? one.in_flight), 0);
  return (
    <>
      <Sheet columns={COLUMNS}>
        <tbody>
          {replicas.map((replica) => (
            <ReplicaRow
              key={replica.id}
              node={node}
              replica={replica}
              present={liveOf(replica)}
              onLeave={() => leave(replica.model_name)}
            />
          ))}
        </tbody>
      </Sheet>
      {leaving && (
        <UnloadFromNodeDialog
          node={node}
          model={leaving}
          inFlight={countInFlight(leaving)}
          onClose={() => leave(null)}
        />
      )}
    </>
  );
}

interface ReplicaRowProps {
  node: NodeOut;
  replica: ReplicaOut;
  present: LiveReplicaOut | undefined;
  onLeave: () => void;
}

function ReplicaRow({ node, replica, present, onLeave }: ReplicaRowProps) {
  const key = `${replica.model_name}#${replica.replica_index}`;
  const isResting = (present?.breaker ?? "closed") !== "closed";
  return (
    <tr>
      <td>
        <Link to="/models/$model" params={{ model: replica.model_name }}>
          {replica.model_name}
        </Link>
        {replica.replica_index > 0 && <span className="number faint"> #{replica.replica_index}</span>}
      </td>
      <td>
        <span className="row">
          <ReplicaState state={replica.state} />
          {isResting && (
            <Tag tone="bad" title="Failed several times in a row; temporarily excluded from routing.">
              {EXCLUDED}
            </Tag>
          )}
        </span>
      </td>
      <td className="right number">{formatCount(present?.in_flight ?? replica.in_flight)}</td>
      <td className="right number">{formatCount(present?.pace?.tokens_per_s ?? 0)}</td>
      <td className="right number">{duration(present?.pace?.first_byte_s?.p50)}</td>
      <td className="small">
        <RelativeTime at={replica.last_used} />
      </td>
      <td className="right">
        <span className="row node-end">
          <Link
            className="small"
            to="/nodes/$node"
            params={{ node: node.name }}
            search={{ tab: "logs", log: key }}
            aria-label={`Logs of ${key}`}
          >
            Logs
          </Link>
          <Button
            small
            kind="quiet"
            aria-label={`Unload ${key}`}
            disabled={replica.state === "unloading"}
            onClick={onLeave}
          >
            Unload
          </Button>
        </span>
      </td>
    </tr>
  );
}
