"""Stores replicas: read whole, marked to be stopped, and deleted once their process has ended; `store/loads.py`
inserts them.

Guarantees: `mark_unloading`, `mark_stale` and `unload_strays` are the only ways to `unloading` for a loaded replica,
and a row in that state is deleted by `remove_stopped` (its worker has acknowledged the stop), or with its node. A
transaction that holds replicas waits for nothing else: they are locked last, in one order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, delete, func, select, text, tuple_, update

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.model_schema import replica_use
from corral.store.schema import NOW, nodes, replicas


def _select_replicas() -> Select[Any]:
    """Select replicas with their use from the frontends' unexpired leases."""
    use = (
        select(
            replica_use.c.replica_id,
            func.sum(replica_use.c.in_flight).filter(replica_use.c.expires_at > func.corral_now()).label("in_flight"),
            func.max(replica_use.c.last_used_at).label("last_used_at"),
        )
        .group_by(replica_use.c.replica_id)
        .subquery()
    )
    return select(replicas, use.c.in_flight, use.c.last_used_at).join_from(
        replicas, use, use.c.replica_id == replicas.c.id, isouter=True
    )


async def list_replicas(tx: Transaction, node_id: NodeId | None = None, *, model: str | None = None) -> list[Replica]:
    statement = _select_replicas().order_by(replicas.c.model, replicas.c.node_id, replicas.c.replica_index)
    if node_id is not None:
        statement = statement.where(replicas.c.node_id == node_id)
    if model is not None:
        statement = statement.where(replicas.c.model == model)
    return [_to_replica(row) for row in await tx.execute(statement)]


async def list_existing(tx: Transaction, replica_ids: Collection[str]) -> list[Replica]:
    """Return those of these replicas whose rows exist, whatever their state."""
    if not replica_ids:
        return []
    rows = await tx.execute(_select_replicas().where(replicas.c.id.in_(sorted(replica_ids))))
    return [_to_replica(row) for row in rows]


# A process: model, index, address and run hash.
RunningKey = tuple[str, int, str, str]
# Rows are locked in one order: two transactions that remove the same ones wait for each other.
_IN_ORDER = (replicas.c.node_id, replicas.c.model, replicas.c.replica_index)


async def remove_replicas(tx: Transaction, node_id: NodeId, reason: str) -> int:
    """Delete replicas with their reservations. Each model that lost some gets one event, in the same transaction.

    An unloading replica stays until its worker reports its end: only the worker knows, and the process may come back
    with its node.
    """
    selected = _select_on_node(node_id).where(replicas.c.state != ReplicaState.UNLOADING)
    return await _remove(tx, node_id, selected, reason)


async def remove_not_running(tx: Transaction, node_id: NodeId, running: Collection[RunningKey], reason: str) -> int:
    """Delete the loaded replicas of a node, except for processes that still run there as their row says. Loads in
    progress stay, too: their worker goes on with them."""
    selected = _select_on_node(node_id).where(replicas.c.state == ReplicaState.LOADED)
    if running:
        columns = tuple_(replicas.c.model, replicas.c.replica_index, replicas.c.address, replicas.c.revision)
        selected = selected.where(columns.not_in(sorted(set(running))))
    return await _remove(tx, node_id, selected, reason)


def _select_on_node(node_id: NodeId) -> Select[Any]:
    return select(replicas.c.id).where(replicas.c.node_id == node_id).order_by(*_IN_ORDER).with_for_update()


async def _remove(tx: Transaction, node_id: NodeId, selected: Select[Any], reason: str) -> int:
    gone_rows = await tx.execute(
        delete(replicas).where(replicas.c.id.in_(selected)).returning(replicas.c.id, replicas.c.model)
    )
    rows = list(gone_rows)
    await release_reservations(tx, [str(row.id) for row in rows])
    counts = Counter(row.model for row in rows)
    await outbox.append_many(
        tx,
        "replica.removed",
        [
            (name, {"node_id": node_id, "model": name, "count": count, "index": None, "reason": reason})
            for name, count in sorted(counts.items())
        ],
    )
    return counts.total()


async def remove_ended_processes(
    tx: Transaction, ended: Collection[tuple[NodeId, str, int]], reason: str, *, may_return: bool = False
) -> int:
    """Delete exactly the replicas of these processes, each a node, a model and an index, in one statement.

    `may_return`: they were not stopped on purpose, so their worker may restart them at the same address.
    """
    if not ended:
        return 0
    columns = tuple_(*_IN_ORDER)
    selected = select(replicas.c.id).where(columns.in_(sorted(set(ended)))).order_by(*_IN_ORDER).with_for_update()
    ended_rows = await tx.execute(
        delete(replicas).where(replicas.c.id.in_(selected)).returning(replicas.c.id, replicas.c.address, *_IN_ORDER)
    )
    rows = sorted(ended_rows, key=lambda row: (str(row.node_id), row.model, row.replica_index))
    await release_reservations(tx, [str(row.id) for row in rows])
    await append_removed_rows(tx, rows, reason, has_ended=not may_return)
    return len(rows)


def _to_replica(row: Any) -> Replica:
    return Replica(
        id=row.id,
        node_id=NodeId(row.node_id),
        model=row.model,
        index=row.replica_index,
        state=ReplicaState(row.state),
        address=row.address,
        revision=row.revision,
        engine_key=row.engine_key,
        backend=row.backend,
        version=row.version,
        operation_id=row.operation_id,
        vram_bytes=row.vram_bytes,
        ram_bytes=row.ram_bytes,
        threads=row.threads,
        load_s=row.load_s,
        loaded_at=row.loaded_at,
        in_flight=int(row.in_flight or 0),
        last_used_at=row.last_used_at,
        stop_reason=row.stop_reason,
        stop_attempts=row.stop_attempts,
        stop_problem=row.stop_problem,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


# --- the one way out ---

# How long a replica may finish its running requests.
GRACE_S = 30.0
# The frontends write their use every two seconds: so long after a mark it is complete.
_SETTLED_S = 2.5
# A replica that was not used for so long need not be waited for.
_UNUSED_S = 60.0

RETURNING = "RETURNING r.id::text AS id, r.node_id::text AS node_id, r.model, r.replica_index, r.state, r.revision"
_RELEASE = text("DELETE FROM reservations WHERE holder = ANY(:holders)")

_UNLOAD = text(f"""
    WITH mine AS (
        SELECT r.id FROM replicas r
         WHERE r.id = ANY(CAST(:ids AS uuid[])) AND r.state <> 'unloading'
           AND (NOT :only_idle OR (r.state = 'loaded' AND NOT EXISTS (
                    SELECT 1 FROM replica_use u
                     WHERE u.replica_id = r.id AND u.in_flight > 0 AND u.expires_at > corral_now())))
         ORDER BY r.node_id, r.model, r.replica_index
           FOR UPDATE OF r
    )
    UPDATE replicas r SET
        state = 'unloading', stop_reason = :reason, stop_attempts = 0, stop_problem = '',
        stop_due_at = corral_now() + make_interval(secs => CASE WHEN r.state = 'loaded' THEN :grace_s ELSE 0 END),
        updated_at = corral_now()
      FROM mine WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it


async def mark_unloading(
    tx: Transaction,
    replica_ids: Collection[str],
    reason: str,
    *,
    only_idle: bool = False,
    grace_s: float = GRACE_S,
) -> list[str]:
    """Mark replicas as unloading; return the ids of those that were not unloading already.

    From now on they get no request. Running requests may be finished within the grace. `only_idle`: leave out
    replicas that are in use at this moment.
    """
    if not replica_ids:
        return []
    parameters = {"ids": sorted(replica_ids), "reason": reason, "only_idle": only_idle, "grace_s": grace_s}
    rows = list(await tx.execute(_UNLOAD, parameters))
    await release_reservations(tx, [row.id for row in rows])
    await append_changed_rows(tx, rows)
    return [row.id for row in rows]


async def mark_stale(tx: Transaction, model: str, run_hash: str | None, reason: str = "the model was changed") -> int:
    """Unload replicas with another run hash (None: all of them); return their number. Models are locked before
    replicas: the caller holds the model's row."""
    selected = select(replicas.c.id).where(replicas.c.model == model, replicas.c.state != ReplicaState.UNLOADING)
    if run_hash is not None:
        selected = selected.where(replicas.c.revision != run_hash)
    return len(await mark_unloading(tx, [row.id for row in await tx.execute(selected)], reason))


_STRAY = text("""
    SELECT r.id::text AS id, m.name IS NULL AS is_unknown, m.run_hash <> r.revision AS is_stale
      FROM replicas r
      LEFT JOIN models m ON m.name = r.model
      LEFT JOIN operations o ON o.id = r.operation_id
     WHERE r.state <> 'unloading'
       AND (m.name IS NULL OR m.run_hash <> r.revision
            OR (r.state IN ('staging', 'loading') AND r.updated_at < corral_now() - make_interval(secs => 60)
                AND (o.id IS NULL OR o.state NOT IN ('queued', 'running', 'waiting_on_nodes'))))
""")


async def unload_strays(tx: Transaction) -> int:
    """Unload stray replicas: of models that are deleted or edited, and of loads that have ended without a report."""
    reasons: dict[str, list[str]] = {}
    for row in await tx.execute(_STRAY):
        cause = "removed" if row.is_unknown else "edited" if row.is_stale else ""
        reasons.setdefault(f"The model was {cause}." if cause else "Its load has ended.", []).append(row.id)
    return sum([len(await mark_unloading(tx, ids, reason)) for reason, ids in sorted(reasons.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedStop:
    """A replica whose engine process this frontend has to end now, as claimed in PostgreSQL, with its node's name."""

    replica: Replica
    node_name: str


# A row is claimed when its time has come, or earlier when no request uses it any more; a job that is still running, or
# still needs a stop command, is stopped first by its operation, else it would restart the ended process.
_CLAIM_STOPS = text("""
    WITH due AS (
        SELECT r.id FROM replicas r
         WHERE r.state = 'unloading'
           AND (r.stop_due_at <= corral_now()
                OR (r.stop_attempts = 0
                    AND NOT EXISTS (SELECT 1 FROM replica_use u WHERE u.replica_id = r.id AND u.in_flight > 0
                                       AND u.expires_at > corral_now())
                    AND (r.updated_at <= corral_now() - make_interval(secs => :settled_s)
                         OR NOT EXISTS (SELECT 1 FROM replica_use u WHERE u.replica_id = r.id
                                           AND u.last_used_at > corral_now() - make_interval(secs => :unused_s)))))
           AND NOT EXISTS (SELECT 1 FROM operation_targets t JOIN operations o ON o.id = t.operation_id
                            WHERE t.operation_id = r.operation_id AND t.node = r.node_id
                              AND (t.stop_wanted OR (t.state IN ('queued', 'working', 'unconfirmed')
                                                     AND o.state IN ('queued', 'running', 'waiting_on_nodes'))))
         ORDER BY r.stop_due_at, r.id
         LIMIT :limit
           FOR UPDATE OF r SKIP LOCKED
    )
    UPDATE replicas r SET stop_attempts = r.stop_attempts + 1,
           stop_due_at = corral_now() + make_interval(secs => :lease_s)
      FROM due WHERE r.id = due.id
    RETURNING r.id::text AS id
""")


async def claim_stops(tx: Transaction, *, limit: int, lease_s: float) -> list[ClaimedStop]:
    """Claim rows whose processes this frontend is to stop; no other frontend takes them until the lease is over."""
    parameters = {"limit": limit, "lease_s": lease_s, "settled_s": _SETTLED_S, "unused_s": _UNUSED_S}
    claimed = [row.id for row in await tx.execute(_CLAIM_STOPS, parameters)]
    if not claimed:
        return []
    rows = await tx.execute(
        _select_replicas()
        .add_columns(nodes.c.name)
        .join(nodes, nodes.c.id == replicas.c.node_id)
        .where(replicas.c.id.in_(claimed))
    )
    return [ClaimedStop(replica=_to_replica(row), node_name=row.name) for row in rows]


async def remove_stopped(tx: Transaction, replica: Replica, reason: str) -> bool:
    """Delete exactly this row, because its process has ended. A row that was changed or replaced since stays."""
    deleted = await tx.execute(
        delete(replicas)
        .where(
            replicas.c.id == replica.id,
            replicas.c.state == ReplicaState.UNLOADING,
            replicas.c.address == replica.address,
            replicas.c.revision == replica.revision,
        )
        .returning(replicas.c.id, replicas.c.address, *_IN_ORDER)
    )
    rows = list(deleted)
    await append_removed_rows(tx, rows, reason, has_ended=True)
    return bool(rows)


async def hasten_stops(tx: Transaction, node_ids: Collection[NodeId]) -> None:
    """Make the stops on nodes that are back due now."""
    if node_ids:
        await tx.execute(
            update(replicas)
            .where(
                replicas.c.node_id.in_(list(node_ids)),
                replicas.c.state == ReplicaState.UNLOADING,
                replicas.c.stop_problem != "",
                replicas.c.stop_due_at > func.corral_now(),
            )
            .values(stop_due_at=NOW)
        )


async def postpone_stop(tx: Transaction, replica: Replica, problem: str, pause_s: float) -> None:
    """Record why a stop failed, and when to try again."""
    await tx.execute(
        update(replicas)
        .where(replicas.c.id == replica.id, replicas.c.state == ReplicaState.UNLOADING)
        .values(stop_problem=problem[:240], stop_due_at=func.corral_now() + _make_interval(pause_s), updated_at=NOW)
    )


async def release_reservations(tx: Transaction, holders: Collection[str]) -> None:
    """Delete the reservations of these holders on all nodes."""
    if holders:
        await tx.execute(_RELEASE, {"holders": list(holders)})


def _make_interval(seconds: float) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, seconds)


async def append_changed_rows(tx: Transaction, rows: Iterable[Any]) -> None:
    """Append events for changed replicas; `rows` as `RETURNING` has them."""
    await outbox.append_many(
        tx,
        "replica.changed",
        [
            (
                row.model,
                {"id": str(row.id), "node_id": str(row.node_id), "index": row.replica_index, "state": str(row.state)},
            )
            for row in sorted(rows, key=lambda row: (row.model, str(row.id)))
        ],
    )


async def append_changed_replicas(tx: Transaction, changed: Iterable[Replica]) -> None:
    await outbox.append_many(
        tx,
        "replica.changed",
        [
            (one.model, {"id": one.id, "node_id": one.node_id, "index": one.index, "state": str(one.state)})
            for one in changed
        ],
    )


async def append_removed_rows(tx: Transaction, rows: Iterable[Any], reason: str, *, has_ended: bool = False) -> None:
    """Append events for removed replicas. `has_ended`: their processes have ended; then the event says where those
    were."""
    await outbox.append_many(
        tx,
        "replica.removed",
        [
            (
                row.model,
                {
                    "id": str(row.id),
                    "node_id": str(row.node_id),
                    "model": row.model,
                    "count": 1,
                    "index": row.replica_index,
                    "reason": reason,
                }
                | ({"address": row.address} if has_ended else {}),
            )
            for row in rows
        ],
    )


# Only the newest events are read: the query is about the last moments. A replica that was loaded at the same place
# afterwards may well have the same address.
_ENDED = text("""
    WITH newest AS (SELECT * FROM outbox ORDER BY number DESC LIMIT 5000)
    SELECT o.key AS model, (o.data ->> 'index')::integer AS place, o.data ->> 'address' AS address
      FROM newest o
     WHERE o.kind = 'replica.removed' AND o.data ? 'address' AND o.data ->> 'node_id' = :node
       AND o.at > corral_now() - make_interval(secs => :within_s)
       AND NOT EXISTS (SELECT 1 FROM newest later
                        WHERE later.kind = 'replica.changed' AND later.key = o.key AND later.number > o.number
                          AND later.data ->> 'state' = 'loaded' AND later.data ->> 'node_id' = :node
                          AND later.data ->> 'index' = o.data ->> 'index')
""")


async def list_just_ended(tx: Transaction, node_id: NodeId, within_s: float) -> set[tuple[str, int, str]]:
    """Return processes of a node that have ended a moment ago: model, index and address."""
    rows = await tx.execute(_ENDED, {"node": node_id, "within_s": within_s})
    return {(row.model, row.place, row.address) for row in rows}


_SETTLING = text("""
    WITH newest AS (SELECT * FROM outbox ORDER BY number DESC LIMIT 5000)
    SELECT DISTINCT n.id::text AS id
      FROM newest o JOIN nodes n ON n.id::text = o.data ->> 'node_id'
     WHERE o.kind = 'replica.removed' AND o.data ? 'address'
       AND o.at > n.last_heartbeat_at - make_interval(secs => :late_s)
""")
# A heartbeat is written about a second after the machine was read.
_BEAT_LATE_S = 1.5


async def list_settling(tx: Transaction) -> frozenset[NodeId]:
    """Return nodes on which a process has ended since their last reading of free memory."""
    rows = await tx.execute(_SETTLING, {"late_s": _BEAT_LATE_S})
    return frozenset(NodeId(row.id) for row in rows)


_RETURNING = text("""
    WITH newest AS (SELECT * FROM outbox ORDER BY number DESC LIMIT 5000)
    SELECT DISTINCT o.data ->> 'node_id' AS id FROM newest o
     WHERE o.kind = 'replica.removed' AND o.key = :model AND NOT o.data ? 'address'
       AND o.at > corral_now() - make_interval(secs => :within_s)
""")


async def list_returning(tx: Transaction, model: str, within_s: float) -> frozenset[NodeId]:
    """Return nodes that lost a replica of the model lately without a stop: their workers may restart it."""
    rows = await tx.execute(_RETURNING, {"model": model, "within_s": within_s})
    return frozenset(NodeId(row.id) for row in rows)
