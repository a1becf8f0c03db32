"""`/api/operations` and `/api/backend-intents`: routes about operations, their history, and pending changes of nodes.

`operation_views.py` converts values of the domain to JSON. The event stream with the progress in it is `stream.py`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request

from corral.api.deps import DepsIn, OperatorIn
from corral.api.operation_views import (
    assignment_to_wire,
    ended_operation_to_wire,
    note_to_wire,
    operation_detail_to_wire,
    operation_to_wire,
    retry_to_wire,
    sort_live,
)
from corral.domain.errors import InvalidRequest, StoreUnavailable
from corral.domain.operation import Operation, OperationKind
from corral.operations import actions
from corral.store import assignments as assignment_store
from corral.store import operations as store
from corral.wire.nodes import MessageOut
from corral.wire.operations import (
    AssignmentOut,
    ClearedHistoryOut,
    OperationActionOut,
    OperationDetailOut,
    OperationHistoryOut,
    OperationNoteOut,
    OperationRetryOut,
    OperationsOut,
)

router = APIRouter(prefix="/api/operations", tags=["operations"])
PAGE_MAX = 200
PAGE_DEFAULT = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = re.compile(r"(\d{1,17})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)
_assignment_router = APIRouter(prefix="/api/backend-intents", tags=["operations"])


@router.get("", response_model_exclude_none=True)
async def list_operations(deps: DepsIn, _: OperatorIn) -> OperationsOut:
    """List operations that are running, pending on offline nodes, paused, or failed and not dismissed; least advanced
    first."""
    async with deps.database.transaction() as tx:
        listed = await store.list_live(tx)
    return OperationsOut(operations=sort_live(operation_to_wire(operation) for operation in listed))


KindIn = Literal[
    "backends",
    "models",
    "loads",
    "backend_install",
    "backend_upgrade",
    "backend_reinstall",
    "backend_rollback",
    "backend_delete",
    "model_install",
    "model_load",
    "model_stage",
    "model_unload",
    "model_delete",
]
OutcomeIn = Literal["completed", "failed", "cancelled", "superseded"]
_KINDS: dict[str, frozenset[str]] = {
    "backends": frozenset(kind for kind in OperationKind if kind.is_backend),
    "models": frozenset({OperationKind.MODEL_INSTALL, OperationKind.MODEL_DELETE}),
    "loads": frozenset({OperationKind.MODEL_LOAD, OperationKind.MODEL_STAGE, OperationKind.MODEL_UNLOAD}),
}
# A time outside these years cannot be converted from one time zone to another.
_YEARS = range(1970, 9000)


async def _parse_history_filter(
    node: Annotated[
        str,
        Query(
            max_length=255,
            description="Id or name of a node: only operations on this node, alone or among others. Also of a removed "
            "node, by its former id or name.",
        ),
    ] = "",
    outcome: Annotated[OutcomeIn | None, Query(description="Only this outcome.")] = None,
    kind: Annotated[
        KindIn | None, Query(description="One kind, or all of `backends`, `models` (installing, deleting) or `loads`.")
    ] = None,
    search: Annotated[
        str, Query(max_length=200, description="Part of a name, a node, an error, a message, an id or a user.")
    ] = "",
    since: Annotated[datetime | None, Query(description="Ended at this time or later; UTC without a zone.")] = None,
    until: Annotated[datetime | None, Query(description="Ended before this time; UTC without a zone.")] = None,
) -> store.HistoryFilter:
    return store.HistoryFilter(
        node=node,
        outcome=outcome or "",
        kinds=_KINDS.get(kind, frozenset({kind})) if kind else frozenset(),
        search=search.strip(),
        since=_to_utc("since", since),
        until=_to_utc("until", until),
    )


def _to_utc(name: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.year not in _YEARS:
        raise InvalidRequest(f"{name}: this is not a valid time.", hint="Send a time such as 2026-11-01T12:00Z.")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


HistoryFilterIn = Annotated[store.HistoryFilter, Depends(_parse_history_filter)]


@router.get("/history", response_model_exclude_none=True)
async def list_history(
    request: Request,
    deps: DepsIn,
    _: OperatorIn,
    history_filter: HistoryFilterIn,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT,
    before: Annotated[str, Query(max_length=100, description="The `next` of the previous page.")] = "",
) -> OperationHistoryOut:
    """List operations that have ended, newest first. While PostgreSQL is away, the last list that this frontend read
    without a filter, marked as stale."""
    start = parse_cursor(before) if before else None
    is_everything = history_filter == store.EVERYTHING
    try:
        async with deps.database.transaction() as tx:
            page = await store.list_history(tx, limit, start, history_filter)
    except StoreUnavailable:
        last = _get_last_page(request)
        if last is None or before or not is_everything:
            raise
        stale = "PostgreSQL does not respond; this list was read earlier."
        return last.model_copy(update={"stale": stale, "operations": last.operations[:limit], "next": None})
    answer = OperationHistoryOut(
        operations=[ended_operation_to_wire(record) for record in page],
        next=make_cursor(page[-1].operation) if len(page) == limit else None,
    )
    if not before and is_everything:
        request.app.state.history = answer
    return answer


def _get_last_page(request: Request) -> OperationHistoryOut | None:
    last = getattr(request.app.state, "history", None)
    return last if isinstance(last, OperationHistoryOut) else None


@router.delete("/history")
async def clear_history(request: Request, deps: DepsIn, operator: OperatorIn) -> ClearedHistoryOut:
    """Delete the records of ended operations. Open operations and failures that were not dismissed stay."""
    removed = await actions.clear_history(deps.database, operator.name)
    request.app.state.history = None
    return ClearedHistoryOut(removed=removed)


@router.get("/{operation_id}", response_model_exclude_none=True)
async def show_operation(deps: DepsIn, _: OperatorIn, operation_id: str) -> OperationDetailOut:
    """Show one operation with all details of its nodes, also after its end."""
    async with deps.database.transaction() as tx:
        return operation_detail_to_wire(await store.get(tx, operation_id))


@router.get("/{operation_id}/events")
async def show_operation_log(deps: DepsIn, _: OperatorIn, operation_id: str) -> list[OperationNoteOut]:
    """Show the log of an operation, oldest line first."""
    async with deps.database.transaction() as tx:
        found = await store.get(tx, operation_id)
        return [note_to_wire(note) for note in await store.list_notes(tx, found.id)]


@router.post("/{operation_id}/cancel", response_model_exclude_none=True)
async def cancel_operation(deps: DepsIn, operator: OperatorIn, operation_id: str) -> OperationActionOut:
    """Cancel an operation: nothing more is started, workers stop, and partial files are deleted."""
    operation = await actions.cancel(deps.database, operation_id, operator.name)
    return OperationActionOut(message="Cancelled.", operation=operation_to_wire(operation))


@router.post("/{operation_id}/pause", response_model_exclude_none=True)
async def pause_operation(deps: DepsIn, operator: OperatorIn, operation_id: str) -> OperationActionOut:
    """Pause an operation. Partial files are kept and used when it is resumed."""
    operation = await actions.pause(deps.database, operation_id, operator.name)
    return OperationActionOut(message="Paused.", operation=operation_to_wire(operation))


@router.post("/{operation_id}/resume", response_model_exclude_none=True)
async def resume_operation(deps: DepsIn, operator: OperatorIn, operation_id: str) -> OperationActionOut:
    """Resume a paused operation."""
    operation = await actions.resume(deps.database, deps.admissions, operation_id, operator.name)
    return OperationActionOut(message="Resumed.", operation=operation_to_wire(operation))


@router.post("/{operation_id}/retry", response_model_exclude_none=True)
async def retry_operation(deps: DepsIn, operator: OperatorIn, operation_id: str) -> OperationRetryOut:
    """Retry an operation with the same parameters, as a new operation; the old one is dismissed. While the new one
    runs, a repeated call returns it."""
    admitted = await actions.retry(deps.database, deps.admissions, operation_id, operator.name)
    return retry_to_wire(admitted)


@router.post("/{operation_id}/dismiss", response_model_exclude_none=True)
async def dismiss_operation(deps: DepsIn, operator: OperatorIn, operation_id: str) -> OperationActionOut:
    """Dismiss a failed operation: it leaves the live list and stays in the history. Nothing is stopped."""
    operation = await actions.dismiss(deps.database, operation_id, operator.name)
    return OperationActionOut(message="Dismissed.", operation=operation_to_wire(operation))


@router.post("/{operation_id}/undismiss", response_model_exclude_none=True)
async def undismiss_operation(deps: DepsIn, operator: OperatorIn, operation_id: str) -> OperationActionOut:
    """Undo a dismissal: the failed operation is in the live list again."""
    operation = await actions.undismiss(deps.database, operation_id, operator.name)
    return OperationActionOut(message="Listed again.", operation=operation_to_wire(operation))


def make_cursor(operation: Operation) -> str:
    assert operation.finished_at is not None, "the record holds what has ended"
    # Whole microseconds, as PostgreSQL stores them: a fraction would skip or repeat a row.
    return f"{(operation.finished_at - _EPOCH) // timedelta(microseconds=1)}-{operation.id}"


def parse_cursor(text: str) -> tuple[datetime, str]:
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            "before: this is not a valid cursor.", hint="Send the `next` of the previous page.", code="bad_cursor"
        )
    return _EPOCH + timedelta(microseconds=int(match[1])), match[2]


@_assignment_router.get("", response_model_exclude_none=True)
async def list_assignments(deps: DepsIn, _: OperatorIn) -> list[AssignmentOut]:
    """List the pending changes by node and backend, including failed ones."""
    async with deps.database.transaction() as tx:
        assignments = await assignment_store.list_assignments(tx)
    return [assignment_to_wire(one.assignment, one.node_name) for one in assignments]


@_assignment_router.delete("/{node}/{backend:path}")
async def discard_assignment(deps: DepsIn, operator: OperatorIn, node: str, backend: str) -> MessageOut:
    """Discard a pending change. A change that has begun is stopped."""
    await actions.discard_assignment(deps.database, node, backend, operator.name)
    return MessageOut(message=f"Discarded the pending change of {backend} on {node}.")


@_assignment_router.post("/{node}/{backend:path}/revive", response_model_exclude_none=True)
async def retry_assignment(deps: DepsIn, operator: OperatorIn, node: str, backend: str) -> OperationRetryOut:
    """Retry a pending change as a new operation, with its failures reset to zero."""
    return retry_to_wire(await actions.retry_assignment(deps.database, deps.admission, node, backend, operator.name))


router.routes.extend(_assignment_router.routes)
