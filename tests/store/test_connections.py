"""How many connections to PostgreSQL one frontend holds, the number that `max_connections` is sized by, and who waits
for one."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from sqlalchemy import text

from corral.domain.errors import StoreUnavailable
from corral.store import database as database_module
from corral.store.database import POOL_SIZE, Database
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

CONNECTIONS_MAX = POOL_SIZE


async def hold_transaction(frontend: RunningFrontend, release: asyncio.Event) -> None:
    async with frontend.database.transaction():
        await release.wait()


async def test_frontend_holds_at_most_twenty_connections_when_more_are_needed(database_url: str) -> None:
    observer = await asyncpg.connect(database_url)
    release = asyncio.Event()

    async def count_connections() -> int:
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return int(await observer.fetchval(count))

    async def are_all_taken() -> bool:
        return await count_connections() >= CONNECTIONS_MAX

    async with running_frontend(database_url) as frontend:
        holders = [asyncio.create_task(hold_transaction(frontend, release)) for _ in range(CONNECTIONS_MAX + 5)]
        await eventually(are_all_taken)
        connections = await count_connections()
        release.set()
        await asyncio.gather(*holders)
    await observer.close()
    assert connections == CONNECTIONS_MAX == 20


async def sleep_in_transaction(database: Database, seconds: float) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("SELECT pg_sleep(:s)"), {"s": seconds})


async def test_transactions_wait_for_a_connection_as_long_as_others_end(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "CONNECT_LIMIT_S", 1.0)
    database = Database(database_url, pool_size=1)
    try:
        # Together they take longer than one may wait for a server that does not respond.
        await asyncio.gather(*(sleep_in_transaction(database, 0.25) for _ in range(10)))
    finally:
        await database.close()


async def test_transactions_get_connections_in_the_order_in_which_they_were_begun(database_url: str) -> None:
    database = Database(database_url, pool_size=1)
    order: list[int] = []

    async def note(number: int) -> None:
        async with database.transaction():
            order.append(number)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(note(number))
    finally:
        await database.close()
    assert order == list(range(30))


async def test_transaction_is_refused_if_no_other_one_ends_in_time_and_the_queue_goes_on(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(database_url, pool_size=1)
    await sleep_in_transaction(database, 0)
    monkeypatch.setattr(database_module, "CONNECT_LIMIT_S", 0.1)
    try:
        async with database.transaction():
            with pytest.raises(StoreUnavailable):
                await sleep_in_transaction(database, 0)
        await sleep_in_transaction(database, 0)
    finally:
        await database.close()


async def test_waiter_that_was_cancelled_takes_no_connection_with_it(database_url: str) -> None:
    database = Database(database_url, pool_size=1)
    try:
        async with database.transaction():
            waiting = asyncio.create_task(sleep_in_transaction(database, 0))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await sleep_in_transaction(database, 0)
    finally:
        await database.close()


async def test_connections_that_the_server_has_ended_are_not_used_again(database_url: str) -> None:
    database = Database(database_url, pool_size=3)
    observer = await asyncpg.connect(database_url)
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    async def are_all_gone() -> bool:
        return int(await observer.fetchval(f"SELECT count(*) {others}")) == 0

    async def do_all_connect() -> bool:
        transactions = (sleep_in_transaction(database, 0) for _ in range(6))
        ended = await asyncio.gather(*transactions, return_exceptions=True)
        return all(end is None for end in ended)

    try:
        await asyncio.gather(*(sleep_in_transaction(database, 0.2) for _ in range(3)))
        await observer.execute(f"SELECT pg_terminate_backend(pid) {others}")
        await eventually(are_all_gone)
        # The server's process is gone a moment before its connection is closed.
        await eventually(do_all_connect)
    finally:
        await observer.close()
        await database.close()
