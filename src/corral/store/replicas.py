"""Replicas, and the reservations of those to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.errors import Conflict
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.placing.fit import free_vram
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.model_schema import replica_use
from corral.store.schema import NOW, replicas, reservations


async def put_replica(tx: Transaction, replica: Replica) -> None:
    """Insert or update by node, model and index; an update keeps the row's id."""
    values = {
        "state": replica.state,
        "address": replica.address,
        "revision": replica.revision,
        "engine_key": replica.engine_key,
        "backend": replica.backend,
        "version": replica.version,
        "operation_id": replica.operation_id,
        "vram_bytes": replica.vram_bytes,
        "ram_bytes": replica.ram_bytes,
        "threads": replica.threads,
        "load_s": replica.load_s,
        "loaded_at": replica.loaded_at,
    }
    statement = insert(replicas).values(
        id=replica.id, node_id=replica.node_id, model=replica.model, replica_index=replica.index, **values
    )
    await tx.execute(
        statement.on_conflict_do_update(
            index_elements=["node_id", "model", "replica_index"], set_={**values, "updated_at": NOW}
        )
    )


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


# Rows are locked in one order, whoever removes which: two that remove the same ones wait for each other.
_IN_ORDER = (replicas.c.node_id, replicas.c.model, replicas.c.replica_index)


async def remove_replicas(
    tx: Transaction, node_id: NodeId, reason: str, *, model: str | None = None, index: int | None = None
) -> int:
    """The one way in which replica rows go. Each model that lost some gets one event, in the same transaction."""
    wanted = select(replicas.c.id).where(replicas.c.node_id == node_id).order_by(*_IN_ORDER).with_for_update()
    if model is not None:
        wanted = wanted.where(replicas.c.model == model)
    if index is not None:
        wanted = wanted.where(replicas.c.replica_index == index)
    rows = await tx.execute(delete(replicas).where(replicas.c.id.in_(wanted)).returning(replicas.c.model))
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


async def remove_ended(tx: Transaction, ended: Collection[tuple[NodeId, str, int]], reason: str) -> int:
    """The same for exactly these, each a node, a model and an index; in one statement."""
    if not ended:
        return 0
    place = tuple_(*_IN_ORDER)
    wanted = select(replicas.c.id).where(place.in_(sorted(set(ended)))).order_by(*_IN_ORDER).with_for_update()
    rows = await tx.execute(delete(replicas).where(replicas.c.id.in_(wanted)).returning(*_IN_ORDER))
    gone = sorted((str(row.node_id), row.model, row.replica_index) for row in rows)
    await outbox.append_many(
        tx,
        "replica.removed",
        [
            (model, {"node_id": node_id, "model": model, "count": 1, "index": index, "reason": reason})
            for node_id, model, index in gone
        ],
    )
    return len(gone)


async def mark_stale(tx: Transaction, model: str, run_hash: str | None, reason: str = "the model was changed") -> int:
    """Replicas of another run hash get no requests from this commit on, and are ended. None: every replica of it."""
    wanted = select(replicas.c.id).where(replicas.c.model == model, replicas.c.state != ReplicaState.UNLOADING)
    if run_hash is not None:
        wanted = wanted.where(replicas.c.revision != run_hash)
    rows = await tx.execute(
        update(replicas)
        .where(replicas.c.id.in_(wanted.order_by(*_IN_ORDER).with_for_update()))
        .values(state=ReplicaState.UNLOADING, stop_reason=reason, stop_due_at=NOW, updated_at=NOW)
        .returning(replicas.c.id, *_IN_ORDER)
    )
    marked = sorted((str(row.node_id), row.replica_index, str(row.id)) for row in rows)
    await outbox.append_many(
        tx,
        "replica.changed",
        [
            (model, {"id": one, "node_id": node_id, "index": index, "state": str(ReplicaState.UNLOADING)})
            for node_id, index, one in marked
        ],
    )
    return len(marked)


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
    )


async def reserve_vram(tx: Transaction, reservation_id: str, node_id: NodeId, holder: str, size_bytes: int) -> None:
    """Set VRAM aside for a load. Two that race wait for each other on the node's row; only what fits is granted.

    A holder that reserves again on the same node changes what it holds there.
    """
    if size_bytes == 0:
        return
    await node_store.lock_node(tx, node_id)
    await release_vram(tx, node_id, holder)
    node = await node_store.get_node(tx, node_id)
    free = free_vram(node)
    if free is None or free < size_bytes:
        raise Conflict(
            f"Node {node.name} has {free or 0} bytes of VRAM free, {size_bytes} are needed.", code="insufficient_vram"
        )
    await tx.execute(
        insert(reservations).values(id=reservation_id, node_id=node_id, holder=holder, vram_bytes=size_bytes)
    )


async def release_vram(tx: Transaction, node_id: NodeId, holder: str) -> None:
    """Give back what the holder reserved; nothing, if it holds nothing."""
    await tx.execute(delete(reservations).where(reservations.c.node_id == node_id, reservations.c.holder == holder))
