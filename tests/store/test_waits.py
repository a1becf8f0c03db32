"""Waiting for a lock takes as long as we say, not as long as the server's own settings say."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from corral.store.database import Database

LOCK = text("SELECT pg_advisory_xact_lock(7)")


@pytest.mark.behaviour("NODE-135")
@pytest.mark.parametrize("setting", ["lock_timeout", "statement_timeout"])
async def test_wait_longer_than_the_servers_own_limit_succeeds(database_url: str, setting: str) -> None:
    first = Database(database_url)
    name = database_url.rpartition("/")[2]
    async with first.transaction() as tx:
        await tx.execute(text(f"ALTER DATABASE \"{name}\" SET {setting} = '100ms'"))
    await first.close()
    database = Database(database_url)
    is_held = asyncio.Event()

    async def hold() -> None:
        async with database.transaction() as tx:
            await tx.execute(LOCK)
            is_held.set()
            # The server waits, and is within no limit but ours: five times that of its own settings.
            await tx.execute(text("SELECT pg_sleep(0.5)"))

    async def wait() -> None:
        await is_held.wait()
        async with database.transaction() as tx:
            await tx.execute(LOCK)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(hold())
            group.create_task(wait())
    finally:
        await database.close()
