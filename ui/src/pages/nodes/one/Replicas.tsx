// What runs here: each replica with what it does now.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { live } from "@/api/queries";
import type { LiveReplica, NodeOut, ReplicaOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Empty, Panel } from "@/kit/Panel";
import { ReplicaState, Tag } from "@/kit/status";
import { ACTIONS, right, Table as Sheet } from "@/kit/Table";
import { replicasOf } from "@/pages/nodes/one/queries";
import { Unload } from "@/pages/nodes/one/Unload";
import { inFlightOf, replicasByNode } from "@/pages/nodes/roster";
import { isHeard } from "@/pages/nodes/tally";
import { count, duration, plural } from "@/text/format";

const COLUMNS = [
  "Model",
  "State",
  right("In flight"),
  right("Tokens/s"),
  right("First byte"),
  "Last used",
  ACTIONS,
];

export function Replicas({ node }: { node: NodeOut }) {
  const asked = useQuery(replicasOf(node.id));
  const { data: present } = useQuery(live);
  const inFlight = inFlightOf(replicasByNode(present).get(node.name) ?? []);
  return (
    <Panel
      title="Replicas"
      note={asked.data && asked.data.length > 0 && `${plural(inFlight, "request")} in flight.`}
    >
      <Answered query={asked}>
        {(replicas) =>
          replicas.length === 0 ? (
            <Empty title="No model is loaded here.">
              {isHeard(node) ? (
                <>
                  <Link to="/models">Load one</Link>, or ask for one: the first request loads it.
                </>
              ) : (
                "Nothing is loaded on a node that is away."
              )}
            </Empty>
          ) : (
            <Table node={node} replicas={replicas} />
          )
        }
      </Answered>
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
  const flying = (model: string) =>
    replicas
      .filter((one) => one.model_name === model)
      .reduce((sum, one) => sum + (liveOf(one)?.in_flight ?? one.in_flight), 0);
  return (
    <>
      <Sheet columns={COLUMNS}>
        <tbody>
          {replicas.map((replica) => (
            <Row
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
        <Unload node={node} model={leaving} inFlight={flying(leaving)} onClose={() => leave(null)} />
      )}
    </>
  );
}

interface RowProps {
  node: NodeOut;
  replica: ReplicaOut;
  present: LiveReplica | undefined;
  onLeave: () => void;
}

function Row({ node, replica, present, onLeave }: RowProps) {
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
            <Tag tone="bad" title="It failed several times in a row and gets no requests for a while.">
              resting
            </Tag>
          )}
        </span>
      </td>
      <td className="right number">{count(present?.in_flight ?? replica.in_flight)}</td>
      <td className="right number">{count(present?.pace?.tokens_per_s ?? 0)}</td>
      <td className="right number">{duration(present?.pace?.first_byte_s?.p50)}</td>
      <td className="small">
        <Ago at={replica.last_used} />
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
