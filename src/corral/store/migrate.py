"""Bring the schema up to date, one process at a time.

The lock is an advisory one held by the migrating transaction itself: frontends that start together wait for the
first and then find nothing to do. When the schema is current, Alembic is not even imported, which keeps start short.

Whoever migrates leaves word of the oldest schema whose programs work on the new one: so a frontend of the version
before can start again while frontends are replaced one by one, or go back. The word is the comment of Alembic's table.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, text

from corral.domain.errors import Conflict
from corral.ports.runtime import Clock
from corral.store.database import Database

HEAD = "0011"
# Programs that were made for this schema, or for one in between, work on that of HEAD: what they read is there, and
# what they write fits. 0006 has another key of usage, which those of 0005 cannot write.
WORKS_WITH = "0006"
# Names the schema that it is about: one that was left by an earlier version says nothing.
_WORD = "corral: {schema} works with {oldest}"
_LOCK = 0x636F7272616C  # "corral" in ASCII
_DIRECTORY = Path(__file__).parent / "migrations"


async def migrate(database: Database, clock: Clock) -> bool:
    """True if the schema was changed. A newer one is refused, unless who made it has said that we work on it."""
    if await _current(database) == HEAD:
        return False
    while True:
        async with database.transaction() as tx:
            # Waiting inside the database would run into our own statement limit; asking again does not.
            if (await tx.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK})).scalar():
                return await tx.connection.run_sync(_upgrade)
        await clock.sleep(0.2)


async def _current(database: Database) -> str | None:
    async with database.transaction() as tx:
        if (await tx.execute(text("SELECT to_regclass('alembic_version')"))).scalar() is None:
            return None
        version = (await tx.execute(text("SELECT version_num FROM alembic_version"))).scalar()
        return str(version) if version else None


def _upgrade(connection: Connection) -> bool:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_DIRECTORY))
    config.attributes["connection"] = connection
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current == HEAD:
        return False
    if current is not None and current not in known:
        if _is_known_to_work(connection, current):
            return False
        raise Conflict(
            f"The database has schema {current}, which this version of Corral does not know.",
            hint="A newer Corral has migrated it: upgrade this one.",
            code="schema_too_new",
        )
    command.upgrade(config, "head")
    word = _WORD.format(schema=HEAD, oldest=WORKS_WITH)
    connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{word}'"))
    return True


def _is_known_to_work(connection: Connection, current: str) -> bool:
    """Whether the version that made this schema has said that programs made for HEAD work on it."""
    word = str(connection.execute(text("SELECT obj_description('alembic_version'::regclass)")).scalar() or "")
    head = _WORD.format(schema=current, oldest="")
    oldest = word.removeprefix(head)
    # Numbers have equal lengths, so they are ordered as texts are.
    return word.startswith(head) and len(oldest) == len(HEAD) and oldest <= HEAD
