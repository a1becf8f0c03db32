// The replicas of a model with their current load.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { LiveOut, ModelOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { EmptyState, Panel } from "@/kit/Panel";
import { RelativeTime } from "@/kit/RelativeTime";
import { ReplicaState, Tag } from "@/kit/status";
import { ACTIONS, rightColumn, Table } from "@/kit/Table";
import { UnloadDialog } from "@/pages/models/dialogs";
import { countInFlight, findLiveModel } from "@/pages/models/state";
import { bytes, duration, formatCount, plural } from "@/text/format";
import { EXCLUDED } from "@/text/stateWords.gen";

const COLUMNS = [
  "Node",
  "State",
  rightColumn("In flight"),
  rightColumn("Tokens/s"),
  rightColumn("First byte"),
  rightColumn("Memory"),
  "Last used",
  ACTIONS,
];

type ReplicaEntry = NonNullable<ModelOut["replicas"]>[number];

export function ModelReplicas({ model, live }: { model: ModelOut; live: LiveOut | undefined }) {
  const [leaving, leave] = useState<string | null>(null);
  const replicas = model.replicas ?? [];
  const shown = findLiveModel(model.name, live);
  const waiting = shown?.waiting ?? 0;
  return (
    <Panel
      title="Replicas"
      note={
        waiting
          ? `${plural(waiting, "request")} queued.`
          : `${formatCount(shown?.in_flight ?? 0)} requests in flight, ${formatCount(shown?.pace?.tokens_per_s ?? 0)} tokens/s.`
      }
    >
      {replicas.length === 0 ? (
        <EmptyState title="No replicas.">Load it, or send a request: the first request loads it.</EmptyState>
      ) : (
        <Table columns={COLUMNS}>
          <tbody>
            {replicas.map((replica) => (
              <ReplicaRow
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
        <UnloadDialog
          model={model}
          node={leaving}
          busy={countInFlight(model, live, leaving)}
          onClose={() => leave(null)}
        />
      )}
    </Panel>
  );
}

interface ReplicaRowProps {
  model: string;
  replica: ReplicaEntry;
  live: LiveOut["models"][number]["replicas"][number] | undefined;
  onLeave: () => void;
}

function ReplicaRow({ model, replica, live, onLeave }: ReplicaRowProps) {
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
            <Tag tone="warn" title="Gets no new requests and stops when in-flight requests are done.">
              old revision
            </Tag>
          )}
          {isBroken && (
            <Tag tone="bad" title="Failed several times in a row; temporarily excluded from routing.">
              {EXCLUDED}
            </Tag>
          )}
        </span>
        {note && <p className="small soft">{note}</p>}
      </td>
      <td className="right number">{formatCount(live?.in_flight ?? replica.in_flight)}</td>
      <td className="right number">{formatCount(live?.pace?.tokens_per_s ?? 0)}</td>
      <td className="right number">{duration(live?.pace?.first_byte_s?.p50)}</td>
      <td className="right number">{bytes(replica.vram_bytes || replica.ram_bytes)}</td>
      <td className="small">
        <RelativeTime at={replica.last_used_at} />
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
