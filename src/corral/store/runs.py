"""Stores runs and their traces.

A run's row is written in the transaction that admits its operation. Lock order: the operation, then the run, then the
target. A worker that delivers entries of a trace locks the run alone. A request may hold a conversation of many MiB, so
lists and locks read rows without it, and the end of a run leaves only its last message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, exists, func, insert, literal_column, null, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from corral.domain.access import Owner
from corral.domain.errors import NotFound
from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, JobId, OperationId, TargetState
from corral.domain.run import (
    OpenToolCall,
    Run,
    RunBudgets,
    RunEvent,
    RunEventType,
    RunId,
    RunKind,
    RunState,
    RunTrigger,
    RunUsage,
)
from corral.store.database import Transaction, as_uuid
from corral.store.dispatch import OperationLease
from corral.store.loads import PUT_TARGET, NewTarget, render_target
from corral.store.run_schema import run_events, runs
from corral.store.schema import NOW, operation_targets

LISTED_MAX = 200
# How many entries one read of a trace returns.
EVENTS_PER_READ = 500
TEXT_MAX = 2000
# Of one deletion: the entries of traces go with their runs, and a statement has seconds.
PRUNED_PER_PASS = 500
PRUNED_EVENTS_PER_PASS = 100_000
# Of a text in a list, and of parameters or attachments in a list: all of it is in the run itself.
SHOWN_CHARS_MAX = 4000
SHOWN_BYTES_MAX = 16 * 1024
# Of the last message of a run that has ended: as long as a message to an agent may be.
KEPT_CHARS_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """Values with which a run (such as an LLM agent's turn) is inserted into PostgreSQL."""

    kind: RunKind
    owner: Owner
    owner_name: str
    # The key or session whose models, limits and usage count.
    key_id: str
    subject: str
    trigger: RunTrigger = RunTrigger.API
    # The work of the run. Secrets are references in it.
    request: Mapping[str, Any]
    budgets: RunBudgets = field(default_factory=RunBudgets)
    selector: Mapping[str, str] = field(default_factory=dict)
    session_key: str = ""
    agent_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None
    parent_id: RunId | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlacement:
    """The node that a run gets while it is inserted into PostgreSQL, and the job that its worker is sent."""

    job_id: JobId
    node: Node


async def insert_run(
    tx: Transaction, run_id: str, new: NewRun, message: str, placement: RunPlacement | None = None
) -> None:
    """Insert a run. With `placement` it is inserted as if it had been given to that node, whose worker is about to be
    sent the command."""
    statement = insert(runs).values(
        id=run_id,
        kind=new.kind,
        owner=str(new.owner),
        user_id=new.owner.user_id,
        owner_key_id=new.owner.key_id,
        owner_name=new.owner_name[:255],
        key_id=new.key_id,
        subject=new.subject,
        trigger=new.trigger,
        state=RunState.QUEUED,
        request=dict(new.request),
        budgets=asdict(new.budgets),
        selector=dict(new.selector),
        session_key=new.session_key,
        agent_id=new.agent_id,
        task_id=new.task_id,
        thread_id=new.thread_id,
        parent_id=new.parent_id,
        depth=new.depth,
        message=message,
    )
    if placement is not None:
        node = placement.node
        target = insert(operation_targets).values(
            operation_id=run_id,
            node=node.id,
            node_name=node.name,
            state=TargetState.QUEUED,
            job_id=placement.job_id,
            build={"run": str(new.kind)},
            contacted_at=NOW,
        )
        statement = statement.values(
            state=RunState.LEASED, attempt=1, job_id=placement.job_id, node=node.id, node_name=node.name
        ).add_cte(target.cte("target"))
    await tx.execute(statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as read from PostgreSQL, with the reported outcome and since when its worker is silent.

    The run is without its request and its result.
    """

    run: Run
    outcome: Mapping[str, Any] | None
    silent_since: datetime | None
    event_bytes: int


def _to_stored(row: Any) -> StoredRun:
    return StoredRun(run=_to_run(row), outcome=row.outcome, silent_since=row.silent_since, event_bytes=row.event_bytes)


def _to_run(row: Any) -> Run:
    return Run(
        id=RunId(row.id),
        kind=RunKind(row.kind),
        owner=row.owner,
        owner_name=row.owner_name,
        key_id=row.key_id,
        subject=row.subject,
        trigger=RunTrigger(row.trigger),
        state=RunState(row.state),
        request=row.request,
        budgets=RunBudgets(**row.budgets),
        selector=row.selector,
        session_key=row.session_key,
        agent_id=row.agent_id,
        task_id=row.task_id,
        thread_id=row.thread_id,
        parent_id=RunId(row.parent_id) if row.parent_id else None,
        depth=row.depth,
        attempt=row.attempt,
        job_id=JobId(row.job_id) if row.job_id else None,
        node_id=NodeId(row.node) if row.node else None,
        node_name=row.node_name,
        open_calls=tuple(OpenToolCall(**call) for call in row.open_call or ()),
        approvals=row.approvals,
        usage=RunUsage(**row.usage),
        result=row.result,
        fault=Fault(code=row.error_code, text=row.error_text or "") if row.error_code else None,
        last_seq=row.last_seq,
        message=row.message,
        created_at=row.created_at,
        started_at=row.started_at,
        attempt_started_at=row.attempt_started_at,
        finished_at=row.finished_at,
    )


_SMALL_COLUMNS = tuple(column for column in runs.c if column.key not in ("request", "outcome", "result"))
_NO_REQUEST = literal_column("'{}'::jsonb", JSONB).label("request")
_NO_RESULT = null().label("result")


def _make_last_message(chars_max: int) -> str:
    """Return SQL for a list with the last message of a request: its text cut, and other content only if it is short."""
    last = "(runs.request -> 'messages' -> -1)"
    return f"""
        jsonb_build_array(jsonb_build_object('role', {last} -> 'role', 'content',
            CASE WHEN jsonb_typeof({last} -> 'content') = 'string'
                      THEN to_jsonb(left({last} ->> 'content', {chars_max}))
                 WHEN octet_length({last} ->> 'content') <= {chars_max} THEN {last} -> 'content'
            END))"""


def _make_part(name: str) -> str:
    """Return SQL for an object with a field of a request, or without it if it is large."""
    value = f"runs.request -> '{name}'"
    is_short = f"octet_length(({value})::text) <= {SHOWN_BYTES_MAX}"
    return f"CASE WHEN {is_short} THEN jsonb_build_object('{name}', {value}) ELSE '{{}}' END"


_HAS_MESSAGES = "jsonb_typeof(runs.request -> 'messages' -> 0) = 'object'"
_SHOWN_MESSAGES = f"jsonb_build_object('messages', {_make_last_message(SHOWN_CHARS_MAX)})"
# What lists show of requests and results.
_SHOWN_REQUEST = literal_column(
    f"""{" || ".join(map(_make_part, ("model", "parameters", "media")))}
            || CASE WHEN {_HAS_MESSAGES} THEN {_SHOWN_MESSAGES} ELSE '{{}}' END""",
    JSONB,
).label("request")
_SHOWN_RESULT = literal_column(
    f"""CASE WHEN runs.result IS NOT NULL THEN jsonb_build_object(
            'content', left(coalesce(runs.result ->> 'content', ''), {SHOWN_CHARS_MAX}),
            'reason', coalesce(runs.result ->> 'reason', '')) END""",
    JSONB,
).label("result")
# What is kept of the request of a run that has ended: threads have the messages of their own turns.
_KEPT_REQUEST: ColumnElement[Any] = literal_column(
    f"""CASE WHEN {_HAS_MESSAGES} THEN (runs.request - '{{history,client_tools,instructions}}'::text[])
            || jsonb_build_object('messages', {_make_last_message(KEPT_CHARS_MAX)}) ELSE runs.request END""",
    JSONB,
)


async def find_run(tx: Transaction, run_id: str, *, owner: str | None = None, reads_request: bool = True) -> Run | None:
    """Return a run; with `owner`, only if it is theirs. `reads_request`: with its request, which may be large."""
    known = as_uuid(run_id)
    if known is None:
        return None
    request = runs.c.request if reads_request else _NO_REQUEST
    statement = select(*_SMALL_COLUMNS, request, runs.c.result).where(runs.c.id == known)
    if owner is not None:
        statement = statement.where(runs.c.owner == owner)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_run(row)


async def is_open(tx: Transaction, run_id: str) -> bool:
    """Return whether a run has not ended."""
    statement = select(runs.c.id).where(runs.c.id == as_uuid(run_id), runs.c.finished_at.is_(None))
    return (await tx.execute(statement)).one_or_none() is not None


async def find_progress(tx: Transaction, run_id: str) -> tuple[RunState, int] | None:
    """Return the state of a run and how many entries its trace has, without its request, which may be large."""
    known = as_uuid(run_id)
    if known is None:
        return None
    row = (await tx.execute(select(runs.c.state, runs.c.last_seq).where(runs.c.id == known))).one_or_none()
    return None if row is None else (RunState(row.state), row.last_seq)


async def get_run(tx: Transaction, run_id: str, *, owner: str | None = None) -> Run:
    found = await find_run(tx, run_id, owner=owner)
    if found is None:
        raise NotFound(
            f"There is no run {run_id[:80]!r}.", hint="`corral runs list` shows your runs.", code="run_not_found"
        )
    return found


def _select_stored() -> Select[Any]:
    return select(*_SMALL_COLUMNS, runs.c.outcome, _NO_REQUEST, _NO_RESULT)


async def lock_run(tx: Transaction, run_id: str) -> StoredRun | None:
    """Read a run and keep it from changing until the transaction ends."""
    known = as_uuid(run_id)
    if known is None:
        return None
    statement = _select_stored().where(runs.c.id == known)
    row = (await tx.execute(statement.with_for_update(key_share=True))).one_or_none()
    return None if row is None else _to_stored(row)


async def lock_end(tx: Transaction, run_id: str) -> str | None:
    """Keep a run from changing until the transaction ends. Return the error code of the end that the worker of the
    present attempt has reported: empty for one without an error, None if no end was reported."""
    code = func.coalesce(runs.c.outcome["error_code"].astext, "")
    statement = select(case((func.jsonb_typeof(runs.c.outcome) == "object", code))).where(runs.c.id == run_id)
    return (await tx.execute(statement.with_for_update(key_share=True))).scalar_one_or_none()


async def lock_free_runs(tx: Transaction, run_ids: Collection[str]) -> dict[RunId, StoredRun]:
    """Read runs and keep them from changing until the transaction ends, without those that another transaction has
    locked now."""
    known = sorted(filter(None, map(as_uuid, run_ids)))
    statement = _select_stored().where(runs.c.id.in_(known)).order_by(runs.c.id)
    rows = await tx.execute(statement.with_for_update(key_share=True, skip_locked=True))
    return {RunId(row.id): _to_stored(row) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Filters a query of runs by owner, kind, state, node and subject; a field that is None matches all."""

    owner: str | None = None
    kind: RunKind | None = None
    states: frozenset[RunState] | None = None
    # The name or the id of the node that has or had the run.
    node: str | None = None
    agent_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None
    trigger: RunTrigger | None = None


def _apply_filter(statement: Select[Any], matching: RunFilter) -> Select[Any]:
    for column, value in (
        (runs.c.owner, matching.owner),
        (runs.c.kind, matching.kind),
        (runs.c.agent_id, matching.agent_id),
        (runs.c.task_id, matching.task_id),
        (runs.c.thread_id, matching.thread_id),
        (runs.c.trigger, matching.trigger),
    ):
        if value is not None:
            statement = statement.where(column == value)
    if matching.states is not None:
        statement = statement.where(runs.c.state.in_(sorted(matching.states)))
    if matching.node is not None:
        node_id = as_uuid(matching.node)
        statement = statement.where(runs.c.node_name == matching.node if node_id is None else runs.c.node == node_id)
    return statement


async def count_runs(tx: Transaction, matching: RunFilter) -> dict[RunState, int]:
    """Return how many of the runs that match are in which state."""
    statement = _apply_filter(select(runs.c.state, func.count().label("number")), matching).group_by(runs.c.state)
    return {RunState(row.state): row.number for row in await tx.execute(statement)}


async def list_runs(
    tx: Transaction, matching: RunFilter, limit: int = 50, before: tuple[datetime, str] | None = None
) -> list[Run]:
    """List runs, newest first, with those parts of their requests and results that lists show: texts are cut after
    `SHOWN_CHARS_MAX`. `before` is the time and the id of the last one that was shown."""
    statement = _apply_filter(select(*_SMALL_COLUMNS, _SHOWN_REQUEST, _SHOWN_RESULT), matching)
    if before is not None:
        moment, last_id = before
        statement = statement.where(
            (runs.c.created_at < moment) | ((runs.c.created_at == moment) & (runs.c.id < last_id))
        )
    ordered = statement.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(max(1, min(limit, LISTED_MAX)))
    return [_to_run(row) for row in await tx.execute(ordered)]


async def list_agent_turns(
    tx: Transaction, agent_id: str, owner: str, *, since: datetime | None, also: Collection[str] = (), limit: int
) -> list[Run]:
    """Return the turns of an agent in threads of this owner, and those that it began by itself, oldest first: created
    after a time, or with one of these ids. Without a time: those that have not ended. Results are left out."""
    is_shown = runs.c.thread_id.is_not(None) | (runs.c.trigger == RunTrigger.SCHEDULE)
    statement = select(*_SMALL_COLUMNS, runs.c.request, _NO_RESULT)
    statement = statement.where(runs.c.agent_id == agent_id, runs.c.owner == owner, is_shown)
    if since is None:
        statement = statement.where(runs.c.finished_at.is_(None))
    else:
        statement = statement.where((runs.c.created_at > since) | runs.c.id.in_(list(also)))
    ordered = statement.order_by(runs.c.created_at, runs.c.id).limit(limit)
    return [_to_run(row) for row in await tx.execute(ordered)]


async def list_open_ids(tx: Transaction, *, agent_id: str | None = None, thread_id: str | None = None) -> list[RunId]:
    """Return the runs of an agent or a thread that have not ended, in the order in which they are locked."""
    statement = select(runs.c.id).where(runs.c.finished_at.is_(None))
    for column, value in ((runs.c.agent_id, agent_id), (runs.c.thread_id, thread_id)):
        if value is not None:
            statement = statement.where(column == value)
    return [RunId(row.id) for row in await tx.execute(statement.order_by(runs.c.id))]


async def list_open_children(tx: Transaction, run_id: str) -> list[RunId]:
    """Return the runs that a run has started and that have not ended."""
    statement = select(runs.c.id).where(runs.c.parent_id == run_id, runs.c.finished_at.is_(None))
    return [RunId(row.id) for row in await tx.execute(statement.order_by(runs.c.id))]


async def find_child(tx: Transaction, run_id: str, call_id: str) -> Run | None:
    """Return the run that a tool call of a run has started, without its request."""
    statement = select(*_SMALL_COLUMNS, _NO_REQUEST, runs.c.result)
    statement = statement.where(runs.c.parent_id == run_id, runs.c.request["call_id"].astext == call_id)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_run(row)


async def count_open(tx: Transaction, owner: str) -> int:
    """Return how many runs of an owner have not ended."""
    statement = select(func.count()).select_from(runs).where(runs.c.owner == owner, runs.c.finished_at.is_(None))
    return int((await tx.execute(statement)).scalar_one())


_COUNT_STATES = text("SELECT kind, state, count(*) AS number FROM runs GROUP BY kind, state")


async def count_states(tx: Transaction) -> dict[tuple[str, str], int]:
    return {(row.kind, row.state): row.number for row in await tx.execute(_COUNT_STATES)}


# --- states ---


_BEGIN_ATTEMPT = text(f"""
    WITH target AS ({PUT_TARGET} RETURNING operation_id)
    UPDATE runs SET
        state = 'leased', attempt = runs.attempt + 1, job_id = CAST(:job_id AS uuid), node = CAST(:node AS uuid),
        node_name = :node_name, silent_since = NULL, open_call = NULL, approvals = '{{}}', outcome = NULL,
        attempt_started_at = NULL, message = concat('Given to ', CAST(:node_name AS text), '.')
      FROM target
     WHERE runs.id = target.operation_id
""")  # noqa: S608 - no value in it


async def begin_attempt(tx: Transaction, run_id: RunId, target: NewTarget) -> None:
    """Give a run to a node whose worker is about to be sent the command: the job id is the fence of this attempt.
    Decisions about its tool calls are made again."""
    await tx.execute(_BEGIN_ATTEMPT, render_target(OperationId(run_id), target, is_sent=True))


async def mark_running(tx: Transaction, job_ids: Collection[JobId]) -> None:
    """Record that workers have accepted these jobs, and respond."""
    if job_ids:
        is_leased = runs.c.state == RunState.LEASED
        await tx.execute(
            update(runs)
            .where(runs.c.job_id.in_(list(job_ids)), is_leased | runs.c.silent_since.is_not(None))
            .values(
                state=case((is_leased, RunState.RUNNING), else_=runs.c.state),
                started_at=case(
                    (is_leased, func.coalesce(runs.c.started_at, func.corral_now())), else_=runs.c.started_at
                ),
                attempt_started_at=case((is_leased, func.corral_now()), else_=runs.c.attempt_started_at),
                message=case((is_leased, func.concat("Runs on ", runs.c.node_name, ".")), else_=runs.c.message),
                silent_since=None,
            )
        )


# A worker whose run was stopped, ended or taken over meanwhile is not confirmed: the caller reads the rows then. A
# delivery that came first has written the same, or the end, which is left as it is.
_CONFIRM_BEGUN = text("""
    WITH held AS (
        SELECT id FROM operations
         WHERE id = CAST(:id AS uuid) AND owner = :owner AND fence = :fence AND state = 'running'
           FOR NO KEY UPDATE
    ), begun AS (
        UPDATE runs SET
            state = CASE WHEN runs.state = 'leased' THEN 'running' ELSE runs.state END, silent_since = NULL,
            started_at = COALESCE(runs.started_at, corral_now()),
            attempt_started_at = COALESCE(runs.attempt_started_at, corral_now()),
            message = concat('Runs on ', runs.node_name, '.')
          FROM held
         WHERE runs.id = held.id AND runs.job_id = CAST(:job_id AS uuid) AND runs.outcome IS NULL
        RETURNING runs.id, runs.message
    ), working AS (
        UPDATE operation_targets t SET
            state = 'working', seq = GREATEST(t.seq, :seq), heard_at = corral_now(), contacted_at = corral_now()
          FROM begun
         WHERE t.operation_id = begun.id AND t.job_id = CAST(:job_id AS uuid) AND NOT t.stop_wanted
           AND t.state IN ('queued', 'working', 'unconfirmed')
        RETURNING t.operation_id
    )
    UPDATE operations o SET message = begun.message
      FROM begun JOIN working ON working.operation_id = begun.id
     WHERE o.id = begun.id
    RETURNING o.rev, o.message
""")


async def confirm_begun(tx: Transaction, lease: OperationLease, job_id: JobId, seq: int) -> tuple[int, str] | None:
    """Record that a worker has accepted the first attempt of a run. Return the revision and the message of its
    operation; None if the run is not in the state for that, or not held under this lease."""
    parameters = {"id": lease.id, "owner": lease.owner, "fence": lease.fence, "job_id": job_id, "seq": seq}
    row = (await tx.execute(_CONFIRM_BEGUN, parameters)).one_or_none()
    return None if row is None else (row.rev, row.message)


async def mark_silent(tx: Transaction, job_ids: Collection[JobId]) -> None:
    """Record that the workers of these jobs do not respond, unless that is known already."""
    if job_ids:
        await tx.execute(
            update(runs).where(runs.c.job_id.in_(list(job_ids)), runs.c.silent_since.is_(None)).values(silent_since=NOW)
        )


async def requeue(tx: Transaction, run_id: RunId, message: str) -> None:
    """Take a run back from its node: entries of that attempt are refused from now on."""
    await tx.execute(
        update(runs)
        .where(runs.c.id == run_id)
        .values(state=RunState.QUEUED, job_id=None, silent_since=None, open_calls=None, outcome=None, message=message)
    )


_EXTEND_DEADLINE = text("""
    UPDATE operations SET deadline_at = corral_now() + make_interval(secs => :seconds) WHERE id = CAST(:id AS uuid)
""")


async def extend_deadline(tx: Transaction, run_id: RunId, seconds: float) -> None:
    """Give a run that is begun once more so much time to get a place."""
    await tx.execute(_EXTEND_DEADLINE, {"id": run_id, "seconds": seconds})


async def uncount_attempt(tx: Transaction, run_id: RunId) -> None:
    """Do not count an attempt that no worker has accepted."""
    await tx.execute(update(runs).where(runs.c.id == run_id).values(attempt=func.greatest(runs.c.attempt - 1, 0)))


async def set_message(tx: Transaction, run_id: RunId, message: str) -> None:
    await tx.execute(update(runs).where(runs.c.id == run_id).values(message=message[:TEXT_MAX]))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that was just ended in PostgreSQL; `has_children`: runs that it has started are open."""

    has_children: bool


_children = runs.alias("children")
_HAS_CHILDREN = exists().where(_children.c.parent_id == runs.c.id, _children.c.finished_at.is_(None))


async def end_run(
    tx: Transaction,
    run_id: str,
    state: RunState,
    *,
    message: str,
    fault: Fault | None = None,
    result: Mapping[str, Any] | None = None,
) -> EndedRun | None:
    """End a run, once; None if it had ended. Of its conversation the last message stays."""
    assert state.is_final, "a run ends in a final state"
    ended = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.finished_at.is_(None))
        .values(
            state=state,
            message=message[:TEXT_MAX],
            error_code=fault.code[:64] if fault else None,
            error_text=fault.text[:TEXT_MAX] if fault else None,
            result=None if result is None else dict(result),
            finished_at=NOW,
            open_calls=None,
            outcome=None,
            request=_KEPT_REQUEST,
        )
        .returning(_HAS_CHILDREN.label("has_children"))
    )
    row = ended.one_or_none()
    return None if row is None else EndedRun(has_children=row.has_children)


async def cancel_run(tx: Transaction, run_id: str, message: str) -> None:
    """End a run as cancelled, if it is open; the last entry of its trace says so."""
    if await end_run(tx, run_id, RunState.CANCELLED, message=message) is not None:
        await append_note(tx, RunId(run_id), RunEventType.END, {"state": str(RunState.CANCELLED)})


# --- traces ---


async def insert_events(tx: Transaction, run_id: RunId, events: Sequence[RunEvent]) -> None:
    if events:
        rows = [
            {
                "run_id": run_id,
                "seq": event.seq,
                "at": event.at,
                "type": str(event.type),
                "tool": event.tool,
                "data": dict(event.data),
            }
            for event in events
        ]
        await tx.execute(insert(run_events), rows)


async def append_note(tx: Transaction, run_id: RunId, event_type: RunEventType, data: Mapping[str, Any]) -> None:
    """Append an entry of the control plane to a trace. The caller holds the lock of the run."""
    row = (
        await tx.execute(
            update(runs)
            .where(runs.c.id == run_id)
            .values(last_seq=runs.c.last_seq + 1)
            .returning(runs.c.last_seq, func.corral_now().label("now"))
        )
    ).one()
    await insert_events(tx, run_id, [RunEvent(seq=row.last_seq, at=row.now, type=event_type, data=data)])


async def read_events(tx: Transaction, run_id: str, after: int, limit: int = EVENTS_PER_READ) -> list[RunEvent]:
    """Return the entries of a trace behind a number, in order."""
    statement = (
        select(run_events)
        .where(run_events.c.run_id == run_id, run_events.c.seq > after)
        .order_by(run_events.c.seq)
        .limit(limit)
    )
    return [
        RunEvent(seq=row.seq, at=row.at, type=RunEventType(row.type), tool=row.tool, data=row.data)
        for row in await tx.execute(statement)
    ]


_TOOL_EVENTS = text("""
    SELECT run_id::text AS run_id, seq, at, type, tool, data FROM run_events
     WHERE run_id = ANY(CAST(:run_ids AS uuid[])) AND type IN ('tool_call', 'tool_result')
     ORDER BY at DESC, seq DESC
     LIMIT :limit
""")


async def list_tool_events(tx: Transaction, run_ids: Collection[str], limit: int) -> list[tuple[str, RunEvent]]:
    """Return the newest calls and results of tools in these runs, with the id of the run, newest first."""
    rows = await tx.execute(_TOOL_EVENTS, {"run_ids": list(run_ids), "limit": limit})
    return [
        (row.run_id, RunEvent(seq=row.seq, at=row.at, type=RunEventType(row.type), tool=row.tool, data=row.data))
        for row in rows
    ]


_DELETE_ENDED = text("""
    DELETE FROM operations WHERE id IN (
        SELECT r.id FROM runs r
         WHERE r.agent_id = CAST(:agent_id AS uuid) AND r.owner = :owner AND r.finished_at IS NOT NULL
         LIMIT :limit)
""")


async def delete_ended(tx: Transaction, agent_id: str, owner: str, limit: int = PRUNED_PER_PASS) -> int:
    """Delete runs of an owner with an agent that have ended, with their traces; return how many."""
    return (await tx.execute(_DELETE_ENDED, {"agent_id": agent_id, "owner": owner, "limit": limit})).rowcount


async def write_decision(tx: Transaction, run_id: RunId, approvals: Mapping[str, Any]) -> None:
    await tx.execute(update(runs).where(runs.c.id == run_id).values(approvals=dict(approvals)))


_PRUNE = text("""
    WITH old AS (
        SELECT r.id, r.finished_at, r.last_seq FROM runs r
         WHERE r.finished_at < corral_now() - make_interval(secs => :age_s)
         ORDER BY r.finished_at, r.id LIMIT :limit
    ), counted AS (
        SELECT id, sum(last_seq) OVER (ORDER BY finished_at, id) - last_seq AS events_before FROM old
    )
    DELETE FROM operations WHERE id IN (SELECT id FROM counted WHERE events_before < :events)
""")


async def prune(tx: Transaction, age_s: float, limit: int = PRUNED_PER_PASS) -> int:
    """Delete runs that ended longer ago than this, the oldest first, with their operations and traces. Running ones
    stay. Return how many; 0: there are no more."""
    return (await tx.execute(_PRUNE, {"age_s": age_s, "limit": limit, "events": PRUNED_EVENTS_PER_PASS})).rowcount


async def delete_run(tx: Transaction, run_id: RunId) -> None:
    """Delete a run that has ended, with its operation and its trace."""
    await tx.execute(text("DELETE FROM operations WHERE id = CAST(:id AS uuid)"), {"id": run_id})
