"""Replicas: read whole, marked to be ended, and removed once their process is gone; `store/loads.py` makes them.

Guarantees: `mark_unloading`, `mark_stale` and `unload_strays` are the only ways to `unloading` for what was loaded, and
a row in that state goes by `remove_stopped` (its worker has acknowledged it), or with its node. Whoever holds replicas
waits for nothing else: they are locked last, in one order.
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


def _all() -> Select[Any]:
    """Replicas with what the frontends' unexpired leases say of their use."""
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
    statement = _all().order_by(replicas.c.model, replicas.c.node_id, replicas.c.replica_index)
    if node_id is not None:
        statement = statement.where(replicas.c.node_id == node_id)
    if model is not None:
        statement = statement.where(replicas.c.model == model)
    return [_to_replica(row) for row in await tx.execute(statement)]


async def list_existing(tx: Transaction, replica_ids: Collection[str]) -> list[Replica]:
    """Those of these whose rows are there, whatever their state."""
    if not replica_ids:
        return []
    rows = await tx.execute(_all().where(replicas.c.id.in_(sorted(replica_ids))))
    return [_to_replica(row) for row in rows]


# A process: model, index, address and run hash.
Running = tuple[str, int, str, str]
# Rows are locked in one order, whoever removes which: two that remove the same ones wait for each other.
_IN_ORDER = (replicas.c.node_id, replicas.c.model, replicas.c.replica_index)


async def remove_replicas(
    tx: Transaction,
    node_id: NodeId,
    reason: str,
    *,
    model: str | None = None,
    index: int | None = None,
) -> int:
    """Rows go with what was set aside for them. Each model that lost some gets one event, in the same transaction.

    What is to end stays until its worker says that it has: nobody else knows, and the process may come back with its
    node.
    """
    wanted = _on_node(node_id).where(replicas.c.state != ReplicaState.UNLOADING)
    if model is not None:
        wanted = wanted.where(replicas.c.model == model)
    if index is not None:
        wanted = wanted.where(replicas.c.replica_index == index)
    return await _remove(tx, node_id, wanted, reason, index=index)


async def remove_but(tx: Transaction, node_id: NodeId, running: Collection[Running], reason: str) -> int:
    """The same for what was loaded on a node, except for what still runs there as its row says. Loads that are under
    way stay, too: their worker goes on with them."""
    wanted = _on_node(node_id).where(replicas.c.state == ReplicaState.LOADED)
    if running:
        place = tuple_(replicas.c.model, replicas.c.replica_index, replicas.c.address, replicas.c.revision)
        wanted = wanted.where(place.not_in(sorted(set(running))))
    return await _remove(tx, node_id, wanted, reason)


def _on_node(node_id: NodeId) -> Select[Any]:
    return select(replicas.c.id).where(replicas.c.node_id == node_id).order_by(*_IN_ORDER).with_for_update()


async def _remove(
    tx: Transaction, node_id: NodeId, wanted: Select[Any], reason: str, *, index: int | None = None
) -> int:
    gone_rows = await tx.execute(
        delete(replicas).where(replicas.c.id.in_(wanted)).returning(replicas.c.id, replicas.c.model)
    )
    rows = list(gone_rows)
    await release(tx, [str(row.id) for row in rows])
    gone = Counter(row.model for row in rows)
    await outbox.append_many(
        tx,
        "replica.removed",
        [
            (name, {"node_id": node_id, "model": name, "count": count, "index": index, "reason": reason})
            for name, count in sorted(gone.items())
        ],
    )
    return gone.total()


async def remove_ended(
    tx: Transaction, ended: Collection[tuple[NodeId, str, int]], reason: str, *, may_return: bool = False
) -> int:
    """The same for exactly these, each a node, a model and an index; in one statement.

    `may_return`: nobody has ended them on purpose, so their worker may start them anew, at the same address.
    """
    if not ended:
        return 0
    place = tuple_(*_IN_ORDER)
    wanted = select(replicas.c.id).where(place.in_(sorted(set(ended)))).order_by(*_IN_ORDER).with_for_update()
    ended_rows = await tx.execute(
        delete(replicas).where(replicas.c.id.in_(wanted)).returning(replicas.c.id, replicas.c.address, *_IN_ORDER)
    )
    rows = sorted(ended_rows, key=lambda row: (str(row.node_id), row.model, row.replica_index))
    await release(tx, [str(row.id) for row in rows])
    await tell_removed(tx, rows, reason, has_ended=not may_return)
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

# How long a replica may finish what it is answering.
GRACE_S = 30.0
# The frontends write who uses a replica every two seconds: so long after a mark nothing is missing in it.
_SETTLED_S = 2.5
# One that nobody has used for so long need not be waited for.
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
    """These are to be ended; the ids of those that were not on their way out already.

    From now on they get no request. What they are answering may be finished within the grace. `only_idle`: leave out
    what somebody uses at this moment.
    """
    if not replica_ids:
        return []
    parameters = {"ids": sorted(replica_ids), "reason": reason, "only_idle": only_idle, "grace_s": grace_s}
    rows = list(await tx.execute(_UNLOAD, parameters))
    await release(tx, [row.id for row in rows])
    await tell_rows(tx, rows)
    return [row.id for row in rows]


async def mark_stale(tx: Transaction, model: str, run_hash: str | None, reason: str = "the model was changed") -> int:
    """Replicas that were loaded with another run hash (None: all of them) are ended. How many; models before replicas:
    the caller holds the model's row."""
    wanted = select(replicas.c.id).where(replicas.c.model == model, replicas.c.state != ReplicaState.UNLOADING)
    if run_hash is not None:
        wanted = wanted.where(replicas.c.revision != run_hash)
    return len(await mark_unloading(tx, [row.id for row in await tx.execute(wanted)], reason))


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
    """What slipped through: rows of models that are gone or edited, and of loads that have ended without a word."""
    reasons: dict[str, list[str]] = {}
    for row in await tx.execute(_STRAY):
        word = "removed" if row.is_unknown else "edited" if row.is_stale else ""
        reasons.setdefault(f"The model was {word}." if word else "Its load has ended.", []).append(row.id)
    return sum([len(await mark_unloading(tx, ids, reason)) for reason, ids in sorted(reasons.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A row whose process is to be ended now, as it is at this moment."""

    replica: Replica
    node_name: str


# A row is claimed when its time has come, or before that when nobody uses it any more; a job that is still at it, or
# has still to be told to stop, is told first by its operation, else it would start what was just ended.
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


async def claim_stops(tx: Transaction, *, limit: int, lease_s: float) -> list[Stop]:
    """Rows whose processes this frontend is to end; nobody else takes them until the lease is over."""
    parameters = {"limit": limit, "lease_s": lease_s, "settled_s": _SETTLED_S, "unused_s": _UNUSED_S}
    claimed = [row.id for row in await tx.execute(_CLAIM_STOPS, parameters)]
    if not claimed:
        return []
    rows = await tx.execute(
        _all().add_columns(nodes.c.name).join(nodes, nodes.c.id == replicas.c.node_id).where(replicas.c.id.in_(claimed))
    )
    return [Stop(replica=_to_replica(row), node_name=row.name) for row in rows]


async def remove_stopped(tx: Transaction, replica: Replica, reason: str) -> bool:
    """Its process has ended: exactly this row goes. One that has changed since, or taken its place, stays."""
    gone = await tx.execute(
        delete(replicas)
        .where(
            replicas.c.id == replica.id,
            replicas.c.state == ReplicaState.UNLOADING,
            replicas.c.address == replica.address,
            replicas.c.revision == replica.revision,
        )
        .returning(replicas.c.id, replicas.c.address, *_IN_ORDER)
    )
    rows = list(gone)
    await tell_removed(tx, rows, reason, has_ended=True)
    return bool(rows)


async def hasten_stops(tx: Transaction, node_ids: Collection[NodeId]) -> None:
    """These nodes are back: what could not be ended there is tried now."""
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


async def put_off_stop(tx: Transaction, replica: Replica, problem: str, pause_s: float) -> None:
    """It could not be ended: why, and when to try again."""
    await tx.execute(
        update(replicas)
        .where(replicas.c.id == replica.id, replicas.c.state == ReplicaState.UNLOADING)
        .values(stop_problem=problem[:240], stop_due_at=func.corral_now() + _seconds(pause_s), updated_at=NOW)
    )


async def release(tx: Transaction, holders: Collection[str]) -> None:
    """Give back what these have set aside, wherever that is."""
    if holders:
        await tx.execute(_RELEASE, {"holders": list(holders)})


def _seconds(seconds: float) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, seconds)


async def tell_rows(tx: Transaction, rows: Iterable[Any]) -> None:
    """`rows` as `RETURNING` has them."""
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


async def tell_changed(tx: Transaction, changed: Iterable[Replica]) -> None:
    await outbox.append_many(
        tx,
        "replica.changed",
        [
            (one.model, {"id": one.id, "node_id": one.node_id, "index": one.index, "state": str(one.state)})
            for one in changed
        ],
    )


async def tell_removed(tx: Transaction, rows: Iterable[Any], reason: str, *, has_ended: bool = False) -> None:
    """`has_ended`: their processes are known to be gone; then the event says where those were."""
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


# Only the newest events are looked at: what is asked about happened a moment ago. What was loaded at the same place
# afterwards may well have got the same address.
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
    """Processes of a node that are known to have ended a moment ago: model, index and address."""
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
    """Nodes on which a process has ended since they last said what is free."""
    rows = await tx.execute(_SETTLING, {"late_s": _BEAT_LATE_S})
    return frozenset(NodeId(row.id) for row in rows)


_RETURNING = text("""
    WITH newest AS (SELECT * FROM outbox ORDER BY number DESC LIMIT 5000)
    SELECT DISTINCT o.data ->> 'node_id' AS id FROM newest o
     WHERE o.kind = 'replica.removed' AND o.key = :model AND NOT o.data ? 'address'
       AND o.at > corral_now() - make_interval(secs => :within_s)
""")


async def list_returning(tx: Transaction, model: str, within_s: float) -> frozenset[NodeId]:
    """Nodes that lost a replica of it lately without anybody having ended it: their workers may start it anew."""
    rows = await tx.execute(_RETURNING, {"model": model, "within_s": within_s})
    return frozenset(NodeId(row.id) for row in rows)
