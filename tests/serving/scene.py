"""Models and replicas put into the registry by hand, and loads that happen when the test says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select, text, update

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.node import NodeId
from corral.domain.operation import OperationId, OperationKind, OperationState
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.routing.replica_pool import ReplicaPoolOptions, ReplicaPools
from corral.policy.serving.routing import RoutableNode
from corral.ports.runtime import Clock
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store.database import Database
from corral.store.model_schema import model_names, models
from corral.store.operations import NewOperation
from corral.store.replica_use import ServedModel
from corral.store.schema import operations, replicas
from tests.engines.engine_processes import KEY, Engine, running
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node
from tests.support.replicas import insert_replica

RUN_HASH = "1" * 64
_ids = SystemIdGenerator()


async def put_model(
    database: Database,
    name: str = "chat",
    *,
    run_hash: str = RUN_HASH,
    aliases: tuple[str, ...] = (),
    facts: dict[str, Any] | None = None,
    **config: Any,
) -> None:
    """A model as the catalog writes it, with its event. A second time: an edit."""
    written = {"name": name, "backend": "fake"} | config
    async with database.transaction() as tx:
        await tx.execute(delete(models).where(models.c.name == name))
        await tx.execute(insert(models).values(name=name, revision=1, run_hash=run_hash, config=written, facts=facts))
        await tx.execute(insert(model_names), [{"name": known, "model": name} for known in (name, *aliases)])
        await outbox.append(tx, "model.changed", name, {"run_hash": run_hash})


async def put_replica(
    database: Database, node_id: str, address: str, *, model: str = "chat", index: int = 0, **changes: Any
) -> Replica:
    replica = Replica(
        id=_ids.new_id(),
        node_id=NodeId(node_id),
        model=model,
        index=index,
        **({"state": ReplicaState.LOADED, "revision": RUN_HASH, "engine_key": KEY, "address": address} | changes),
    )
    async with database.transaction() as tx:
        await insert_replica(tx, replica)
        await outbox.append(tx, "replica.changed", model, {"id": replica.id, "node_id": node_id})
    return replica


def seats_with(
    replicas: Sequence[Replica],
    *,
    clock: Clock | None = None,
    options: ReplicaPoolOptions | None = None,
    **changes: Any,
) -> ReplicaPools:
    """A frontend's memory of one model with these replicas, each on a node of its own. No jitter."""
    clock = clock or SystemClock()
    seats = ReplicaPools(clock, lambda: 0.0, options)
    served = ServedModel(name="chat", names=("chat",), run_hash=RUN_HASH, created_at=clock.wall())
    places = [RoutableNode(id=one.node_id, name=f"node of {one.id}", is_open=True, labels={}) for one in replicas]
    seats.update_pool(replace(served, **changes), list(zip(replicas, places, strict=True)))
    return seats


async def list_rows(database: Database) -> list[Replica]:
    async with database.transaction() as tx:
        return await replica_store.list_replicas(tx)


async def keep_only_the_feed(frontend: RunningFrontend) -> None:
    """Nobody else has an opinion about rows that were put there by hand."""
    for loop in frontend.core.loops.after_boot:
        if loop is not frontend.core.loops["feed"]:
            await loop.stop()


async def settled(*frontends: RunningFrontend) -> None:
    """Everything that was written has reached the memory of these."""
    for frontend in frontends:
        await frontend.core.feed.tick()


@contextmanager
def an_engine(folder: Path) -> Iterator[Engine]:
    """The fake engine as a real process."""
    with running("fake", folder, called="chat", control=True) as engine:
        yield engine


def address_of(engine: Engine) -> str:
    return engine.url.removeprefix("http://")


async def serve(frontend: RunningFrontend, engine: Engine, *, node: str = "node-1", **config: Any) -> Replica:
    """A model with one replica, known to this frontend."""
    await engine.ready()
    await put_model(frontend.database, **config)
    placed = await join_node(frontend, node)
    replica = await put_replica(frontend.database, placed.id, address_of(engine))
    await settled(frontend)
    return replica


@dataclass
class PretendLoads:
    """Admits loads as the real door does, and does nothing about them: the test ends them."""

    database: Database
    begun: list[OperationId] = field(default_factory=list)
    requests: int = 0

    async def request_load(self, model: str) -> OperationId:
        self.requests += 1
        key = f"model:{model}"
        async with self.database.transaction() as tx:
            await operation_store.lock_scope(tx, key)
            active = await operation_store.list_active(tx, key)
            if active:
                return active[-1].id
            recent = await tx.execute(
                select(operations.c.id)
                .where(operations.c.scope_key == key, operations.c.state == OperationState.FAILED)
                .where(operations.c.finished_at > text("corral_now() - interval '15 seconds'"))
                .order_by(operations.c.created_at.desc())
                .limit(1)
            )
            failed = recent.scalar_one_or_none()
            if failed is not None:
                return OperationId(str(failed))
            new = NewOperation(
                id=OperationId(_ids.new_id()),
                kind=OperationKind.MODEL_LOAD,
                subject=model,
                scope_key=key,
                scope_node=None,
                scope_node_name="",
                request={"kind": "model_load", "model": model},
                created_by="a request",
            )
            assert await operation_store.insert(tx, new) is not None
            # Nobody's business: no dispatcher takes what is not due.
            await tx.execute(update(operations).where(operations.c.id == new.id).values(due_at=None))
        self.begun.append(new.id)
        return new.id

    async def move(self, **values: Any) -> None:
        """The last load that was begun has moved."""
        async with self.database.transaction() as tx:
            changes = {"rev": operations.c.rev + 1} | values
            if "state" in values and values["state"] in ("completed", "failed", "cancelled", "superseded"):
                changes["finished_at"] = text("corral_now()")
            await tx.execute(update(operations).where(operations.c.id == self.begun[-1]).values(changes))
            await outbox.append(tx, "operation.changed", self.begun[-1], {})

    async def complete(self) -> None:
        await self.move(state="running")
        await self.move(state="completed")

    async def fail(self, code: str, words: str) -> None:
        await self.move(state="failed", error_code=code, error_text=words)

    async def fail_install(self, code: str, words: str) -> None:
        """The installation that the last load waited for has failed, so the load was not begun."""
        failed = text("""
            INSERT INTO operations
            SELECT (jsonb_populate_record(load, jsonb_build_object(
                'id', CAST(:id AS text), 'kind', 'model_install', 'state', 'failed', 'finished_at', corral_now(),
                'error_code', CAST(:code AS text), 'error_text', CAST(:words AS text)))).*
            FROM operations AS load WHERE load.id = CAST(:load AS uuid)""")
        async with self.database.transaction() as tx:
            await tx.execute(failed, {"id": _ids.new_id(), "code": code, "words": words, "load": self.begun[-1]})
        await self.move(state="cancelled")

    async def supersede(self, code: str, words: str) -> None:
        await self.move(state="superseded", error_code=code, error_text=words)


async def no_replicas(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute(delete(replicas))
        await outbox.append(tx, "replica.removed", "chat", {})
