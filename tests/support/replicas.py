"""Rows of the registry that tests need without a load that makes them."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import insert as plain_insert
from sqlalchemy.dialects.postgresql import insert

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.node import NodeId
from corral.domain.replica import Replica
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.store.schema import NOW, replicas, reservations

_ids = SystemIdGenerator()
_clock = SystemClock()


async def insert_replica(tx: Transaction, replica: Replica) -> None:
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


async def insert_reservation(tx: Transaction, node_id: NodeId, holder: str, vram_bytes: int) -> None:
    """Set VRAM of a node aside, as placing a replica does."""
    values = {"id": _ids.new_id(), "node_id": node_id, "holder": holder, "vram_bytes": vram_bytes}
    await tx.execute(plain_insert(reservations).values(values))


async def insert_rule_backoff(tx: Transaction, model: str, for_s: float) -> None:
    """Leave a rule alone for some seconds, as the scaler does when there was no capacity for it."""
    await rule_store.write_backoffs(tx, {model: (1, _clock.wall() + timedelta(seconds=for_s))})
