"""A database for each simulated cluster: the product's schema with virtual time, and a witness inside.

The witness is a trigger that notes, for each event and each pruning, who wrote it and who held the leader's lease in
that very transaction. Only the simulator has it; the product does not know that it is being watched.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from corral.adapters.system import SystemClock
from corral.store.database import Database
from corral.store.migrate import migrate
from tests.simulation.models.witness import WITNESS_OF_MODELS
from tests.simulation.operations.witness import WITNESS_OF_OPERATIONS

TEMPLATE = "simulation_template"
# With no virtual time set (while the template is made) the real one will do.
VIRTUAL_TIME_AND_WITNESS = """
    CREATE OR REPLACE FUNCTION corral_now() RETURNS timestamptz LANGUAGE sql STABLE
        AS $$ SELECT coalesce(nullif(current_setting('corral.virtual_now', true), '')::timestamptz, now()) $$;
    CREATE TABLE witness (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        what text NOT NULL, participant text, at timestamptz NOT NULL, holder text, term bigint, expires_at timestamptz
    );
    CREATE FUNCTION bear_witness() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO witness (what, participant, at, holder, term, expires_at)
        SELECT CASE WHEN TG_OP = 'DELETE' THEN 'pruned' ELSE NEW.kind END,
               current_setting('corral.participant', true), corral_now(), l.holder, l.term, l.expires_at
          FROM (SELECT) AS once LEFT JOIN leases l ON l.name = 'leader';
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_events AFTER INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION bear_witness();
    CREATE TRIGGER witness_pruning AFTER DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION bear_witness();
"""
_numbers = itertools.count(1)


def make_template(address: str) -> None:
    asyncio.run(_make_template(address))


async def _make_template(address: str) -> None:
    await _execute(address, "postgres", f'CREATE DATABASE "{TEMPLATE}"')
    database = Database(_url(address, TEMPLATE))
    try:
        await migrate(database, SystemClock())
    finally:
        await database.close()
    await _execute(address, TEMPLATE, VIRTUAL_TIME_AND_WITNESS)
    await _execute(address, TEMPLATE, WITNESS_OF_OPERATIONS)
    await _execute(address, TEMPLATE, WITNESS_OF_MODELS)


@contextmanager
def cluster_database(address: str) -> Iterator[str]:
    """Make a fresh database, yield its URL, and drop it afterwards."""
    name = f"cluster_{next(_numbers)}"
    asyncio.run(_execute(address, "postgres", f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE}" STRATEGY FILE_COPY'))
    try:
        yield _url(address, name)
    finally:
        asyncio.run(_execute(address, "postgres", f'DROP DATABASE "{name}" WITH (FORCE)'))


async def _execute(address: str, name: str, statements: str) -> None:
    connection = await asyncpg.connect(_url(address, name))
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def _url(address: str, name: str) -> str:
    return f"postgresql://postgres@{address}/{name}"
