"""Stores batches: a row beside the run, with a cursor that moves in the transaction that stores the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.sql import Select

from corral.domain.batch import Batch, BatchStatus
from corral.domain.errors import NotFound
from corral.domain.run import RunId, RunState
from corral.store.database import Transaction, as_uuid
from corral.store.run_schema import batches, runs

LISTED_MAX = 100
# How many batches one pass of the finalizer looks at.
FINALIZED_PER_PASS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """Values with which a batch of inference requests is inserted into PostgreSQL."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Mapping[str, str]
    window_s: float


async def insert_batch(tx: Transaction, run_id: RunId, new: NewBatch) -> None:
    expires = func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, new.window_s)
    await tx.execute(
        insert(batches).values(
            id=run_id,
            input_file_id=new.input_file_id,
            endpoint=new.endpoint,
            completion_window=new.completion_window,
            metadata=dict(new.metadata),
            expires_at=expires,
        )
    )


def _select_batches() -> Select[Any]:
    run_columns = (
        runs.c.owner,
        runs.c.state.label("run_state"),
        runs.c.error_code,
        runs.c.error_text,
        runs.c.finished_at,
    )
    return select(batches, *run_columns).join(runs, runs.c.id == batches.c.id)


def _to_batch(row: Any) -> Batch:
    state = RunState(row.run_state)
    return Batch(
        id=RunId(row.id),
        owner=row.owner,
        run_state=state,
        run_error_code=row.error_code or "",
        run_error_text=row.error_text or "",
        input_file_id=row.input_file_id,
        output_file_id=row.output_file_id,
        error_file_id=row.error_file_id,
        endpoint=row.endpoint,
        completion_window=row.completion_window,
        metadata=row.metadata,
        stored_status=BatchStatus(row.status),
        errors=row.errors,
        next_byte=row.next_byte,
        next_line=row.next_line,
        total=row.total,
        completed=row.completed,
        failed=row.failed,
        created_at=row.created_at,
        expires_at=row.expires_at,
        in_progress_at=row.in_progress_at,
        finalizing_at=row.finalizing_at,
        ended_at=row.ended_at,
        cancelling_at=row.finished_at if state is RunState.CANCELLED else None,
    )


async def find_batch(tx: Transaction, batch_id: str, *, owner: str | None = None, locks: bool = False) -> Batch | None:
    """Return a batch; with `owner`, only if it is theirs. `locks` keeps its row from changing until the transaction
    ends; the lock of its run comes before that."""
    known = as_uuid(batch_id)
    if known is None:
        return None
    statement = _select_batches().where(batches.c.id == known)
    if owner is not None:
        statement = statement.where(runs.c.owner == owner)
    if locks:
        statement = statement.with_for_update(of=batches)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_batch(row)


async def get_batch(tx: Transaction, batch_id: str, *, owner: str | None = None, locks: bool = False) -> Batch:
    found = await find_batch(tx, batch_id, owner=owner, locks=locks)
    if found is None:
        raise NotFound(
            f"There is no batch {batch_id[:80]!r}.",
            hint="`corral batches list` shows your batches.",
            code="batch_not_found",
        )
    return found


async def list_batches(
    tx: Transaction, owner: str, *, limit: int, after: tuple[datetime, str] | None = None
) -> list[Batch]:
    """List an owner's batches, newest first. `after` is the time and the id of the last one shown."""
    statement = _select_batches().where(runs.c.owner == owner)
    if after is not None:
        moment, last_id = after
        created = batches.c.created_at
        statement = statement.where((created < moment) | ((created == moment) & (batches.c.id < last_id)))
    ordered = statement.order_by(batches.c.created_at.desc(), batches.c.id.desc()).limit(limit)
    return [_to_batch(row) for row in await tx.execute(ordered)]


async def is_input(tx: Transaction, artifact_id: str) -> bool:
    """Return whether a batch that has not ended reads this file."""
    statement = select(batches.c.id).where(batches.c.input_file_id == artifact_id, batches.c.ended_at.is_(None))
    return (await tx.execute(statement.limit(1))).one_or_none() is not None


async def record_valid(tx: Transaction, batch_id: RunId, total: int) -> None:
    """Record that the input is well-formed, and how many requests it has."""
    await tx.execute(
        update(batches)
        .where(batches.c.id == batch_id, batches.c.status == BatchStatus.VALIDATING)
        .values(status=BatchStatus.IN_PROGRESS, total=total, in_progress_at=func.corral_now())
    )


async def record_errors(tx: Transaction, batch_id: RunId, errors: Sequence[Mapping[str, Any]]) -> None:
    """Record the faults of the input."""
    await tx.execute(
        update(batches)
        .where(batches.c.id == batch_id, batches.c.status == BatchStatus.VALIDATING)
        .values(errors=[dict(error) for error in errors])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMove:
    """Update of a batch's row: the new position in its input, and how the lines in between were answered."""

    to_byte: int
    to_line: int
    completed: int
    failed: int
    output_file_id: str | None
    error_file_id: str | None


async def move_cursor(tx: Transaction, batch_id: RunId, move: CursorMove) -> None:
    """Move the cursor. The caller holds the lock of the batch and has stored the answers in this transaction."""
    await tx.execute(
        update(batches)
        .where(batches.c.id == batch_id)
        .values(
            next_byte=move.to_byte,
            next_line=move.to_line,
            completed=batches.c.completed + move.completed,
            failed=batches.c.failed + move.failed,
            output_file_id=move.output_file_id,
            error_file_id=move.error_file_id,
        )
    )


async def record_finalizing(tx: Transaction, batch_id: RunId) -> None:
    """Record the time at which the run of a batch has ended."""
    await tx.execute(
        update(batches)
        .where(batches.c.id == batch_id, batches.c.finalizing_at.is_(None))
        .values(finalizing_at=func.corral_now())
    )


async def end_batch(tx: Transaction, batch_id: RunId, status: BatchStatus, total: int) -> bool:
    """End a batch, once. Return whether it was open."""
    assert status.is_final, "a batch ends in a final state"
    done = await tx.execute(
        update(batches)
        .where(batches.c.id == batch_id, batches.c.ended_at.is_(None))
        .values(status=status, total=total, ended_at=func.corral_now())
    )
    return bool(done.rowcount)


async def list_unfinalized(tx: Transaction, limit: int = FINALIZED_PER_PASS) -> list[Batch]:
    """Return open batches whose run has ended, oldest first."""
    statement = _select_batches().where(batches.c.ended_at.is_(None), runs.c.finished_at.is_not(None))
    return [_to_batch(row) for row in await tx.execute(statement.order_by(runs.c.finished_at).limit(limit))]
