"""Stores tasks, when their cron patterns fire, and the attachments of their runs.

The name and whether a task is enabled have columns; everything else that its owner says is one document. A task that is
due is claimed under its row's lock together with the time that was due, so each time is used once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, tuple_, update

from corral.domain.access import Owner
from corral.domain.agent import RemoteMcpServer
from corral.domain.errors import NotFound
from corral.domain.run import RunId, RunTrigger
from corral.domain.task import (
    Media,
    MediaKind,
    MediaSource,
    Task,
    TaskBudgets,
    TaskCatchUp,
    TaskId,
    TaskOverlap,
    TaskSpec,
    TaskWebhook,
)
from corral.store.access import has_active_owner
from corral.store.database import Transaction, as_uuid, is_storable
from corral.store.run_schema import run_media, runs, tasks
from corral.store.schema import NOW

LISTED_MAX = 1000
NOTE_MAX = 1000
# Attachments of one deletion: a statement has seconds.
PRUNED_PER_PASS = 500
PRUNED_BYTES_PER_PASS = 256 * 1024**2
_COLUMNS = frozenset({"name", "is_enabled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """Values with which a user's task is inserted into PostgreSQL."""

    id: TaskId
    owner: Owner
    spec: TaskSpec
    key_id: str
    next_run_at: datetime | None
    created_by: str


def _to_config(spec: TaskSpec, key_id: str) -> dict[str, Any]:
    return {name: value for name, value in asdict(spec).items() if name not in _COLUMNS} | {"key_id": key_id}


def _to_task(row: Any) -> Task:
    config: Mapping[str, Any] = row.config
    known = {field.name for field in fields(TaskSpec)}
    values = {name: value for name, value in config.items() if name in known}
    values |= {
        "overlap": TaskOverlap(values.get("overlap", TaskOverlap.SKIP)),
        "catch_up": TaskCatchUp(values.get("catch_up", TaskCatchUp.NONE)),
        "webhooks": tuple(TaskWebhook(**one) for one in values.get("webhooks", ())),
        "media_sources": tuple(
            MediaSource(**{**one, "kind": MediaKind(one["kind"])}) for one in values.get("media_sources", ())
        ),
        "mcp_servers": tuple(RemoteMcpServer(**one) for one in values.get("mcp_servers", ())),
        "declared_servers": tuple(values.get("declared_servers", ())),
        "budgets": TaskBudgets(**values.get("budgets", {})),
    }
    return Task(
        id=TaskId(row.id),
        owner=Owner(user_id=row.user_id) if row.user_id else Owner(key_id=row.owner_key_id),
        spec=TaskSpec(name=row.name, is_enabled=row.is_enabled, **values),
        key_id=str(config.get("key_id", "")),
        revision=row.revision,
        next_run_at=row.next_run_at,
        last_run_at=row.last_run_at,
        cron_note=row.cron_note,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        next_look_at=row.next_look_at,
    )


async def read_now(tx: Transaction) -> datetime:
    """Return the database's time."""
    now: datetime = (await tx.execute(select(func.corral_now()))).scalar_one()
    return now


async def insert_task(tx: Transaction, new: NewTask) -> Task:
    statement = insert(tasks).values(
        id=new.id,
        owner=str(new.owner),
        user_id=new.owner.user_id,
        owner_key_id=new.owner.key_id,
        name=new.spec.name,
        is_enabled=new.spec.is_enabled,
        config=_to_config(new.spec, new.key_id),
        next_run_at=new.next_run_at,
        created_by=new.created_by[:255],
    )
    return _to_task((await tx.execute(statement.returning(tasks))).one())


async def update_task(
    tx: Transaction, task_id: TaskId, spec: TaskSpec, *, key_id: str, next_run_at: datetime | None
) -> Task:
    statement = (
        update(tasks)
        .where(tasks.c.id == task_id)
        .values(
            name=spec.name,
            is_enabled=spec.is_enabled,
            config=_to_config(spec, key_id),
            revision=tasks.c.revision + 1,
            next_run_at=next_run_at,
            next_look_at=None,
            cron_note="",
            updated_at=NOW,
        )
    )
    return _to_task((await tx.execute(statement.returning(tasks))).one())


async def delete_task(tx: Transaction, task_id: TaskId) -> None:
    """Delete a task. Its runs stay, without it."""
    await tx.execute(delete(tasks).where(tasks.c.id == task_id))


async def find_task(tx: Transaction, reference: str, owner: str | None, *, is_locked: bool = False) -> Task | None:
    """Return the task with this id or name; with an owner, only if it is theirs. Without an owner a name is not
    enough, because several owners may use it."""
    known = as_uuid(reference)
    if not is_storable(reference):
        return None
    statement = select(tasks)
    if owner is not None:
        statement = statement.where(tasks.c.owner == owner)
    by_name = None if owner is None else statement.where(tasks.c.name == reference)
    for candidate in (None if known is None else statement.where(tasks.c.id == known), by_name):
        if candidate is None:
            continue
        row = (await tx.execute(candidate.with_for_update() if is_locked else candidate)).one_or_none()
        if row is not None:
            return _to_task(row)
    return None


async def get_task(tx: Transaction, reference: str, owner: str | None, *, is_locked: bool = False) -> Task:
    found = await find_task(tx, reference, owner, is_locked=is_locked)
    if found is None:
        raise NotFound(
            f"There is no task {reference[:80]!r}.", hint="`corral tasks list` shows your tasks.", code="task_not_found"
        )
    return found


async def hold_task(tx: Transaction, task_id: TaskId) -> bool:
    """Keep a task from being deleted until the transaction ends. Return whether it exists."""
    statement = select(tasks.c.id).where(tasks.c.id == task_id).with_for_update(read=True, key_share=True)
    return (await tx.execute(statement)).first() is not None


async def has_name(tx: Transaction, owner: Owner, name: str, *, other_than: TaskId | None = None) -> bool:
    """Return whether the owner has another task of this name."""
    statement = select(tasks.c.id).where(tasks.c.owner == str(owner), tasks.c.name == name)
    if other_than is not None:
        statement = statement.where(tasks.c.id != other_than)
    return (await tx.execute(statement)).first() is not None


async def lock_owner(tx: Transaction, owner: Owner) -> None:
    """Let changes to the tasks of one owner wait for each other."""
    statement = text("SELECT pg_advisory_xact_lock(hashtextextended('tasks ' || :owner, 0))")
    await tx.execute(statement, {"owner": str(owner)})


async def count_tasks(tx: Transaction, owner: Owner) -> int:
    statement = select(func.count()).select_from(tasks).where(tasks.c.owner == str(owner))
    return int((await tx.execute(statement)).scalar_one())


async def list_tasks(tx: Transaction, owner: str | None) -> list[Task]:
    """Return tasks by name; without an owner, those of all owners."""
    statement = select(tasks).order_by(tasks.c.name, tasks.c.id).limit(LISTED_MAX)
    if owner is not None:
        statement = statement.where(tasks.c.owner == owner)
    return [_to_task(row) for row in await tx.execute(statement)]


# --- cron ---


# A task whose owner cannot sign in any more does not run by itself.
_HAS_ACTIVE_OWNER = has_active_owner(tasks.c.user_id, tasks.c.owner_key_id)


async def list_due(tx: Transaction, limit: int, after: tuple[datetime, str] | None = None) -> list[Task]:
    """Return enabled tasks whose next time has come, the most overdue first, behind a position: a time and an id. Times
    that were deferred are left out until they are looked at again."""
    statement = select(tasks).where(
        tasks.c.is_enabled,
        tasks.c.next_run_at <= NOW,
        func.coalesce(tasks.c.next_look_at, NOW) <= NOW,
        _HAS_ACTIVE_OWNER,
    )
    if after is not None:
        statement = statement.where(tuple_(tasks.c.next_run_at, tasks.c.id) > after)
    ordered = statement.order_by(tasks.c.next_run_at, tasks.c.id).limit(limit)
    return [_to_task(row) for row in await tx.execute(ordered)]


async def claim_due(tx: Transaction, seen: Task) -> Task | None:
    """Lock a task that was seen to be due. None if it or its owner was disabled, or it was edited or claimed since."""
    statement = select(tasks).where(
        tasks.c.id == seen.id,
        tasks.c.is_enabled,
        tasks.c.revision == seen.revision,
        tasks.c.next_run_at == seen.next_run_at,
        _HAS_ACTIVE_OWNER,
    )
    row = (await tx.execute(statement.with_for_update(skip_locked=True))).one_or_none()
    return None if row is None else _to_task(row)


async def set_next_run(
    tx: Transaction,
    task_id: TaskId,
    next_run_at: datetime | None,
    *,
    note: str = "",
    started_at: datetime | None = None,
) -> None:
    """Record the outcome of a cron time, and the next one. `started_at` is the time that became a run."""
    values: dict[str, Any] = {"next_run_at": next_run_at, "next_look_at": None, "cron_note": note[:NOTE_MAX]}
    if started_at is not None:
        values["last_run_at"] = started_at
    await tx.execute(update(tasks).where(tasks.c.id == task_id).values(**values))


async def defer_run(tx: Transaction, task_id: TaskId, due_at: datetime, next_look_at: datetime, note: str) -> None:
    """Record that a cron time could not be started yet, and when it is tried again."""
    values = {"next_run_at": due_at, "next_look_at": next_look_at, "cron_note": note[:NOTE_MAX]}
    await tx.execute(update(tasks).where(tasks.c.id == task_id).values(**values))


async def list_open_cron_runs(tx: Transaction, task_id: TaskId) -> list[RunId]:
    """Return the runs of a task that cron has started and that have not ended, oldest first."""
    statement = (
        select(runs.c.id)
        .where(runs.c.task_id == task_id, runs.c.trigger == RunTrigger.CRON, runs.c.finished_at.is_(None))
        .order_by(runs.c.created_at, runs.c.id)
    )
    return [RunId(row.id) for row in await tx.execute(statement)]


# --- attachments ---


async def insert_media(tx: Transaction, run_id: RunId, media: Sequence[Media]) -> None:
    if media:
        rows = [
            {
                "run_id": run_id,
                "position": position,
                "kind": str(one.kind),
                "content_type": one.content_type[:100],
                "name": one.name[:255],
                "content": one.content,
            }
            for position, one in enumerate(media)
        ]
        await tx.execute(insert(run_media), rows)


async def list_media(tx: Transaction, run_id: RunId) -> list[Media]:
    statement = select(run_media).where(run_media.c.run_id == run_id).order_by(run_media.c.position)
    return [
        Media(kind=MediaKind(row.kind), content_type=row.content_type, name=row.name, content=bytes(row.content))
        for row in await tx.execute(statement)
    ]


_PRUNE_MEDIA = text("""
    WITH old AS (
        SELECT m.run_id, m.position, octet_length(m.content) AS size_bytes
          FROM run_media m JOIN runs r ON r.id = m.run_id
         WHERE r.finished_at IS NOT NULL
         LIMIT :limit
    ), counted AS (
        SELECT run_id, position, sum(size_bytes) OVER (ORDER BY run_id, position) - size_bytes AS bytes_before FROM old
    )
    DELETE FROM run_media m USING counted c
     WHERE m.run_id = c.run_id AND m.position = c.position AND c.bytes_before < :bytes
""")


async def prune_media(tx: Transaction) -> int:
    """Delete attachments of runs that have ended. Return how many; 0: there are no more."""
    return (await tx.execute(_PRUNE_MEDIA, {"limit": PRUNED_PER_PASS, "bytes": PRUNED_BYTES_PER_PASS})).rowcount
