"""Reads and writes for the dispatcher: claims with a lease and a fence, changes of targets, verdicts.

Guarantees: every statement here takes any number of rows. A write of an owner carries its fence and fails with
`LeaseLost` when another frontend has taken the operation over. Rows are locked operation first, then targets, each
in the order of their ids. While an operation is held its `due_at` is the end of the lease, so an earlier one means
that the operation was woken.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, null, select, text

from corral.domain.backend import Assignment, DesiredState
from corral.domain.errors import LeaseLost
from corral.domain.node import NodeId
from corral.domain.operation import OPEN, JobId, Operation, OperationId, OperationKind, OperationState, Progress, Target
from corral.policy.dispatch import OperationVerdict
from corral.policy.progress import AssignmentOutcome, TargetChange
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.operations import to_assignment, to_operation, to_target
from corral.store.schema import assignments, operation_targets, operations

# Text of other programs is cut to a readable length.
TEXT_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationLease:
    """The right of one frontend to write to an operation in PostgreSQL, until another frontend takes over."""

    id: OperationId
    owner: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedOperation:
    """An operation that a frontend has just claimed in PostgreSQL, and from whom it was taken over."""

    lease: OperationLease
    kind: OperationKind
    subject: str
    state: OperationState
    rev: int
    attempt: int
    # True if this very owner held the operation, and it was woken.
    is_mine: bool
    # True if the operation was queued until now.
    is_new: bool
    # The last owner, if it let the lease run out and is not this very process.
    lost_by: str | None


_CLAIM = text("""
    WITH due AS (
        SELECT o.id, o.owner, o.state,
               o.owner IS NOT DISTINCT FROM :owner AND o.lease_until >= corral_now() AS is_mine,
               CASE WHEN o.lease_until < corral_now() AND (o.owner <> :owner OR o.id <> ALL(CAST(:held AS uuid[])))
                    THEN o.owner END AS lost_by
          FROM jsonb_to_recordset(CAST(:pools AS jsonb)) AS p(kinds text[], free int)
         CROSS JOIN LATERAL (
               SELECT o.id, o.owner, o.state, o.lease_until FROM operations o
                WHERE o.due_at <= corral_now()
                  AND (o.lease_until IS NULL OR o.lease_until < corral_now() OR o.owner = :owner)
                  AND o.kind = ANY(p.kinds)
                  AND o.id <> ALL(CAST(:busy AS uuid[]))
                ORDER BY o.due_at, o.id
                LIMIT p.free
                  FOR UPDATE OF o SKIP LOCKED) o
    )
    UPDATE operations o SET
        owner = :owner,
        lease_until = corral_now() + make_interval(secs => :lease_s),
        due_at = corral_now() + make_interval(secs => :lease_s),
        fence = o.fence + CASE WHEN due.is_mine THEN 0 ELSE 1 END,
        attempt = CASE WHEN due.state = 'queued' THEN 1 WHEN due.lost_by IS NOT NULL THEN o.attempt + 1
                       ELSE o.attempt END,
        started_at = CASE WHEN due.state = 'queued' THEN COALESCE(o.started_at, corral_now()) ELSE o.started_at END,
        state = CASE WHEN due.state = 'queued' THEN 'running' ELSE o.state END
      FROM due
     WHERE o.id = due.id
    RETURNING o.id, o.fence, o.kind, o.subject, o.state, o.rev, o.attempt,
              due.is_mine, due.lost_by, due.state = 'queued' AS is_new
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Says which operations a frontend would claim in PostgreSQL: for each pool its kinds, and how many at most.

    `busy`: operations that the frontend is stepping at this moment. `held`: all that it drives; it may have let leases
    of them run out while the database was away.
    """

    owner: str
    pools: Sequence[tuple[Collection[OperationKind], int]]
    busy: Collection[OperationId] = ()
    held: Collection[OperationId] = ()


async def claim_operations(tx: Transaction, request: ClaimRequest, lease_s: float) -> list[ClaimedOperation]:
    """Claim due and free operations, oldest first, and operations of this owner that were woken."""
    rows = await tx.execute(
        _CLAIM,
        {
            "owner": request.owner,
            "pools": json.dumps([{"kinds": sorted(map(str, kinds)), "free": free} for kinds, free in request.pools]),
            "busy": list(request.busy),
            "held": list(request.held),
            "lease_s": lease_s,
        },
    )
    claimed = [
        ClaimedOperation(
            lease=OperationLease(id=OperationId(str(row.id)), owner=request.owner, fence=row.fence),
            kind=OperationKind(row.kind),
            subject=row.subject,
            state=OperationState(row.state),
            rev=row.rev,
            attempt=row.attempt,
            is_mine=row.is_mine,
            is_new=row.is_new,
            lost_by=row.lost_by,
        )
        for row in rows
    ]
    await outbox.append_many(
        tx,
        "operation.changed",
        [(c.lease.id, _make_event_data(c.lease.id, c.rev, c.state, c.kind, c.subject)) for c in claimed if c.is_new],
    )
    return claimed


# A row that a step has locked at this moment is left to the next pass: this one must not wait for any of a thousand
# steps, and all other leases with it. Such a lease has the time of several passes left.
_RENEW = text("""
    WITH mine AS MATERIALIZED (
        SELECT o.id FROM operations o
          JOIN jsonb_to_recordset(CAST(:held AS jsonb)) AS h(id uuid, fence bigint) ON h.id = o.id AND h.fence = o.fence
         WHERE o.owner = :owner
    ), free AS (
        SELECT o.id FROM operations o WHERE o.id IN (SELECT id FROM mine) AND o.owner = :owner
         ORDER BY o.id
           FOR NO KEY UPDATE OF o SKIP LOCKED
    ), renewed AS (
        UPDATE operations o SET
            lease_until = corral_now() + make_interval(secs => :lease_s),
            due_at = CASE WHEN o.due_at <= corral_now() THEN o.due_at
                          ELSE corral_now() + make_interval(secs => :lease_s) END,
            attempt = CASE WHEN o.id = ANY(CAST(:proven AS uuid[])) THEN 1 ELSE o.attempt END
          FROM free
         WHERE o.id = free.id
    )
    SELECT id FROM mine
""")


async def renew_leases(
    tx: Transaction,
    owner: str,
    leases: Collection[OperationLease],
    lease_s: float,
    proven: Collection[OperationId] = (),
) -> set[OperationId]:
    """Renew the leases of an owner, except for rows that are locked now, and return the operations that it still
    holds. `proven`: it drives them for so long that earlier owners were not lost because of them."""
    if not leases:
        return set()
    parameters = {"held": _render_leases(leases), "owner": owner, "lease_s": lease_s, "proven": list(proven)}
    rows = await tx.execute(_RENEW, parameters)
    return {OperationId(str(row.id)) for row in rows}


_HAND_OVER = text("""
    UPDATE operations SET owner = NULL, lease_until = NULL, due_at = corral_now()
     WHERE id IN (SELECT o.id FROM operations o
                   WHERE o.owner = :owner AND (CAST(:only AS uuid[]) IS NULL OR o.id = ANY(CAST(:only AS uuid[])))
                   ORDER BY o.id FOR UPDATE)
""")


async def hand_over(tx: Transaction, owner: str, only: Collection[OperationId] | None = None) -> None:
    """Release all leases of an owner, or only these: the next owner need not wait for them to run out."""
    await tx.execute(_HAND_OVER, {"owner": owner, "only": None if only is None else list(only)})


def _render_leases(leases: Collection[OperationLease]) -> str:
    return json.dumps([{"id": hold.id, "fence": hold.fence} for hold in leases])


async def require_lease(tx: Transaction, lease: OperationLease) -> None:
    """Make this transaction fail unless the operation is still held; no other frontend takes it before the end."""
    statement = (
        select(operations.c.id)
        .where(operations.c.id == lease.id, operations.c.owner == lease.owner, operations.c.fence == lease.fence)
        .with_for_update(key_share=True)
    )
    _require_row((await tx.execute(statement)).one_or_none())


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedOperation:
    """An operation as its leasing frontend reads it, with pending engine backend changes and the database's time."""

    operation: Operation
    assignments: Mapping[NodeId, Assignment]
    now: datetime


async def read_leased(
    tx: Transaction, lease: OperationLease, *, locks: bool = False, has_assignments: bool = True
) -> LeasedOperation:
    """Return the operation with its targets and their assignments. With `locks`, it cannot change until the
    transaction ends. Without `has_assignments`, its kind has none."""
    statement = select(operations, func.corral_now().label("now")).where(
        operations.c.id == lease.id, operations.c.owner == lease.owner, operations.c.fence == lease.fence
    )
    if locks:
        statement = statement.with_for_update(key_share=True)
    row = _require_row((await tx.execute(statement)).one_or_none())
    targets = await tx.execute(
        select(operation_targets)
        .where(operation_targets.c.operation_id == lease.id)
        .order_by(operation_targets.c.wave, operation_targets.c.node_name, operation_targets.c.node)
    )
    rows: Iterable[Any] = ()
    if has_assignments:
        rows = await tx.execute(select(assignments).where(assignments.c.operation_id == lease.id))
    return LeasedOperation(
        operation=to_operation(row, [to_target(target) for target in targets]),
        assignments={NodeId(str(item.node_id)): to_assignment(item) for item in rows},
        now=row.now,
    )


_LOCK_FOR_JOBS = text("""
    SELECT o.id FROM operations o
     WHERE o.id IN (SELECT t.operation_id FROM operation_targets t WHERE t.job_id = ANY(CAST(:jobs AS uuid[])))
     ORDER BY o.id
       FOR NO KEY UPDATE
""")
_BUILDS = ("build", "previous")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTarget:
    """The operation's node to which a worker's job belongs, found in PostgreSQL by the job's id."""

    target: Target
    kind: OperationKind
    operation_state: OperationState
    is_reaped: bool
    desired: DesiredState | None
    attempts: int


async def lock_jobs(tx: Transaction, job_ids: Collection[JobId]) -> dict[JobId, JobTarget]:
    """Return the targets of these jobs; they and their operations cannot change until the transaction ends."""
    if not job_ids:
        return {}
    await tx.execute(_LOCK_FOR_JOBS, {"jobs": list(job_ids)})
    columns = [column for column in operation_targets.c if column.name not in _BUILDS]
    rows = await tx.execute(
        select(
            *columns,
            *(null().label(name) for name in _BUILDS),
            operations.c.kind,
            operations.c.state.label("operation_state"),
            operations.c.reaped,
            assignments.c.desired,
            assignments.c.attempts,
        )
        .join(operations, operations.c.id == operation_targets.c.operation_id)
        .outerjoin(
            assignments,
            (assignments.c.node_id == operation_targets.c.node)
            & (assignments.c.operation_id == operation_targets.c.operation_id),
        )
        .where(operation_targets.c.job_id.in_(list(job_ids)))
        .order_by(operation_targets.c.operation_id, operation_targets.c.node)
        .with_for_update(of=operation_targets, key_share=True)
    )
    return {
        JobId(str(row.job_id)): JobTarget(
            target=to_target(row),
            kind=OperationKind(row.kind),
            operation_state=OperationState(row.operation_state),
            is_reaped=row.reaped,
            desired=DesiredState(row.desired) if row.desired else None,
            attempts=row.attempts or 0,
        )
        for row in rows
    }


_CHANGED = """
    SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS c(
        operation_id uuid, node uuid, state text, phase text, percent double precision, current_bytes bigint,
        total_bytes bigint, file_name text, attempt integer, job_id uuid, seq bigint, error_code text,
        error_text text, is_reported boolean, is_contacted boolean, is_final boolean,
        outcome text, attempts integer, pause_s double precision)
"""
_WRITE_TARGETS = text(f"""
    WITH c AS ({_CHANGED})
    UPDATE operation_targets t SET
        state = c.state, phase = c.phase, percent = c.percent, current_bytes = c.current_bytes,
        total_bytes = c.total_bytes, file_name = c.file_name, attempt = c.attempt, job_id = c.job_id, seq = c.seq,
        error_code = c.error_code, error_text = c.error_text,
        heard_at = CASE WHEN c.is_reported THEN corral_now() ELSE t.heard_at END,
        contacted_at = CASE WHEN c.is_contacted THEN corral_now() ELSE t.contacted_at END,
        finished_at = CASE WHEN c.is_final THEN corral_now() END
      FROM c
     WHERE t.operation_id = c.operation_id AND t.node = c.node
       AND t.state IN ('queued', 'working', 'unconfirmed')
""")  # noqa: S608 - no value in it
_WRITE_ASSIGNMENTS = text(f"""
    WITH c AS ({_CHANGED})
    UPDATE assignments a SET
        attempts = c.attempts, error_code = c.error_code, error_text = c.error_text, updated_at = corral_now(),
        next_retry_at = CASE WHEN c.outcome = 'later' THEN corral_now() + make_interval(secs => c.pause_s) END,
        state = CASE WHEN c.outcome = 'dead' THEN 'dead' ELSE a.state END
      FROM c
     WHERE a.node_id = c.node AND a.operation_id = c.operation_id AND c.outcome IN ('later', 'dead')
    RETURNING a.node_id, a.backend, a.operation_id, a.state
""")  # noqa: S608 - no value in it
_END_ASSIGNMENTS = text(f"""
    WITH c AS ({_CHANGED})
    DELETE FROM assignments a USING c
     WHERE a.node_id = c.node AND a.operation_id = c.operation_id AND c.outcome = 'gone'
    RETURNING a.node_id, a.backend, a.operation_id, c.state AS reason
""")  # noqa: S608 - no value in it


async def write_changes(tx: Transaction, changes: Sequence[TargetChange], *, is_contacted: bool = False) -> None:
    """Write changes of targets and their assignments. `is_contacted`: their nodes were contacted just now."""
    if not changes:
        return
    parameters = {"batch": json.dumps([_make_row(change, is_contacted=is_contacted) for change in changes])}
    await tx.execute(_WRITE_TARGETS, parameters)
    if any(change.assignment_outcome in (AssignmentOutcome.LATER, AssignmentOutcome.DEAD) for change in changes):
        given_up = [row for row in await tx.execute(_WRITE_ASSIGNMENTS, parameters) if row.state == "dead"]
        await outbox.append_many(tx, "assignment.dead", [_make_assignment_event(row) for row in given_up])
    if any(change.assignment_outcome is AssignmentOutcome.GONE for change in changes):
        ended = list(await tx.execute(_END_ASSIGNMENTS, parameters))
        await outbox.append_many(
            tx, "assignment.ended", [_make_assignment_event(row, reason=row.reason) for row in ended]
        )


def _make_row(change: TargetChange, *, is_contacted: bool) -> dict[str, Any]:
    target = change.target
    return {
        "operation_id": target.operation_id,
        "node": target.node,
        "state": target.state,
        "attempt": target.attempt,
        "job_id": target.job_id,
        "seq": target.seq,
        "error_code": target.fault.code[:64] if target.fault else None,
        "error_text": target.fault.text[:TEXT_MAX] if target.fault else None,
        "is_reported": change.is_from_worker,
        "is_contacted": is_contacted,
        "is_final": target.state.is_final,
        "outcome": change.assignment_outcome,
        "attempts": change.attempts,
        "pause_s": change.pause_s,
    } | _make_progress_row(target.progress)


def _make_progress_row(progress: Progress) -> dict[str, Any]:
    return {
        "phase": progress.phase,
        "percent": progress.percent,
        "current_bytes": progress.current_bytes,
        "total_bytes": progress.total_bytes,
        "file_name": progress.file_name[:255],
    }


def _make_assignment_event(row: Any, **more: str) -> tuple[str, dict[str, Any]]:
    node_id = str(row.node_id)
    return node_id, {"node_id": node_id, "backend": row.backend, "id": str(row.operation_id)} | more


_MARK_SENT = text("""
    UPDATE operation_targets SET contacted_at = corral_now()
     WHERE operation_id = CAST(:operation_id AS uuid) AND job_id = ANY(CAST(:jobs AS uuid[]))
""")


async def mark_sent(tx: Transaction, lease: OperationLease, job_ids: Collection[JobId]) -> None:
    """Record that workers are sent these jobs, before they are: from now on they may have begun. The caller has locked
    the operation."""
    if job_ids:
        await tx.execute(_MARK_SENT, {"operation_id": lease.id, "jobs": list(job_ids)})


_TOO_LATE = text("""
    UPDATE operation_targets t SET seq = c.seq
      FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS c(job_id uuid, seq bigint)
     WHERE t.job_id = c.job_id AND t.state = 'cancelled' AND t.seq < c.seq
    RETURNING t.operation_id, t.node_name
""")


async def mark_too_late(tx: Transaction, done: Mapping[JobId, int]) -> list[tuple[OperationId, str]]:
    """Mark jobs that were done although they had been cancelled, with the number of their last event; each is
    reported once."""
    if not done:
        return []
    batch = json.dumps([{"job_id": job_id, "seq": seq} for job_id, seq in sorted(done.items())])
    rows = await tx.execute(_TOO_LATE, {"batch": batch})
    return [(OperationId(str(row.operation_id)), row.node_name) for row in rows]


_STOPPED = text("""
    UPDATE operation_targets SET stop_wanted = false, contacted_at = corral_now()
     WHERE stop_wanted AND job_id = ANY(CAST(:jobs AS uuid[]))
""")


async def write_stopped(tx: Transaction, job_ids: Collection[JobId]) -> None:
    """Record that the workers of these jobs have got their stop command."""
    if job_ids:
        await tx.execute(_STOPPED, {"jobs": list(job_ids)})


_BACK = text("""
    WITH w AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS w(node uuid, backend text, job_id uuid)
    ), made AS (
        INSERT INTO assignments (node_id, backend, desired, operation_id)
        SELECT w.node, w.backend, 'rolled_back', CAST(:operation_id AS uuid)
          FROM w JOIN nodes n ON n.id = w.node AND n.drained_at IS NULL
         ORDER BY w.node
        ON CONFLICT (node_id, backend) DO NOTHING
        RETURNING node_id, generation
    )
    UPDATE operation_targets t SET
        state = CASE WHEN made.node_id IS NULL THEN t.state ELSE 'queued' END,
        is_rollback = made.node_id IS NOT NULL,
        previous = CASE WHEN made.node_id IS NULL THEN NULL ELSE t.previous END,
        job_id = w.job_id, generation = COALESCE(made.generation, t.generation),
        seq = 0, attempt = 0, phase = NULL, error_code = NULL, error_text = NULL, heard_at = NULL, contacted_at = NULL,
        finished_at = CASE WHEN made.node_id IS NULL THEN t.finished_at END
      FROM w LEFT JOIN made ON made.node_id = w.node
     WHERE t.operation_id = CAST(:operation_id AS uuid) AND t.node = w.node AND t.state = 'success'
    RETURNING t.node_name, t.is_rollback
""")


async def roll_back(
    tx: Transaction, operation_id: OperationId, rollbacks: Iterable[tuple[NodeId, str, JobId]]
) -> list[str]:
    """Assign the previous version to nodes, and return the names of those that roll back.

    A node with a newer assignment, or that was drained, stays as it is and is not assigned again.
    """
    batch = json.dumps([{"node": node, "backend": backend, "job_id": job} for node, backend, job in rollbacks])
    rows = await tx.execute(_BACK, {"batch": batch, "operation_id": operation_id})
    return sorted(row.node_name for row in rows if row.is_rollback)


async def read_operations(tx: Transaction, ids: Collection[OperationId]) -> list[Operation]:
    """Return operations with their targets, without the builds of the targets."""
    if not ids:
        return []
    columns = [column for column in operation_targets.c if column.name not in _BUILDS]
    targets: dict[str, list[Target]] = {}
    rows = await tx.execute(
        select(*columns, *(null().label(name) for name in _BUILDS))
        .where(operation_targets.c.operation_id.in_(list(ids)))
        .order_by(operation_targets.c.node_name, operation_targets.c.node)
    )
    for row in rows:
        targets.setdefault(str(row.operation_id), []).append(to_target(row))
    found = await tx.execute(select(operations).where(operations.c.id.in_(list(ids))).order_by(operations.c.id))
    return [to_operation(row, targets.get(str(row.id), [])) for row in found]


_WRITE_PROGRESS = text("""
    WITH p AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS p(
            id uuid, phase text, percent double precision, current_bytes bigint, total_bytes bigint, file_name text)
    )
    UPDATE operations o SET
        percent = GREATEST(o.percent, p.percent), phase = p.phase, current_bytes = p.current_bytes,
        total_bytes = p.total_bytes, file_name = p.file_name
      FROM p
     WHERE o.id = p.id AND o.state = ANY(:open)
    RETURNING o.id, o.rev
""")


async def write_progress(tx: Transaction, rows: Mapping[OperationId, Progress]) -> dict[OperationId, int]:
    """Write the overall progress of operations; return the new revision of each that has not ended."""
    if not rows:
        return {}
    batch = json.dumps([{"id": key} | _make_progress_row(progress) for key, progress in sorted(rows.items())])
    written = await tx.execute(_WRITE_PROGRESS, {"batch": batch, "open": [str(state) for state in OPEN]})
    return {OperationId(str(row.id)): row.rev for row in written}


# `due_at`: an operation that was woken meanwhile stays due.
_VERDICT = text("""
    WITH written AS (UPDATE operations SET
        state = :state, message = :message, percent = GREATEST(percent, :percent), phase = :phase,
        current_bytes = :current_bytes, total_bytes = :total_bytes, file_name = :file_name,
        error_code = :error_code, error_text = :error_text, reaped = :reaped,
        finished_at = CASE WHEN :is_end THEN COALESCE(finished_at, corral_now()) END,
        owner = CASE WHEN :keeps THEN owner END,
        lease_until = CASE WHEN :keeps THEN lease_until END,
        due_at = CASE WHEN :keeps THEN due_at
                      ELSE LEAST(CAST(:next_at AS timestamptz), CASE WHEN due_at <= corral_now() THEN due_at END) END
     WHERE id = CAST(:id AS uuid) AND owner = :owner AND fence = :fence
    RETURNING id, rev, kind, subject, state
    ), event AS (
        INSERT INTO outbox (kind, key, data)
        SELECT 'operation.changed', w.id::text,
               jsonb_build_object('id', w.id::text, 'rev', w.rev, 'state', w.state, 'kind', w.kind,
                                  'subject', w.subject)
          FROM written w
         WHERE :is_change
    )
    SELECT rev FROM written
""")
_LET_GO = text("""
    UPDATE operations SET
        owner = NULL, lease_until = NULL,
        due_at = LEAST(CAST(:next_at AS timestamptz), CASE WHEN due_at <= corral_now() THEN due_at END)
     WHERE id = CAST(:id AS uuid) AND owner = :owner AND fence = :fence
    RETURNING rev
""")
_ENDS = frozenset(
    {OperationState.COMPLETED, OperationState.FAILED, OperationState.CANCELLED, OperationState.SUPERSEDED}
)


async def write_verdict(
    tx: Transaction, lease: OperationLease, operation: Operation, verdict: OperationVerdict, *, is_reaped: bool = False
) -> int:
    """Write the state and the message of an operation, under its fence, with the event of a changed state; the lease is
    kept while it is moving."""
    written = await tx.execute(
        _VERDICT,
        {
            "id": lease.id,
            "owner": lease.owner,
            "fence": lease.fence,
            "state": verdict.state,
            "message": verdict.message[:TEXT_MAX],
            "error_code": verdict.fault.code[:64] if verdict.fault else None,
            "error_text": verdict.fault.text[:TEXT_MAX] if verdict.fault else None,
            "reaped": is_reaped,
            "is_end": verdict.state in _ENDS,
            "keeps": verdict.is_moving,
            "next_at": verdict.next_at,
            "is_change": verdict.state is not operation.state,
        }
        | _make_progress_row(verdict.progress),
    )
    row = _require_row(written.one_or_none())
    tx.wrote_events = tx.wrote_events or verdict.state is not operation.state
    return int(row.rev)


async def release_lease(tx: Transaction, lease: OperationLease, next_at: datetime | None = None) -> None:
    """Release the lease and change nothing else: an ended operation has only a worker left to notify."""
    parameters = {"id": lease.id, "owner": lease.owner, "fence": lease.fence, "next_at": next_at}
    _require_row((await tx.execute(_LET_GO, parameters)).one_or_none())


def _require_row(row: Any) -> Any:
    if row is None:
        raise LeaseLost("Another frontend has taken this operation over.")
    return row


def _make_event_data(
    key: OperationId, rev: int, state: OperationState, kind: OperationKind, subject: str
) -> dict[str, Any]:
    return {"id": key, "rev": rev, "state": str(state), "kind": str(kind), "subject": subject}


_NOTE_BUS = text("""
    UPDATE nodes n SET bus_ok = :on_bus, bus_since = corral_now(), updated_at = corral_now()
      FROM (SELECT id FROM nodes
             WHERE id = ANY(CAST(:ids AS uuid[])) AND bus_ok IS DISTINCT FROM :on_bus
             ORDER BY id FOR NO KEY UPDATE) AS news
     WHERE n.id = news.id
    RETURNING n.id, n.name
""")


async def note_bus(tx: Transaction, node_ids: Collection[NodeId], *, is_on_bus: bool) -> None:
    """Record which nodes are on the bus; only a change emits an event."""
    if not node_ids:
        return
    rows = await tx.execute(_NOTE_BUS, {"ids": sorted(node_ids), "on_bus": is_on_bus})
    await outbox.append_many(
        tx, "node.bus_changed", [(str(row.id), {"name": row.name, "on_bus": is_on_bus}) for row in rows]
    )
