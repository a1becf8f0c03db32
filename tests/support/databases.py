"""One PostgreSQL server per test session, one database per test, cloned from a template that was migrated once."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from corral.adapters.system import SystemClock
from corral.store.database import Database
from corral.store.migrate import migrate

TEMPLATE = "corral_template"
_numbers = itertools.count(1)


def make_url(address: str, name: str) -> str:
    return f"postgresql://postgres@{address}/{name}"


async def make_template(address: str) -> None:
    connection = await asyncpg.connect(make_url(address, "postgres"))
    try:
        await connection.execute(f'CREATE DATABASE "{TEMPLATE}"')
    finally:
        await connection.close()
    database = Database(make_url(address, TEMPLATE))
    try:
        await migrate(database, SystemClock())
    finally:
        await database.close()


@asynccontextmanager
async def fresh_database(address: str, template: str = TEMPLATE) -> AsyncIterator[str]:
    """Yield the URL of a new database, which is dropped afterwards."""
    name = f"test_{next(_numbers)}"
    connection = await asyncpg.connect(make_url(address, "postgres"))
    try:
        # Copied as files: a third of the time that it takes through the log, and no recovery is needed.
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        try:
            yield make_url(address, name)
        finally:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()
