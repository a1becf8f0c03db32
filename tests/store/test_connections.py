"""How many connections to PostgreSQL one frontend holds: the number that `max_connections` is sized by."""

from __future__ import annotations

import asyncio

import asyncpg

from corral.store.database import POOL_SIZE
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

CONNECTIONS_MAX = 2 * POOL_SIZE


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
