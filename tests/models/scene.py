"""Models in a real registry: made, changed and looked at as the flows do."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from corral.adapters.system import SystemIdGenerator
from corral.domain.model import Model, ModelConfig
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.models import catalog
from corral.policy.models.configuration import from_mapping
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.support.replicas import insert_replica

SHA = "ab" * 32
_ids = SystemIdGenerator()


def config(name: str = "chat", **changes: Any) -> ModelConfig:
    return from_mapping({"name": name, "backend": "fake"} | changes)


async def made(database: Database, name: str = "chat", **changes: Any) -> Model:
    async with database.transaction() as tx:
        return (await catalog.create(tx, config(name, **changes), "test")).model


async def read(database: Database, name: str = "chat") -> Model | None:
    async with database.transaction() as tx:
        return await store.find_model(tx, name)


async def a_node(database: Database, name: str = "n") -> NodeId:
    node_id = NodeId(_ids.new_id())
    values = {
        "id": node_id, "name": name, "node_type": "backend", "credential_hash": _ids.new_id(), "boot_id": "b",
    }  # fmt: skip
    async with database.transaction() as tx:
        await node_store.insert_node(tx, values, 60.0)
    return node_id


async def a_replica(
    database: Database, node: NodeId, model: Model, index: int = 0, state: ReplicaState = ReplicaState.LOADED
) -> None:
    async with database.transaction() as tx:
        replica = Replica(
            id=_ids.new_id(), node_id=node, model=model.name, index=index, state=state, revision=model.run_hash
        )
        await insert_replica(tx, replica)


async def states(database: Database, model: str = "chat") -> dict[int, tuple[str, str]]:
    """Index to state and reason."""
    async with database.transaction() as tx:
        found = await replica_store.list_replicas(tx, model=model)
    return {one.index: (str(one.state), one.stop_reason) for one in found}


async def a_blob(database: Database, sha256: str = SHA, size_bytes: int = 7) -> None:
    async with database.transaction() as tx:
        await tx.execute(
            text("INSERT INTO blobs (sha256, size_bytes, chunks) VALUES (:sha256, :size, '')"),
            {"sha256": sha256, "size": size_bytes},
        )


async def staged_on(database: Database, node: NodeId, model: str) -> None:
    async with database.transaction() as tx:
        await tx.execute(
            text("INSERT INTO staged_models (node_id, model) VALUES (CAST(:node AS uuid), :model)"),
            {"node": node, "model": model},
        )


async def list_pending_removals(database: Database) -> list[tuple[str, str]]:
    async with database.transaction() as tx:
        rows = await tx.execute(text("SELECT node_id::text AS node, model FROM model_removals ORDER BY model"))
        return [(row.node, row.model) for row in rows]


async def list_event_data(database: Database, kind: str) -> list[tuple[str, Any]]:
    async with database.transaction() as tx:
        rows = await tx.execute(text("SELECT key, data FROM outbox WHERE kind = :kind ORDER BY number"), {"kind": kind})
        return [(row.key, row.data) for row in rows]
