"""Bring the schema up to date, one process at a time.

The lock is an advisory one held by the migrating transaction itself: frontends that start together wait for the
first and then find nothing to do. When the schema is current, Alembic is not even imported, which keeps start short.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, text

from corral.domain.errors import Conflict
from corral.ports.runtime import Clock
from corral.store.database import Database

HEAD = "0006"
_LOCK = 0x636F7272616C  # "corral" in ASCII
_DIRECTORY = Path(__file__).parent / "migrations"


async def migrate(database: Database, clock: Clock) -> bool:
    """True if the schema was changed. A schema newer than this program is refused: upgrade the program instead."""
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
        raise Conflict(
            f"The database has schema {current}, which this version of Corral does not know.",
            hint="A newer Corral has migrated it: upgrade this one.",
            code="schema_too_new",
        )
    command.upgrade(config, "head")
    return True
