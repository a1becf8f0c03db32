"""A dispatcher without its loops: the test says when it looks, so nothing is waited for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.core import FrontendCore
from corral.backends.index import BackendIndex
from corral.bus.subjects import JOB_EVENT, OPERATION_DELTA
from corral.domain.node import NodeId
from corral.domain.operation import Operation, RolloutStrategy, Target
from corral.operations.backend_plan import BackendOperationSpec
from corral.operations.deltas import OperationDeltaFeed
from corral.operations.dispatcher import DispatcherDeps, DispatcherOptions, OperationDispatcher
from corral.reconcile.maintenance import FrontendPresence
from corral.store import assignments as assignment_store
from corral.store.database import Database
from tests.operations.fake_bus import FakeBus, FakeWorker, Hub
from tests.operations.scene import ENTRIES, admit, catalog, make_pool, put_nodes, read, sql
from tests.support.catalogs import replace_built_in
from tests.support.polling import eventually

TURNS_MAX = 50


class SteppingClock(SystemClock):
    """The real clock, some time ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Driver:
    """One frontend's dispatcher, on the hub."""

    def __init__(
        self, database: Database, hub: Hub, name: str = "frontend-1", *, is_leader: bool = False, **options: Any
    ) -> None:
        self.database = database
        self.bus = FakeBus(hub)
        self.clock = SteppingClock()
        self.deltas = OperationDeltaFeed(self.bus, name)
        self.builds: Any = catalog(database)
        row = {"id": name, "host": "127.0.0.1", "port": 1, "pid": 1, "version": "0.0.1"}
        self.presence = FrontendPresence(database, row, lambda: self.bus.is_connected)
        self.dispatcher = OperationDispatcher(
            DispatcherDeps(
                database=database,
                bus=self.bus,
                clock=self.clock,
                ids=SystemIdGenerator(),
                rng=random.Random(1),
                pools={"backend": make_pool(database, self.bus, self.builds)},
                is_leader=lambda: is_leader,
                leaves_to_peers=self.presence.leaves_to_peers,
            ),
            DispatcherOptions(frontend_id=name, **options),
            self.deltas,
        )

    async def plug_in(self) -> Driver:
        await self.bus.subscribe(JOB_EVENT, self.dispatcher.on_job_event)
        await self.bus.subscribe(OPERATION_DELTA, self.deltas.on_delta)
        self.bus.on_reconnect(self.dispatcher.on_reconnect)
        return self

    async def turn(self) -> int:
        """One look at what is due, until the steps are over; how many there were."""
        started = await self.dispatcher.tick()
        await self.dispatcher.wait_idle()
        return started

    async def run(self) -> None:
        """Apply the reports of workers, and look until there is nothing to do now."""
        for _ in range(TURNS_MAX):
            await self.dispatcher.flush()
            if not await self.turn():
                return
        raise AssertionError("the dispatcher finds something to do for ever")


async def driver(database: Database, hub: Hub, name: str = "frontend-1", **options: Any) -> Driver:
    return await Driver(database, hub, name, **options).plug_in()


async def workers(database: Database, hub: Hub, *names: str, **columns: Any) -> list[FakeWorker]:
    return [hub.worker(node) for node in await put_nodes(database, *names, **columns)]


async def submit(database: Database, spec: BackendOperationSpec, **options: Any) -> Operation:
    return (await admit(database, spec, **options)).operation


class _Turnable(Protocol):
    async def turn(self) -> int: ...


@asynccontextmanager
async def command_on_its_way(hub: Hub, frontend: _Turnable) -> AsyncIterator[None]:
    """The frontend has sent a command, and its worker gets it and answers when the block ends."""
    hub.gate.clear()
    turn = asyncio.create_task(frontend.turn())

    async def is_sent() -> bool:
        return hub.in_flight > 0

    try:
        await eventually(is_sent)
        yield
    finally:
        hub.gate.set()
        await turn


async def target(database: Database, operation: Operation, node: str) -> Target:
    found = await read(database, operation)
    return next(item for item in found.targets if item.node == node)


async def age(database: Database, operation: Operation, seconds: float) -> None:
    """As if so much time had gone by since the workers last reported, were contacted, or failed."""
    await sql(
        database,
        "UPDATE operation_targets SET heard_at = heard_at - make_interval(secs => :s),"
        " contacted_at = contacted_at - make_interval(secs => :s) WHERE operation_id = CAST(:id AS uuid)",
        id=operation.id,
        s=seconds,
    )
    await sql(
        database,
        "UPDATE assignments SET next_retry_at = next_retry_at - make_interval(secs => :s)"
        " WHERE operation_id = CAST(:id AS uuid)",
        id=operation.id,
        s=seconds,
    )
    async with database.transaction() as tx:
        await assignment_store.wake_operations(tx, [operation.id])


async def set_node(database: Database, node: str, **columns: str) -> None:
    """Change what is known of a node, and wake what waits for it. `columns` are SQL."""
    written = ", ".join(f"{name} = {value}" for name, value in columns.items())
    await sql(database, f"UPDATE nodes SET {written} WHERE id = CAST(:id AS uuid)", id=node)
    async with database.transaction() as tx:
        await assignment_store.wake_nodes(tx, [NodeId(node)])


async def use_small_catalog(core: FrontendCore) -> None:
    """Give a whole frontend the catalog of these tests."""
    replace_built_in(core.catalog, BackendIndex(entries=ENTRIES, warnings=()))


async def notes(database: Database, operation: Operation) -> list[str]:
    rows = await sql(
        database,
        "SELECT node_name, text FROM operation_events WHERE operation_id = CAST(:id AS uuid) ORDER BY id",
        id=operation.id,
    )
    return [f"{row.node_name}: {row.text}" if row.node_name else row.text for row in rows]


ONE_BY_ONE = RolloutStrategy(waves=(1,), stops_on_failure=True)
