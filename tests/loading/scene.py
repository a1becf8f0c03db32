"""Models in the registry, and what tests of loads read and write there."""

from __future__ import annotations

from typing import Any

from corral.adapters.system import SystemIdGenerator
from corral.domain.model import FilePart, Model, ModelConfig, ModelFile
from corral.domain.node import NodeId
from corral.domain.operation import Operation, OperationKind
from corral.domain.replica import Replica, ReplicaState
from corral.loading.admission import ModelOperationSpec
from corral.models import catalog as model_flow
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.loading.machines import LoadFrontend
from tests.operations.scene import sql
from tests.support.replicas import insert_replica

ids = SystemIdGenerator()


async def put_model(database: Database, name: str = "chat", *, files: tuple[str, ...] = (), **more: Any) -> Model:
    config = ModelConfig(
        name=name,
        backend=more.pop("backend", "engine"),
        files=tuple(ModelFile(path=path, parts=(FilePart(uri=f"https://files/{path}"),)) for path in files),
        **more,
    )
    async with database.transaction() as tx:
        return (await model_flow.create(tx, config, "ann")).model


async def edit(database: Database, name: str, **change: Any) -> None:
    async with database.transaction() as tx:
        await model_flow.patch(tx, name, change, "ann")


async def ask(
    frontend: LoadFrontend, model: str = "chat", kind: str = "load", actor: str = "ann", **more: Any
) -> Operation:
    queue_behind = more.pop("queue_behind", False)
    spec = ModelOperationSpec(kind=OperationKind(f"model_{kind}"), model=model, **more)
    operation: Operation = (await frontend.loads.admit(spec, actor, queue_behind=queue_behind)).operation
    return operation


async def rows(database: Database, model: str | None = None) -> list[Replica]:
    async with database.transaction() as tx:
        return await replica_store.list_replicas(tx, model=model)


async def states(database: Database, model: str | None = None) -> list[str]:
    return [str(row.state) for row in await rows(database, model)]


async def reserved(database: Database) -> list[Any]:
    return await sql(database, "SELECT * FROM reservations")


async def put_loaded(database: Database, node: str, model: Model, index: int = 0, **more: Any) -> Replica:
    """A replica that is loaded and confirmed, long ago."""
    values: dict[str, Any] = {
        "address": f"127.0.0.1:{8000 + index}",
        "revision": model.run_hash,
        "backend": "cpu-engine",
    } | more
    replica = Replica(
        id=ids.new_id(),
        node_id=NodeId(node),
        model=model.name,
        index=index,
        state=ReplicaState.LOADED,
        **values,
    )
    async with database.transaction() as tx:
        await insert_replica(tx, replica)
    await sql(
        database,
        "UPDATE replicas SET loaded_at = corral_now() - interval '1 hour', confirmed_at = corral_now()"
        " WHERE id = CAST(:id AS uuid)",
        id=replica.id,
    )
    return replica


async def use(database: Database, replica: Replica, in_flight: int = 1) -> None:
    """A frontend is sending it requests."""
    await sql(
        database,
        "INSERT INTO replica_use (replica_id, frontend_id, in_flight, last_used_at, expires_at)"
        " VALUES (CAST(:id AS uuid), 'frontend-9', :n, corral_now(), corral_now() + interval '15 s')"
        " ON CONFLICT (replica_id, frontend_id) DO UPDATE SET in_flight = excluded.in_flight",
        id=replica.id,
        n=in_flight,
    )
