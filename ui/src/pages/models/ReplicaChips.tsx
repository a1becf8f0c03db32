// Replicas as chips: the node, and the state if it is not loaded.
import { Link } from "@tanstack/react-router";
import type { LiveOut, ModelOut } from "@/api/schema";
import { findLiveModel } from "@/pages/models/state";
import { findStateWord } from "@/text/stateWords";

const SHOWN_MAX = 8;

export function ReplicaChips({ model, live }: { model: ModelOut; live: LiveOut | undefined }) {
  const replicas = model.replicas ?? [];
  if (replicas.length === 0) return null;
  const busy = new Map(
    (findLiveModel(model.name, live)?.replicas ?? []).map((one) => [
      `${one.node} ${one.index}`,
      one.in_flight,
    ]),
  );
  return (
    <ul className="plain row models-chips" aria-label={`Replicas of ${model.name}`}>
      {replicas.slice(0, SHOWN_MAX).map((replica) => {
        const requests = busy.get(`${replica.node_name} ${replica.index}`) ?? 0;
        const state =
          replica.state === "loaded"
            ? replica.is_current
              ? ""
              : "old revision"
            : findStateWord("replica", replica.state);
        return (
          <li key={`${replica.node_id} ${replica.index}`}>
            <Link
              className={`models-chip ${replica.state}`}
              to="/nodes/$node"
              params={{ node: replica.node_name || replica.node_id }}
            >
              {replica.node_name || replica.node_id}
              {replica.index > 0 && <span className="number">#{replica.index}</span>}
              {state && <em>{state}</em>}
              {requests > 0 && <span className="number">{requests} in flight</span>}
            </Link>
          </li>
        );
      })}
      {replicas.length > SHOWN_MAX && <li className="small soft">and {replicas.length - SHOWN_MAX} more</li>}
    </ul>
  );
}
