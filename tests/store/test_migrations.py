"""Migrations make exactly the schema of `schema.py`, once, whoever starts first; a newer schema is refused."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from corral.adapters.system import SystemClock
from corral.domain.errors import Conflict
from corral.store import migrate as migrate_module
from corral.store.database import Database
from corral.store.migrate import HEAD, migrate
from corral.store.model_schema import model_names  # noqa: F401 - its tables belong to the same metadata
from corral.store.schema import (
    Xid8,
    metadata,
    users,  # noqa: F401 - likewise
)
from tests.support.databases import fresh_database
from tests.support.statements import count_statements

PROCESS = """
import asyncio, sys
from corral.adapters.system import SystemClock
from corral.store.database import Database
from corral.store.migrate import migrate

async def main():
    database = Database(sys.argv[1])
    print(await migrate(database, SystemClock()))
    await database.close()

asyncio.run(main())
"""


@pytest.fixture
async def empty_url(postgres: str) -> AsyncIterator[str]:
    """A database without any table."""
    async with fresh_database(postgres, template="template0") as url:
        yield url


@pytest.fixture
async def empty(empty_url: str) -> AsyncIterator[Database]:
    database = Database(empty_url)
    yield database
    await database.close()


def _differences(connection: Connection) -> list[Any]:
    # SQLAlchemy does not know xid8 and reflects it as nothing; every other type is compared.
    def compare_type(_context: Any, _column: Any, _meta: Any, _found: Any, expected: Any) -> bool | None:
        return False if isinstance(expected, Xid8) else None

    options = {"compare_type": compare_type, "compare_server_default": False}
    found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    return [item for item in found if "alembic_version" not in str(item)]


@pytest.mark.filterwarnings("ignore:Did not recognize type 'xid8'")
async def test_migrations_make_the_schema_that_the_code_means(database: Database) -> None:
    async with database.transaction() as tx:
        assert await tx.connection.run_sync(_differences) == []


async def test_constraints_and_options_that_a_comparison_does_not_see_are_the_same_too(
    database: Database, empty: Database
) -> None:
    """Checks, defaults, names, and storage options: made by migrations, and made from `schema.py` alone."""
    async with empty.transaction() as tx:
        await tx.execute(text("CREATE FUNCTION corral_now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now()'"))
        await tx.connection.run_sync(metadata.create_all)
    made, meant = await _catalogue(database), await _catalogue(empty)
    for kind in meant:
        assert set(made[kind]) ^ set(meant[kind]) == set(), kind
    assert made == meant


async def _catalogue(database: Database) -> dict[str, list[str]]:
    queries = {
        "constraints": "SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)"
        " FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'",
        "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "columns": "SELECT table_name || '.' || column_name || ' ' || udt_name || ' ' || is_nullable || ' ' ||"
        " coalesce(column_default, '') || ' ' || coalesce(character_maximum_length, 0) || ' ' || is_identity"
        " FROM information_schema.columns WHERE table_schema = 'public'",
        "options": "SELECT relname || ' ' || coalesce(reloptions::text, '') FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
    }
    async with database.transaction() as tx:
        return {
            name: sorted(row[0] for row in await tx.execute(text(query)) if "alembic_version" not in row[0])
            for name, query in queries.items()
        }


def test_head_in_the_code_is_the_last_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate_module._DIRECTORY))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_current_schema_costs_a_look_and_no_change(database: Database) -> None:
    statements: list[str] = []
    count_statements(database, statements.append)
    assert await migrate(database, SystemClock()) is False
    assert len(statements) == 2


async def test_two_processes_that_migrate_an_empty_database_at_once_both_succeed(empty_url: str) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROCESS, empty_url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    ended = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    assert sorted(out.decode().strip() for out, _ in ended) == ["False", "True"], "the work is done once"


class _NoticedClock(SystemClock):
    """Reports when a migration has decided to wait."""

    def __init__(self) -> None:
        self.slept = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.slept.set()
        await super().sleep(0)


async def test_process_waits_while_another_one_migrates(empty: Database) -> None:
    clock = _NoticedClock()
    async with asyncio.TaskGroup() as group, empty.transaction() as other:
        await other.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": migrate_module._LOCK})
        migrating = group.create_task(migrate(empty, clock))
        noticed = group.create_task(clock.slept.wait())
        await asyncio.wait([migrating, noticed], return_when=asyncio.FIRST_COMPLETED)
        noticed.cancel()
        assert not migrating.done()
        assert (await other.execute(text("SELECT to_regclass('nodes')"))).scalar() is None
    assert migrating.result() is True


async def test_migration_that_fails_leaves_the_database_empty(empty: Database) -> None:
    async with empty.transaction() as tx:
        await tx.execute(text("CREATE TABLE audit (in_the_way int)"))
    with pytest.raises(Exception, match="already exists"):
        await migrate(empty, SystemClock())
    async with empty.transaction() as tx:
        assert (await tx.execute(text("SELECT to_regclass('nodes')"))).scalar() is None
        await tx.execute(text("DROP TABLE audit"))
    assert await migrate(empty, SystemClock()) is True


def _upgrade_to(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate_module._DIRECTORY))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


async def test_usage_that_was_counted_before_nodes_were_is_kept_and_tells_when_keys_were_used(empty: Database) -> None:
    async with empty.transaction() as tx:
        await tx.connection.run_sync(_upgrade_to, "0005")
        await tx.execute(
            text(
                "INSERT INTO api_keys (id, name, hash, prefix, created_by)"
                " SELECT gen_random_uuid(), name, name, 'ck_1', 'test' FROM unnest(ARRAY['old', 'now', 'unused']) name"
            )
        )
        await tx.execute(
            text(
                "INSERT INTO usage (hour, key_id, model, call, requests)"
                " SELECT date_trunc('hour', corral_now()) - make_interval(hours => ago), CAST(id AS text), 'm', 'c', 1"
                " FROM api_keys, generate_series(0, 500) ago WHERE name = 'now' OR (name = 'old' AND ago >= 3)"
            )
        )
    assert await migrate(empty, SystemClock()) is True
    async with empty.transaction() as tx:
        kept = await tx.execute(text("SELECT node, sum(requests), count(*) FROM usage GROUP BY node"))
        assert [tuple(row) for row in kept] == [("", 999, 999)]
        used = await tx.execute(
            text(
                "SELECT name, last_used_at = date_trunc('hour', corral_now()) - interval '2 hours' AS is_then"
                " FROM api_keys"
            )
        )
        assert {row.name: row.is_then for row in used} == {"old": True, "now": False, "unused": None}
        ahead = await tx.execute(text("SELECT count(*) FROM api_keys WHERE last_used_at > corral_now()"))
        assert ahead.scalar_one() == 0


@pytest.mark.behaviour("MIG-4")
async def test_schema_of_a_newer_version_is_refused_with_a_hint_and_left_alone(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Conflict) as refused:
        await migrate(database, SystemClock())
    assert refused.value.slug == "schema_too_new"
    assert "9999" in refused.value.message
    assert refused.value.hint
    async with database.transaction() as tx:
        assert (await tx.execute(text("SELECT version_num FROM alembic_version"))).scalar() == "9999"


@pytest.mark.behaviour("MIG-6")
async def test_newer_schema_is_used_if_its_maker_says_that_this_version_works_on_it(database: Database) -> None:
    """A frontend of the version before that is started again, while others are new already."""
    assert migrate_module.WORKS_WITH <= HEAD
    async with database.transaction() as tx:
        left = (await tx.execute(text("SELECT obj_description('alembic_version'::regclass)"))).scalar()
        assert left == f"corral: {HEAD} works with {migrate_module.WORKS_WITH}"
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        await tx.execute(text(f"COMMENT ON TABLE alembic_version IS 'corral: 9999 works with {HEAD}'"))
    assert await migrate(database, SystemClock()) is False
    for word in (
        "'corral: 9999 works with 9998'",
        f"'corral: 9998 works with {HEAD}'",
        "'corral: 9999 works with 1'",
        "NULL",
    ):
        async with database.transaction() as tx:
            await tx.execute(text(f"COMMENT ON TABLE alembic_version IS {word}"))
        with pytest.raises(Conflict):
            await migrate(database, SystemClock())
