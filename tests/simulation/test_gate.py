"""The way to the database: one at a time, faults that do what they say, and free again whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import text

from corral.domain.errors import StoreUnavailable
from corral.store.database import Database
from tests.simulation.chance import chance
from tests.simulation.clock import START, SimClock
from tests.simulation.gate import SimGate, StoreFaults, Turnstile
from tests.simulation.run import simulate
from tests.simulation.settle import settle
from tests.simulation.virtual_loop import VirtualLoop

ADD = text("UPDATE counter SET value = value + 1")
READ = text("SELECT value FROM counter")
LOCK_OR_FAIL = text("SELECT value FROM counter FOR UPDATE NOWAIT")
NEVER = text("SELECT pg_sleep(3600)")


class World:
    """Holds a database with one counter, and gates to it."""

    def __init__(self, loop: VirtualLoop, address: str) -> None:
        self.loop = loop
        self.clock = SimClock(loop)
        self._url = f"postgresql://postgres@{address}/postgres"
        self.turnstile = Turnstile(loop, chance(loop.seed, "turns"), settle=settle(self._url))
        self.gates: list[SimGate] = []
        self._databases: list[Database] = []

    def database(self, faults: StoreFaults | None = None) -> Database:
        rng = chance(self.loop.seed, f"gate {len(self._databases)}")
        self.gates.append(SimGate("gate", self.turnstile, loop=self.loop, rng=rng, faults=faults))
        self._databases.append(Database(self._url, gate=self.gates[-1], pool_size=1))
        return self._databases[-1]

    async def counter(self) -> int:
        async with self._databases[0].transaction() as tx:
            return int((await tx.execute(READ)).scalar_one())

    async def open(self) -> None:
        async with self.database().transaction() as tx:
            await tx.execute(text("DROP TABLE IF EXISTS counter"))
            await tx.execute(text("CREATE TABLE counter (value integer NOT NULL)"))
            await tx.execute(text("INSERT INTO counter VALUES (0)"))

    async def close(self) -> None:
        async with self.turnstile.turn():
            for database in self._databases:
                await database.close()


def in_world(address: str, seed: int, body: Callable[[World], Awaitable[None]]) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        world = World(loop, address)
        await world.open()
        await body(world)
        await world.close()

    simulate(seed, scenario)


async def add_one(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute(ADD)


def test_gate_admits_one_transaction_at_a_time(postgres: str, seed: int):
    async def body(world: World) -> None:
        inside = 0

        async def visit(database: Database) -> None:
            nonlocal inside
            async with database.transaction() as tx:
                inside += 1
                assert inside == 1
                await tx.execute(ADD)
                inside -= 1

        async with asyncio.TaskGroup() as group:
            for database in [world.database() for _ in range(5)]:
                group.create_task(visit(database))
        assert await world.counter() == 5

    in_world(postgres, seed, body)


def test_seed_decides_which_task_runs_next(postgres: str):
    def order(seed: int) -> str:
        went: list[str] = []

        async def body(world: World) -> None:
            async def visit(name: str, database: Database) -> None:
                async with database.transaction() as tx:
                    await tx.execute(ADD)
                    went.append(name)

            async with asyncio.TaskGroup() as group:
                for name in "abcd":
                    group.create_task(visit(name, world.database()))

        in_world(postgres, seed, body)
        return "".join(went)

    orders = [order(seed) for seed in range(8)]
    assert len(set(orders)) > 3
    assert orders == [order(seed) for seed in range(8)]


def test_refused_connection_changes_nothing(postgres: str, seed: int):
    async def body(world: World) -> None:
        with pytest.raises(StoreUnavailable):
            await add_one(world.database(StoreFaults(refuse=1)))
        assert await world.counter() == 0

    in_world(postgres, seed, body)


def test_connection_that_breaks_inside_the_transaction_changes_nothing(postgres: str, seed: int):
    async def body(world: World) -> None:
        with pytest.raises(StoreUnavailable):
            await add_one(world.database(StoreFaults(break_off=1)))
        assert await world.counter() == 0

    in_world(postgres, seed, body)


def test_lost_reply_looks_like_a_failure_although_the_commit_happened(postgres: str, seed: int):
    async def body(world: World) -> None:
        with pytest.raises(StoreUnavailable):
            await add_one(world.database(StoreFaults(lose_reply=1)))
        assert await world.counter() == 1

    in_world(postgres, seed, body)


def test_slow_transaction_can_run_into_its_callers_deadline_and_is_rolled_back(postgres: str, seed: int):
    async def body(world: World) -> None:
        slow = world.database(StoreFaults(slow=1, delay_s=1e6))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await add_one(slow)
        assert world.loop.time() == 0.5
        assert await world.counter() == 0

    in_world(postgres, seed, body)


def test_participant_that_is_cut_off_reaches_the_database_again_when_it_is_healed(postgres: str):
    async def body(world: World) -> None:
        database = world.database()
        world.gates[-1].is_cut_off = True
        with pytest.raises(StoreUnavailable):
            await add_one(database)
        world.gates[-1].is_cut_off = False
        await add_one(database)
        assert await world.counter() == 1

    in_world(postgres, 0, body)


def test_transaction_cancelled_in_the_middle_of_a_statement_leaves_the_gate_and_the_rows_free(postgres: str, seed: int):
    async def body(world: World) -> None:
        database, other, at_work = world.database(), world.database(), asyncio.Event()

        async def hold() -> None:
            async with database.transaction() as tx:
                await tx.execute(ADD)
                at_work.set()
                await tx.execute(NEVER)

        holder = world.loop.create_task(hold())
        await at_work.wait()
        holder.cancel()
        async with other.transaction() as tx:
            # NOWAIT fails at once if the server still holds the cancelled transaction's lock.
            assert (await tx.execute(LOCK_OR_FAIL)).scalar_one() == 0
        assert holder.cancelled()
        assert world.loop.time() == 0

    in_world(postgres, seed, body)


def test_waiters_that_are_cancelled_do_not_keep_the_gate(postgres: str, seed: int):
    async def body(world: World) -> None:
        rng = chance(seed, "who is cancelled")
        waiters = [world.loop.create_task(add_one(world.database())) for _ in range(8)]
        cancelled = [waiter for waiter in waiters if rng.random() < 0.5]
        for waiter in cancelled:
            world.loop.create_task(cancel(waiter))
        await asyncio.wait(waiters)
        assert world.turnstile.is_free
        assert await world.counter() == sum(not waiter.cancelled() for waiter in waiters)

    async def cancel(waiter: asyncio.Task[None]) -> None:
        waiter.cancel()

    in_world(postgres, seed, body)


def test_turn_that_is_granted_to_a_waiter_in_the_instant_of_its_cancellation_is_passed_on(seed: int):
    async def scenario(loop: VirtualLoop) -> None:
        turnstile = Turnstile(loop, chance(seed, "turns"))
        async with turnstile.turn():
            waiter = loop.create_task(_visit(turnstile, []))
            with loop.without_io():
                await SimClock(loop).sleep(1)
        waiter.cancel()
        await asyncio.wait([waiter])
        assert waiter.cancelled()
        await _visit(turnstile, [])

    simulate(seed, scenario)


def test_gate_waits_after_a_cancelled_turn_until_the_server_has_forgotten_it(seed: int):
    async def scenario(loop: VirtualLoop) -> list[str]:
        happened: list[str] = []
        is_called, forgotten = asyncio.Event(), asyncio.Event()

        async def server_forgets() -> None:
            is_called.set()
            await forgotten.wait()
            happened.append("forgotten")

        turnstile = Turnstile(loop, chance(seed, "turns"), settle=server_forgets)
        holder = loop.create_task(_hold(turnstile, inside := asyncio.Event()))
        await inside.wait()
        holder.cancel()
        following = loop.create_task(_visit(turnstile, happened))
        await is_called.wait()
        assert happened == []
        forgotten.set()
        await following
        return happened

    assert simulate(seed, scenario) == ["forgotten", "entered"]


async def _visit(turnstile: Turnstile, happened: list[str]) -> None:
    async with turnstile.turn():
        happened.append("entered")


async def _hold(turnstile: Turnstile, inside: asyncio.Event) -> None:
    async with turnstile.turn():
        inside.set()
        await asyncio.get_running_loop().create_future()


def test_databases_time_is_the_virtual_time(postgres: str):
    async def body(world: World) -> None:
        await world.clock.sleep(86_400)
        async with world.database().transaction() as tx:
            now = (await tx.execute(text("SELECT current_setting('corral.virtual_now')::timestamptz"))).scalar_one()
        assert (now - START).total_seconds() == 86_400

    in_world(postgres, 0, body)
