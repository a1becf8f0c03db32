"""Wait until the server has ended every transaction of a database whose client went away.

A cancelled transaction is rolled back by the server a moment after the client has closed the connection. Until then
its locks and its transaction id are seen by others, and how long that takes depends on the machine, not on the seed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg

# One statement that waits on the server's side, so that no clock of ours is needed.
STILL_OPEN = """
    SELECT count(*) FROM pg_stat_activity, pg_sleep($1)
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
"""
PAUSE_S = 0.002
TRIES = 2000


def settle(url: str) -> Callable[[], Awaitable[None]]:
    """Return a wait for `Turnstile(settle=...)` until PostgreSQL has forgotten closed connections."""

    async def until_forgotten() -> None:
        connection = await asyncpg.connect(url)
        try:
            for attempt in range(TRIES):
                if await connection.fetchval(STILL_OPEN, PAUSE_S if attempt else 0.0) == 0:
                    return
            raise AssertionError("a transaction outlives its client: is a statement without an end running?")
        finally:
            await connection.close()

    return until_forgotten
