// The replicas of a model with what they do now.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { LiveOut, ModelOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Empty, Panel } from "@/kit/Panel";
import { ReplicaState, Tag } from "@/kit/status";
import { ACTIONS, right, Table } from "@/kit/Table";
import { Unload } from "@/pages/models/dialogs";
import { inFlight, liveOf } from "@/pages/models/state";
import { bytes, count, duration } from "@/text/format";

const COLUMNS = [
  "Node",
  "State",
  right("In flight"),
  right("Tokens/s"),
  right("First byte"),
  right("Memory"),
  "Last used",
  ACTIONS,
];

type Place = NonNullable<ModelOut["replicas"]>[number];

export function Replicas({ model, live }: { model: ModelOut; live: LiveOut | undefined }) {
  const [leaving, leave] = useState<string | null>(null);
  const replicas = model.replicas ?? [];
  const shown = liveOf(model.name, live);
  const waiting = shown?.waiting ?? 0;
  return (
    <Panel
      title="Replicas"
      note={
        waiting
          ? `${waiting} requests wait for a replica.`
          : `${count(shown?.in_flight ?? 0)} requests in flight, ${count(shown?.pace?.tokens_per_s ?? 0)} tokens/s.`
      }
    >
      {replicas.length === 0 ? (
        <Empty title="It runs nowhere now.">Load it, or ask it something: the first request loads it.</Empty>
      ) : (
        <Table columns={COLUMNS}>
          <tbody>
            {replicas.map((replica) => (
              <Row
                key={`${replica.node_id} ${replica.index}`}
                model={model.name}
                replica={replica}
                live={shown?.replicas.find(
                  (one) => one.node === replica.node_name && one.index === replica.index,
                )}
                onLeave={() => leave(replica.node_name)}
              />
            ))}
          </tbody>
        </Table>
      )}
      {leaving && (
        <Unload
          model={model}
          node={leaving}
          busy={inFlight(model, live, leaving)}
          onClose={() => leave(null)}
        />
      )}
    </Panel>
  );
}

interface RowProps {
  model: string;
  replica: Place;
  live: LiveOut["models"][number]["replicas"][number] | undefined;
  onLeave: () => void;
}

function Row({ model, replica, live, onLeave }: RowProps) {
  const note = replica.stop_problem || replica.stop_reason;
  const isBroken = live?.breaker !== undefined && live.breaker !== "closed";
  return (
    <tr>
      <td>
        <Link to="/nodes/$node" params={{ node: replica.node_name || replica.node_id }}>
          {replica.node_name || replica.node_id}
        </Link>
        {replica.index > 0 && <span className="number faint"> #{replica.index}</span>}
      </td>
      <td>
        <span className="row">
          <ReplicaState state={replica.state} />
          {!replica.is_current && (
            <Tag tone="warn" title="It gets no requests, and ends when it has answered.">
              old revision
            </Tag>
          )}
          {isBroken && (
            <Tag tone="bad" title="It failed several times in a row and gets no requests for a while.">
              resting
            </Tag>
          )}
        </span>
        {note && <p className="small soft">{note}</p>}
      </td>
      <td className="right number">{count(live?.in_flight ?? replica.in_flight)}</td>
      <td className="right number">{count(live?.pace?.tokens_per_s ?? 0)}</td>
      <td className="right number">{duration(live?.pace?.first_byte_s?.p50)}</td>
      <td className="right number">{bytes(replica.vram_bytes || replica.ram_bytes)}</td>
      <td className="small">
        <Ago at={replica.last_used_at} />
      </td>
      <td className="right">
        <span className="row models-end">
          <Link
            className="small"
            to="/nodes/$node"
            params={{ node: replica.node_name || replica.node_id }}
            search={{ tab: "logs", log: `${model}#${replica.index}` }}
            aria-label={`Logs of ${model} on ${replica.node_name}, replica ${replica.index}`}
          >
            Logs
          </Link>
          <Button
            small
            kind="quiet"
            aria-label={`Unload ${model} from ${replica.node_name}, replica ${replica.index}`}
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
