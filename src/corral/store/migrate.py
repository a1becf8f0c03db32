"""Brings the schema up to date, one process at a time.

The lock is an advisory one held by the migrating transaction itself: frontends that start together wait for the
first and then find nothing to do. When the schema is current, Alembic is not even imported, which keeps start short.

The migrating version records the oldest schema whose programs work on the new one, as the comment of Alembic's
table: so a frontend of the previous version can start again while frontends are replaced one by one, or after a
rollback.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, text

from corral.domain.errors import Conflict
from corral.ports.runtime import Clock
from corral.runtime.hidden_modules import hide_modules
from corral.store.database import Database

HEAD = "0026"
# Programs that were made for this schema, or for one in between, work on that of HEAD: they find what they read, and
# what they write fits. Those of before 0026 would store chunks without their words, and those of before 0023 do not
# know some kinds of operations.
WORKS_WITH = "0026"
# Names the schema that the comment is about: a comment of an earlier version does not count.
_WORD = "corral: {schema} works with {oldest}"
_LOCK = 0x636F7272616C  # "corral" in ASCII
_DIRECTORY = Path(__file__).parent / "migrations"


async def migrate(database: Database, clock: Clock) -> bool:
    """Migrate the schema; True if it was changed. A newer schema is refused, unless its version has recorded that
    this program works on it."""
    if await _read_current(database) == HEAD:
        return False
    while True:
        async with database.transaction() as tx:
            # Waiting inside the database would run into our own statement limit; polling does not.
            if (await tx.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK})).scalar():
                return await tx.connection.run_sync(_upgrade)
        await clock.sleep(0.2)


async def _read_current(database: Database) -> str | None:
    async with database.transaction() as tx:
        if (await tx.execute(text("SELECT to_regclass('alembic_version')"))).scalar() is None:
            return None
        version = (await tx.execute(text("SELECT version_num FROM alembic_version"))).scalar()
        return str(version) if version else None


def _upgrade(connection: Connection) -> bool:
    # Mako would import all lexers of pygments for error pages that are never shown: 4 MB and 0.15 s of the first start.
    with hide_modules("mako.ext.pygmentplugin"):
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
    remark = _WORD.format(schema=HEAD, oldest=WORKS_WITH)
    connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{remark}'"))
    return True


def _is_known_to_work(connection: Connection, current: str) -> bool:
    """Return whether the version that made this schema has recorded that programs made for HEAD work on it."""
    remark = str(connection.execute(text("SELECT obj_description('alembic_version'::regclass)")).scalar() or "")
    head = _WORD.format(schema=current, oldest="")
    oldest = remark.removeprefix(head)
    # Numbers have equal lengths, so they are ordered as texts are.
    return remark.startswith(head) and len(oldest) == len(HEAD) and oldest <= HEAD
