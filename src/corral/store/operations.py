"""Stores operations: written before their id is returned, read whole, kept as history, and pruned at last.

Guarantee: a list is one statement, so an operation and its targets are of the same moment. States change elsewhere
(`store/assignments.py`, `store/dispatch.py`, `operations/actions.py`); the trigger of the table enforces the
transitions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    String,
    and_,
    cast,
    exists,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.backend import Assignment, AssignmentState, DesiredState, InstalledBackend
from corral.domain.errors import Conflict, NotFound
from corral.domain.node import NodeId
from corral.domain.operation import (
    ACTIVE,
    LISTED,
    SETTLED,
    Fault,
    JobId,
    JobPhase,
    Operation,
    OperationId,
    OperationKind,
    OperationNote,
    OperationState,
    Progress,
    Target,
    TargetState,
)
from corral.store import outbox
from corral.store.database import Transaction, as_uuid, is_storable
from corral.store.schema import ID, NOW, TIME, nodes, operation_events, operation_targets, operations


def to_operation(row: Any, targets: Iterable[Target] = ()) -> Operation:
    return Operation(
        id=OperationId(row.id),
        kind=OperationKind(row.kind),
        subject=row.subject,
        scope_key=row.scope_key,
        scope_node=NodeId(row.scope_node) if row.scope_node else None,
        scope_node_name=row.scope_node_name,
        request=row.request,
        state=OperationState(row.state),
        progress=_parse_progress(row),
        message=row.message,
        fault=_parse_fault(row),
        owner=row.owner,
        fence=row.fence,
        attempt=row.attempt,
        is_reaped=row.reaped,
        after_id=OperationId(row.after_id) if row.after_id else None,
        retry_of=OperationId(row.retry_of) if row.retry_of else None,
        created_by=row.created_by,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        updated_at=row.updated_at,
        deadline_at=row.deadline_at,
        dismissed_at=row.dismissed_at,
        dismissed_by=row.dismissed_by,
        rev=row.rev,
        targets=tuple(targets),
    )


def to_target(row: Any) -> Target:
    return Target(
        operation_id=OperationId(row.operation_id),
        node=NodeId(row.node),
        node_name=row.node_name,
        wave=row.wave,
        state=TargetState(row.state),
        progress=_parse_progress(row),
        attempt=row.attempt,
        job_id=JobId(row.job_id),
        seq=row.seq,
        generation=row.generation,
        build=row.build,
        previous=row.previous,
        fault=_parse_fault(row),
        stop_wanted=row.stop_wanted,
        keeps_partial=row.keeps_partial,
        is_rollback=row.is_rollback,
        contacted_at=row.contacted_at,
        heard_at=row.heard_at,
        finished_at=row.finished_at,
    )


def to_assignment(row: Any) -> Assignment:
    return Assignment(
        node_id=NodeId(row.node_id),
        backend=row.backend,
        desired=DesiredState(row.desired),
        generation=row.generation,
        operation_id=OperationId(row.operation_id),
        build=row.build,
        state=AssignmentState(row.state),
        attempts=row.attempts,
        next_retry_at=row.next_retry_at,
        fault=_parse_fault(row),
        created_at=row.created_at,
    )


def to_installed(row: Any) -> InstalledBackend:
    return InstalledBackend(
        name=row.name,
        meta=row.meta,
        alias=row.alias,
        version=row.version,
        digest=row.digest,
        uri=row.uri,
        gallery=row.gallery,
        generation=row.generation,
        size_bytes=row.size_bytes,
        previous_version=row.previous_version,
        is_system=row.is_system,
        installed_at=row.installed_at,
    )


def _parse_progress(row: Any) -> Progress:
    return Progress(
        percent=row.percent,
        phase=JobPhase(row.phase) if row.phase else None,
        current_bytes=row.current_bytes,
        total_bytes=row.total_bytes,
        file_name=row.file_name,
    )


def _parse_fault(row: Any) -> Fault | None:
    return Fault(code=row.error_code, text=row.error_text or "") if row.error_code else None


LISTED_MAX = 1000
HISTORY_MAX = 200
# So many nodes of an ended operation are named, the others are counted.
RECORD_NODES_MAX = 20
NOTES_MAX = 1000
NOTE_LENGTH_MAX = 2000
# Limits one pass of the pruner, so that it stays short; the rest is for the next one.
PRUNED_PER_PASS = 1000
_TARGET_TIMES = ("contacted_at", "heard_at", "finished_at")
# Runs have lists, a retention and counts of their own (`store/runs.py`).
_IS_NO_RUN = operations.c.kind.notlike("run\\_%")
_ACTIVE_SCOPE = text("state IN ('queued', 'running', 'waiting_on_nodes') AND after_id IS NULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    """Values with which an operation is inserted into PostgreSQL."""

    id: OperationId
    kind: str
    subject: str
    scope_key: str
    scope_node: str | None
    scope_node_name: str
    request: Mapping[str, Any]
    created_by: str
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """Which frontend holds the lease of an operation from its insertion on, and for how long. Without an owner, the
    operation has been looked at and waits: the next look is so much later, or when it is woken."""

    owner: str | None
    lease_s: float


# The fence of the first lease of an operation.
FIRST_FENCE = 1


async def lock_scope(tx: Transaction, scope_key: str) -> None:
    """Make admissions to one scope wait for each other, also those that queue behind, which the index does not
    cover."""
    await tx.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended('operation ' || :key, 0))"), {"key": scope_key}
    )


async def insert(
    tx: Transaction,
    new: NewOperation,
    *,
    message: str = "",
    after_id: OperationId | None = None,
    retry_of: OperationId | None = None,
    terms: LeaseTerms | None = None,
) -> Operation | None:
    """Insert an operation with its event; None if the scope has an active one: the unique index decides. With `terms`
    it is inserted as if it had been claimed at once; it must wait behind no other."""
    assert terms is None or after_id is None, "an operation that waits behind another one cannot be claimed"
    deadline = None if new.deadline_s is None else func.corral_now() + _make_interval(new.deadline_s)
    statement = postgres_insert(operations).values(
        id=new.id,
        kind=new.kind,
        subject=new.subject,
        scope_key=new.scope_key,
        scope_node=new.scope_node,
        scope_node_name=new.scope_node_name,
        request=dict(new.request),
        state=OperationState.QUEUED,
        message=message,
        created_by=new.created_by[:255],
        deadline_at=deadline,
        after_id=after_id,
        retry_of=retry_of,
        # An operation that waits behind another has nothing to do until that one has ended; the table's trigger sets
        # the time.
        due_at=None if after_id else NOW,
    )
    if terms is not None:
        lease_end = func.corral_now() + _make_interval(terms.lease_s)
        statement = statement.values(
            state=OperationState.RUNNING,
            owner=terms.owner,
            fence=FIRST_FENCE,
            attempt=1,
            lease_until=lease_end if terms.owner is not None else None,
            due_at=lease_end,
            started_at=NOW,
        )
    statement = statement.on_conflict_do_nothing(index_elements=["scope_key"], index_where=_ACTIVE_SCOPE)
    made = statement.returning(operations).cte("made")
    data = func.jsonb_build_object(
        *("id", cast(made.c.id, String), "rev", made.c.rev, "state", made.c.state),
        *("kind", made.c.kind, "subject", made.c.subject),
    )
    event = outbox.make_part(tx, "operation.created", cast(made.c.id, String), data)
    row = (await tx.execute(select(made).add_cte(event))).one_or_none()
    return None if row is None else to_operation(row)


def _select_operations(*, with_builds: bool) -> Select[Any]:
    """Select operations with their targets, by the names of their nodes."""
    item = "to_jsonb(t)" if with_builds else "to_jsonb(t) - '{build,previous}'::text[]"
    targets = literal_column(
        f"(SELECT coalesce(jsonb_agg({item} ORDER BY t.node_name, t.node), '[]'::jsonb)"  # noqa: S608 - no value in it
        " FROM operation_targets t WHERE t.operation_id = operations.id)",
        JSONB,
    )
    return select(operations, targets.label("target_rows"))


def _to_operation_with_targets(row: Any) -> Operation:
    return to_operation(row, [to_target(_to_target_row(item)) for item in row.target_rows])


def _to_target_row(item: Mapping[str, Any]) -> SimpleNamespace:
    times = {name: datetime.fromisoformat(item[name]) for name in _TARGET_TIMES if item[name]}
    return SimpleNamespace(**({"build": None, "previous": None} | dict(item) | times))


async def find(tx: Transaction, operation_id: str) -> Operation | None:
    """Return the operation with its targets and their builds, or None."""
    known = as_uuid(operation_id)
    if known is None:
        return None
    row = (await tx.execute(_select_operations(with_builds=True).where(operations.c.id == known))).one_or_none()
    return None if row is None else _to_operation_with_targets(row)


async def get(tx: Transaction, operation_id: str) -> Operation:
    found = await find(tx, operation_id)
    if found is None:
        raise _make_unknown_error(operation_id)
    return found


async def lock(tx: Transaction, operation_id: str) -> Operation:
    """Read an operation and keep it from changing until the transaction ends."""
    known = as_uuid(operation_id)
    # Rows that refer to it (operations that wait behind it) may be written meanwhile: its key does not change.
    statement = select(operations.c.id).where(operations.c.id == known).with_for_update(key_share=True)
    if known is None or (await tx.execute(statement)).one_or_none() is None:
        raise _make_unknown_error(operation_id)
    return await get(tx, known)


def _make_unknown_error(operation_id: str) -> NotFound:
    return NotFound(
        f"There is no operation {operation_id[:80]!r}.",
        hint="`corral operations list` and `corral operations history` show them.",
        code="operation_not_found",
    )


async def list_active(tx: Transaction, scope_key: str) -> list[Operation]:
    """Return the active operations of a scope: first the one that runs or will run next, last the one furthest
    behind."""
    statement = select(operations).where(operations.c.scope_key == scope_key, operations.c.state.in_(sorted(ACTIVE)))
    found = [to_operation(row) for row in await tx.execute(statement.order_by(operations.c.id))]
    return _order_chain(found)


def _order_chain(found: Sequence[Operation]) -> list[Operation]:
    behind = {operation.after_id: operation for operation in found if operation.after_id}
    chain = [operation for operation in found if operation.after_id is None]
    while chain and (following := behind.pop(chain[-1].id, None)):
        chain.append(following)
    return chain + list(behind.values())


async def keep_active(tx: Transaction, operation_id: OperationId) -> bool:
    """Keep an operation from ending until the transaction does, so that one that is inserted behind it is promoted.
    Return whether it is active: a transaction that ends it now is waited for."""
    statement = select(operations.c.id).where(operations.c.id == operation_id, operations.c.state.in_(sorted(ACTIVE)))
    return (await tx.execute(statement.with_for_update(read=True))).one_or_none() is not None


async def list_paused(tx: Transaction, scope_key: str) -> list[Operation]:
    """Return the paused operations of a scope, newest first."""
    statement = select(operations).where(
        operations.c.scope_key == scope_key, operations.c.state == OperationState.PAUSED
    )
    newest_first = statement.order_by(operations.c.created_at.desc(), operations.c.id.desc()).limit(LISTED_MAX)
    return [to_operation(row) for row in await tx.execute(newest_first)]


async def find_latest_for_node(
    tx: Transaction, node_id: str, scope_key: str, kind: str, *, ended_within_s: float
) -> Operation | None:
    """Return the newest operation of a scope and kind that is about this node alone and goes on, is paused, or ended
    at most so many seconds ago."""
    statement = (
        select(operations)
        .where(
            operations.c.scope_key == scope_key,
            operations.c.kind == kind,
            operations.c.scope_node == node_id,
            or_(operations.c.finished_at.is_(None), operations.c.finished_at > NOW - _make_interval(ended_within_s)),
        )
        .order_by(operations.c.created_at.desc())
        .limit(1)
    )
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else to_operation(row)


async def list_live(tx: Transaction) -> list[Operation]:
    """Return active operations and undismissed failures, without runs; newest first, without the builds of the
    targets."""
    statement = (
        _select_operations(with_builds=False)
        .where(operations.c.state.in_(sorted(LISTED)), operations.c.dismissed_at.is_(None), _IS_NO_RUN)
        .order_by(operations.c.created_at.desc(), operations.c.id.desc())
        .limit(LISTED_MAX)
    )
    return [_to_operation_with_targets(row) for row in await tx.execute(statement)]


_IS_ENDED = or_(
    operations.c.state.in_(sorted(SETTLED)),
    (operations.c.state == OperationState.FAILED) & operations.c.dismissed_at.is_not(None),
)


_TARGETS_OF = "FROM operation_targets t WHERE t.operation_id = operations.id"
_NODE_NAMES = literal_column(
    "(SELECT coalesce(jsonb_agg(named.node_name), '[]'::jsonb)"  # noqa: S608 - no value in it
    f" FROM (SELECT t.node_name {_TARGETS_OF} ORDER BY t.node_name, t.node LIMIT {RECORD_NODES_MAX}) named)",
    JSONB,
)
_NODE_COUNT = literal_column(f"(SELECT count(*) {_TARGETS_OF})", BigInteger)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedOperation:
    """An ended operation as read from PostgreSQL for the history: first node names and their number."""

    operation: Operation
    node_names: tuple[str, ...]
    node_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Filters a query of ended operations by node, outcome, kind, text and time; an empty field matches all.

    `node` matches operations that the node was a target of, alone or among others. A node that exists is looked up by
    its id, so that an earlier node of the same name does not match; a removed one matches by its former id or name.
    `outcome` is the outcome that people see: an operation with an error counts as failed. `search` is a part of a name,
    node, error, message, id or user, in upper or lower case. `since` is inclusive and `until` exclusive, by the end.
    """

    node: str = ""
    outcome: str = ""
    kinds: frozenset[str] = frozenset()
    search: str = ""
    since: datetime | None = None
    until: datetime | None = None


EVERYTHING = HistoryFilter()


async def list_history(
    tx: Transaction,
    limit: int = 50,
    before: tuple[datetime, str] | None = None,
    matching: HistoryFilter = EVERYTHING,
) -> list[EndedOperation]:
    """List ended operations without runs, last ended first. `before` is the end and the id of the last one shown."""
    statement = select(operations, _NODE_NAMES.label("node_names"), _NODE_COUNT.label("node_count"))
    conditions = _make_conditions(matching)
    statement = statement.where(_IS_ENDED, _IS_NO_RUN, operations.c.finished_at.is_not(None), *conditions)
    if matching.node:
        statement = statement.where(await _is_of(tx, matching.node))
    if before is not None:
        position = tuple_(literal(before[0], TIME), literal(as_uuid(before[1]), ID))
        statement = statement.where(tuple_(operations.c.finished_at, operations.c.id) < position)
    ordered = statement.order_by(operations.c.finished_at.desc(), operations.c.id.desc())
    return [
        EndedOperation(operation=to_operation(row), node_names=tuple(row.node_names), node_count=row.node_count)
        for row in await tx.execute(ordered.limit(max(1, min(limit, HISTORY_MAX))))
    ]


def _make_conditions(matching: HistoryFilter) -> Iterator[ColumnElement[bool]]:
    if matching.outcome:
        has_failed = or_(operations.c.error_code.is_not(None), operations.c.state == OperationState.FAILED)
        is_failed = matching.outcome == OperationState.FAILED
        yield has_failed if is_failed else and_(operations.c.state == matching.outcome, not_(has_failed))
    if matching.kinds:
        yield operations.c.kind.in_(sorted(matching.kinds))
    if matching.search:
        yield _matches_search(matching.search)
    if matching.since is not None:
        yield operations.c.finished_at >= matching.since
    if matching.until is not None:
        yield operations.c.finished_at < matching.until


def _matches_search(search: str) -> ColumnElement[bool]:
    """Match operations with `search` in one of the texts that people see of them."""
    if not is_storable(search):
        return literal(value=False)
    columns = ("subject", "scope_node_name", "error_text", "message", "created_by")
    in_own = [operations.c[name].icontains(search, autoescape=True) for name in columns]
    in_id = cast(operations.c.id, String).icontains(search, autoescape=True)
    has_name = operation_targets.c.node_name.icontains(search, autoescape=True)
    of_target = operation_targets.c.operation_id == operations.c.id
    return or_(*in_own, in_id, exists().where(of_target, has_name))


async def _is_of(tx: Transaction, reference: str) -> ColumnElement[bool]:
    """Return the condition that an operation was about this node."""
    if not is_storable(reference):
        return literal(value=False)
    known = as_uuid(reference)
    node_id = None
    for is_meant in ([nodes.c.id == known] if known else []) + [nodes.c.name == reference]:
        node_id = node_id or (await tx.execute(select(nodes.c.id).where(is_meant))).scalar_one_or_none()
    node_id = node_id or known
    of_target = operation_targets.c.operation_id == operations.c.id
    if node_id is not None:
        # Not EXISTS: that one reads every target of every operation first. This looks each up by the primary key, and
        # stops with the page.
        count = select(func.count()).where(of_target, operation_targets.c.node == node_id).scalar_subquery()
        return or_(operations.c.scope_node == node_id, count > 0)
    has_name = operation_targets.c.node_name == reference
    return or_(operations.c.scope_node_name == reference, exists().where(of_target, has_name))


async def update_operation(tx: Transaction, operation_id: OperationId, values: Mapping[str, Any]) -> Operation:
    """Write columns on behalf of an admin: the current owner is fenced out, and the change emits an event."""
    written = await tx.execute(
        update(operations)
        .where(operations.c.id == operation_id)
        .values(**values, owner=None, lease_until=None, fence=operations.c.fence + 1)
        .returning(operations.c.id)
    )
    if written.one_or_none() is None:
        raise Conflict("The operation has just been removed.", code="try_again")
    return await get(tx, operation_id)


async def mark_dismissed(tx: Transaction, operation_id: OperationId, actor: str) -> Operation:
    """Mark a failure as dismissed; an owner that still works on it goes on."""
    await tx.execute(
        update(operations).where(operations.c.id == operation_id).values(dismissed_at=NOW, dismissed_by=actor[:255])
    )
    return await get(tx, operation_id)


async def mark_undismissed(tx: Transaction, operation_id: OperationId) -> Operation:
    """Undo the dismissal of a failure."""
    await tx.execute(
        update(operations).where(operations.c.id == operation_id).values(dismissed_at=None, dismissed_by=None)
    )
    return await get(tx, operation_id)


def make_event_data(operation: Operation) -> dict[str, Any]:
    """Return the data of an event about an operation."""
    return {
        "id": operation.id,
        "rev": operation.rev,
        "state": str(operation.state),
        "kind": str(operation.kind),
        "subject": operation.subject,
    }


async def add_note(
    tx: Transaction, operation_id: OperationId, words: str, *, level: str = "info", node_name: str = ""
) -> None:
    await add_notes(tx, [(operation_id, level, node_name, words)])


# Limits the log of an operation, which people read: more lines would only be a flood.
_ADD_NOTES = text("""
    WITH line AS (
        SELECT *, row_number() OVER (PARTITION BY operation_id ORDER BY place) AS number
          FROM jsonb_to_recordset(CAST(:lines AS jsonb))
            AS line(operation_id uuid, level text, node_name text, words text, place bigint)
    ), known AS (
        SELECT o.id, (SELECT count(*) FROM operation_events e WHERE e.operation_id = o.id) AS count
          FROM operations o WHERE o.id IN (SELECT operation_id FROM line)
    )
    INSERT INTO operation_events (operation_id, level, node_name, text)
    SELECT line.operation_id, line.level, line.node_name, line.words
      FROM line JOIN known ON known.id = line.operation_id
     WHERE known.count + line.number <= :most
     ORDER BY line.place
""")


async def add_notes(tx: Transaction, lines: Collection[tuple[OperationId, str, str, str]]) -> None:
    """Add log lines: operation, level, the node's name or "", and the text; one statement for any number."""
    if not lines:
        return
    sent = [
        {
            "operation_id": operation_id,
            "level": level,
            "node_name": node_name,
            "words": words[:NOTE_LENGTH_MAX],
            "place": index,
        }
        for index, (operation_id, level, node_name, words) in enumerate(lines)
    ]
    await tx.execute(_ADD_NOTES, {"lines": json.dumps(sent), "most": NOTES_MAX})


async def list_notes(tx: Transaction, operation_id: OperationId) -> list[OperationNote]:
    """Return the log of an operation, oldest first."""
    statement = (
        select(operation_events)
        .where(operation_events.c.operation_id == operation_id)
        .order_by(operation_events.c.id)
        .limit(NOTES_MAX)
    )
    return [
        OperationNote(at=row.at, level=row.level, text=row.text, node_name=row.node_name)
        for row in await tx.execute(statement)
    ]


# An operation with a worker that still needs a stop command is kept: only the row remembers it.
_CLEAR = text("""
    DELETE FROM operations o
     WHERE (o.state IN ('completed', 'cancelled', 'superseded') OR (o.state = 'failed' AND o.dismissed_at IS NOT NULL))
       AND NOT EXISTS (SELECT 1 FROM operation_targets t WHERE t.operation_id = o.id AND t.stop_wanted)
       AND o.kind NOT LIKE 'run\\_%'
    RETURNING o.id
""")


async def clear_history(tx: Transaction) -> int:
    """Delete ended operations and return their number; active ones and undismissed failures stay."""
    return len((await tx.execute(_CLEAR)).all())


_PRUNE = text("""
    WITH ended AS (
        SELECT id, finished_at FROM operations
         WHERE state IN ('completed', 'cancelled', 'superseded', 'failed') AND finished_at IS NOT NULL
           AND kind NOT LIKE 'run\\_%'
    ), old AS (
        SELECT id FROM ended WHERE finished_at < corral_now() - make_interval(secs => :age_s)
        UNION
        (SELECT id FROM ended ORDER BY finished_at DESC, id DESC OFFSET :most)
        LIMIT :limit
    )
    DELETE FROM operations o USING old WHERE o.id = old.id RETURNING o.id
""")


async def prune(tx: Transaction, *, age_s: float, most: int) -> int:
    """Delete ended operations that are older than this, or beyond so many; active ones are never touched."""
    deleted = await tx.execute(_PRUNE, {"age_s": age_s, "most": most, "limit": PRUNED_PER_PASS})
    return len(deleted.all())


async def count_states(tx: Transaction) -> dict[str, int]:
    """Return how many operations are in each state, without runs; states without any are left out."""
    counted = select(operations.c.state, func.count().label("number")).where(_IS_NO_RUN)
    rows = await tx.execute(counted.group_by(operations.c.state))
    return {str(row.state): row.number for row in rows}


def _make_interval(seconds: float) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, seconds)
