"""`/api/operations`: the live list, one in full, its log, the record, and what an admin can do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request

from corral.api.operations.cursor import cursor_after, parse_cursor
from corral.api.operations.views import live_order, note_out, operation_in_full, operation_out, record_out, retry_out
from corral.api.parts import OperateIn, PartsIn
from corral.domain.errors import InvalidRequest, StoreUnavailable
from corral.domain.operation import OperationKind
from corral.operations import actions
from corral.store import operations as store
from corral.wire.operations import (
    ActionOut,
    ClearedOut,
    HistoryOut,
    NoteOut,
    OperationInFull,
    OperationsOut,
    RetryOut,
)

router = APIRouter(prefix="/api/operations", tags=["operations"])
PAGE_MAX = 200
PAGE = 50


@router.get("", response_model_exclude_none=True)
async def list_operations(parts: PartsIn, _: OperateIn) -> OperationsOut:
    """What is under way, owed to absent nodes, paused, or failed and not dismissed; the least advanced first."""
    async with parts.database.transaction() as tx:
        listed = await store.list_listed(tx)
    return OperationsOut(operations=live_order(operation_out(operation) for operation in listed))


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
# Beyond these a time cannot be moved from one zone to another.
_YEARS = range(1970, 9000)


async def _history_filter(
    node: Annotated[
        str,
        Query(
            max_length=255,
            description="Id or name of a node: only what it was a target of, alone or among others. Also of a node that"
            " is gone, by the id or the name that it had.",
        ),
    ] = "",
    outcome: Annotated[OutcomeIn | None, Query(description="How it ended.")] = None,
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
        since=_in_utc("since", since),
        until=_in_utc("until", until),
    )


def _in_utc(name: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.year not in _YEARS:
        raise InvalidRequest(f"{name}: this is no time of an operation.", hint="Send a time such as 2026-11-01T12:00Z.")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


HistoryFilterIn = Annotated[store.HistoryFilter, Depends(_history_filter)]


@router.get("/history", response_model_exclude_none=True)
async def list_history(
    request: Request,
    parts: PartsIn,
    _: OperateIn,
    matching: HistoryFilterIn,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE,
    before: Annotated[str, Query(max_length=100, description="The `next` of the page before.")] = "",
) -> HistoryOut:
    """What has ended, the newest first. While PostgreSQL is away, what this frontend read last without a filter, marked
    as stale."""
    start = parse_cursor(before) if before else None
    is_everything = matching == store.EVERYTHING
    try:
        async with parts.database.transaction() as tx:
            page = await store.list_history(tx, limit, start, matching)
    except StoreUnavailable:
        last = _last_page(request)
        if last is None or before or not is_everything:
            raise
        stale = "PostgreSQL does not answer; this is what was read before."
        return last.model_copy(update={"stale": stale, "operations": last.operations[:limit], "next": None})
    answer = HistoryOut(
        operations=[record_out(record) for record in page],
        next=cursor_after(page[-1].operation) if len(page) == limit else None,
    )
    if not before and is_everything:
        request.app.state.history = answer
    return answer


def _last_page(request: Request) -> HistoryOut | None:
    last = getattr(request.app.state, "history", None)
    return last if isinstance(last, HistoryOut) else None


@router.delete("/history")
async def clear_history(request: Request, parts: PartsIn, operator: OperateIn) -> ClearedOut:
    """Forget what has ended, on every frontend. What is open stays, and so do failures that nobody has dismissed."""
    removed = await actions.clear_history(parts.database, operator.name)
    request.app.state.history = None
    return ClearedOut(removed=removed)


@router.get("/{operation_id}", response_model_exclude_none=True)
async def show_operation(parts: PartsIn, _: OperateIn, operation_id: str) -> OperationInFull:
    """One operation with everything about each of its nodes, also long after its end."""
    async with parts.database.transaction() as tx:
        return operation_in_full(await store.get(tx, operation_id))


@router.get("/{operation_id}/events")
async def show_log(parts: PartsIn, _: OperateIn, operation_id: str) -> list[NoteOut]:
    """The operation's own log, the oldest line first."""
    async with parts.database.transaction() as tx:
        found = await store.get(tx, operation_id)
        return [note_out(note) for note in await store.notes(tx, found.id)]


@router.post("/{operation_id}/cancel", response_model_exclude_none=True)
async def cancel_operation(parts: PartsIn, operator: OperateIn, operation_id: str) -> ActionOut:
    """Take it back: what was not begun never is, workers stop, partial files are thrown away."""
    operation = await actions.cancel(parts.database, operation_id, operator.name)
    return ActionOut(message="Cancelled.", operation=operation_out(operation))


@router.post("/{operation_id}/pause", response_model_exclude_none=True)
async def pause_operation(parts: PartsIn, operator: OperateIn, operation_id: str) -> ActionOut:
    """Stop for now. Partial files are kept, and resuming goes on from them."""
    operation = await actions.pause(parts.database, operation_id, operator.name)
    return ActionOut(message="Paused.", operation=operation_out(operation))


@router.post("/{operation_id}/resume", response_model_exclude_none=True)
async def resume_operation(parts: PartsIn, operator: OperateIn, operation_id: str) -> ActionOut:
    """Go on with a paused operation."""
    operation = await actions.resume(parts.database, parts.ids, operation_id, operator.name)
    return ActionOut(message="Resumed.", operation=operation_out(operation))


@router.post("/{operation_id}/retry", response_model_exclude_none=True)
async def retry_operation(parts: PartsIn, operator: OperateIn, operation_id: str) -> RetryOut:
    """Ask for exactly the same again, as a new operation; the old one is dismissed. Sent again while the new one is
    under way, it answers with that one."""
    admitted = await actions.retry(parts.database, parts.admission, operation_id, operator.name)
    return retry_out(admitted)


@router.post("/{operation_id}/dismiss", response_model_exclude_none=True)
async def dismiss_operation(parts: PartsIn, operator: OperateIn, operation_id: str) -> ActionOut:
    """Acknowledge a failure: it leaves the live list and stays in the record. Nothing is stopped."""
    operation = await actions.dismiss(parts.database, operation_id, operator.name)
    return ActionOut(message="Dismissed.", operation=operation_out(operation))


@router.post("/{operation_id}/undismiss", response_model_exclude_none=True)
async def undismiss_operation(parts: PartsIn, operator: OperateIn, operation_id: str) -> ActionOut:
    """Take back a dismissal: the failure is in the live list again."""
    operation = await actions.undismiss(parts.database, operation_id, operator.name)
    return ActionOut(message="Listed again.", operation=operation_out(operation))
