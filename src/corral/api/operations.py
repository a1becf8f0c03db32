"""`/api/operations` and `/api/backend-intents`: routes about operations, their history, and pending changes of nodes;
and operations, targets, notes and assignments as JSON.

There is one representation of an operation, live or in the history. The event stream with the progress in it is
`stream.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel

from corral.api.deps import DepsIn, OperatorIn
from corral.bus.messages import OperationDelta, TargetDelta
from corral.domain.backend import Assignment
from corral.domain.errors import InvalidRequest, StoreUnavailable
from corral.domain.operation import (
    Operation,
    OperationKind,
    OperationNote,
    OperationState,
    Target,
    TargetState,
)
from corral.operations import actions
from corral.operations.admission import AdmissionResult
from corral.store import assignments as assignment_store
from corral.store import operations as store
from corral.store.operations import EndedOperation
from corral.wire.nodes import MessageOut
from corral.wire.operations import (
    AssignmentOut,
    BuildOut,
    ClearedHistoryOut,
    EndedOperationOut,
    OperationActionOut,
    OperationDetailOut,
    OperationHistoryOut,
    OperationNoteOut,
    OperationOut,
    OperationProgressOut,
    OperationRetryOut,
    OperationsOut,
    TargetDetailOut,
    TargetOut,
)

TASK_TYPES = {
    OperationKind.BACKEND_INSTALL: "installation",
    OperationKind.BACKEND_UPGRADE: "upgrade",
    OperationKind.BACKEND_REINSTALL: "reinstallation",
    OperationKind.BACKEND_ROLLBACK: "rollback",
    OperationKind.BACKEND_DELETE: "deletion",
    OperationKind.MODEL_INSTALL: "installation",
    OperationKind.MODEL_LOAD: "loading",
    OperationKind.MODEL_STAGE: "staging",
    OperationKind.MODEL_UNLOAD: "unloading",
    OperationKind.MODEL_DELETE: "deletion",
}
# LocalAI's words for the states of a node; it has none for the other states.
_LOCALAI_STATUSES: dict[str, str] = {TargetState.WORKING: "downloading", TargetState.UNCONFIRMED: "running_on_worker"}


def to_json(value: BaseModel) -> bytes:
    """Return the JSON as FastAPI would write it: field names of the wire, and unknown values left out."""
    return value.model_dump_json(by_alias=True, exclude_none=True).encode()


def get_display_name(operation: Operation) -> str:
    """Return an operation's display name without the gallery. Names may contain colons; the first @ separates the
    gallery from the name."""
    gallery, _, name = operation.subject.partition("@")
    return name if gallery and name else operation.subject


def get_full_name(operation: Operation) -> str:
    return f"node:{operation.scope_node}:{operation.subject}" if operation.scope_node else operation.subject


def operation_to_wire(operation: Operation) -> OperationOut:
    return OperationOut(
        **_collect_common_fields(operation),
        nodes=[target_to_wire(target) for target in _sort_by_name(operation.targets)],
    )


def operation_detail_to_wire(operation: Operation) -> OperationDetailOut:
    return OperationDetailOut(
        **_collect_common_fields(operation),
        request=dict(operation.request),
        owner=operation.owner,
        attempt=operation.attempt,
        is_reaped=operation.is_reaped,
        dismissed_at=operation.dismissed_at,
        dismissed_by=operation.dismissed_by,
        nodes=[_target_detail_to_wire(target) for target in _sort_by_name(operation.targets)],
    )


def retry_to_wire(admitted: AdmissionResult) -> OperationRetryOut:
    return OperationRetryOut(
        id=admitted.operation.id,
        deduplicated=admitted.is_duplicate,
        message="Already running." if admitted.is_duplicate else "Requested again.",
        operation=operation_to_wire(admitted.operation),
    )


def ended_operation_to_wire(record: EndedOperation) -> EndedOperationOut:
    operation = record.operation
    return EndedOperationOut(
        **_collect_name_fields(operation),
        outcome=get_outcome(operation),
        message=operation.message,
        started_at=operation.started_at,
        finished_at=operation.finished_at,
        nodes=list(record.node_names),
        node_count=record.node_count,
    )


def get_outcome(operation: Operation) -> str:
    """Return the outcome of an operation. An error takes precedence over everything, as in LocalAI's record."""
    if operation.fault is not None:
        return str(OperationState.FAILED)
    return str(operation.state)


def sort_live(operations: Iterable[OperationOut]) -> list[OperationOut]:
    """Sort operations for the live list, the least advanced first."""
    return sorted(operations, key=lambda one: (one.progress, one.id))


def target_to_wire(target: Target) -> TargetOut:
    return TargetOut(**_collect_target_fields(target))


def note_to_wire(note: OperationNote) -> OperationNoteOut:
    return OperationNoteOut(at=note.at, level=note.level, text=note.text, node_name=note.node_name)


def assignment_to_wire(assignment: Assignment, node_name: str) -> AssignmentOut:
    return AssignmentOut(
        node_id=assignment.node_id,
        node_name=node_name,
        backend=assignment.backend,
        desired=assignment.desired,
        version=_get_version(assignment.build),
        state=assignment.state,
        generation=assignment.generation,
        operation_id=assignment.operation_id,
        attempts=assignment.attempts,
        next_retry_at=assignment.next_retry_at,
        error=assignment.fault.text if assignment.fault else None,
        error_code=assignment.fault.code if assignment.fault else None,
        created_at=assignment.created_at,
    )


def progress_to_wire(delta: OperationDelta) -> OperationProgressOut:
    return OperationProgressOut(
        id=delta.operation_id,
        rev=delta.rev,
        state=delta.state,
        progress=delta.percent,
        phase=delta.phase or None,
        current_bytes=delta.current_bytes,
        total_bytes=delta.total_bytes,
        message=delta.message,
        nodes=[_delta_to_wire(target) for target in delta.targets],
    )


def _delta_to_wire(target: TargetDelta) -> TargetOut:
    # A delta contains only changed fields; the reader keeps its values of the others.
    return TargetOut(
        node_id=target.node,
        node_name=target.node_name,
        status=_get_localai_status(target.state),
        state=target.state,
        phase=target.phase or None,
        file_name=target.file_name,
        current=target.current_bytes,
        total=target.total_bytes,
        percentage=target.percent,
        error=target.error_text or None,
    )


def _collect_common_fields(operation: Operation) -> dict[str, Any]:
    progress = operation.progress
    return _collect_name_fields(operation) | {
        "rev": operation.rev,
        "progress": progress.percent,
        "is_queued": operation.state is OperationState.QUEUED,
        "cancellable": operation.is_cancellable,
        "message": operation.message,
        "phase": progress.phase,
        "current_bytes": progress.current_bytes,
        "total_bytes": progress.total_bytes,
        "started_at": operation.started_at,
        "finished_at": operation.finished_at,
        "updated_at": operation.updated_at,
        "deadline_at": operation.deadline_at,
        "after_id": operation.after_id,
        "retry_of": operation.retry_of,
    }


def _collect_name_fields(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "job_id": operation.id,
        "name": get_display_name(operation),
        "full_name": get_full_name(operation),
        "kind": operation.kind,
        "state": operation.state,
        "is_backend": operation.kind.is_backend,
        "is_deletion": operation.kind.is_deletion,
        "node_id": operation.scope_node,
        "node_name": operation.scope_node_name or None,
        "task_type": TASK_TYPES[operation.kind],
        "error": operation.fault.text if operation.fault else None,
        "error_code": operation.fault.code if operation.fault else None,
        "created_by": operation.created_by,
        "created_at": operation.created_at,
    }


def _sort_by_name(targets: Iterable[Target]) -> list[Target]:
    return sorted(targets, key=lambda target: (target.node_name, target.node))


def _collect_target_fields(target: Target) -> dict[str, Any]:
    progress = target.progress
    return {
        "node_id": target.node,
        "node_name": target.node_name,
        "status": _get_localai_status(target.state),
        "state": target.state,
        "phase": progress.phase,
        "file_name": progress.file_name,
        "current": progress.current_bytes,
        "total": progress.total_bytes,
        "percentage": progress.percent,
        "error": target.fault.text if target.fault else None,
        "error_code": target.fault.code if target.fault else None,
        "begun": target.contacted_at is not None or target.heard_at is not None,
        "wave": target.wave,
        "attempt": target.attempt,
        "version": _get_desired_version(target),
        "previous_version": _get_version(target.previous),
        "finished_at": target.finished_at,
    }


def _target_detail_to_wire(target: Target) -> TargetDetailOut:
    return TargetDetailOut(
        **_collect_target_fields(target),
        job_id=target.job_id,
        generation=target.generation,
        build=build_to_wire(target.build) if target.build else None,
        is_rollback=target.is_rollback,
        stop_wanted=target.stop_wanted,
        contacted_at=target.contacted_at,
        heard_at=target.heard_at,
    )


def build_to_wire(build: Mapping[str, Any]) -> BuildOut:
    """Build the view of a build from the JSON that is stored with a target. It is for display, so missing values stay
    empty."""
    source = build.get("source") or {}
    return BuildOut(
        name=build.get("name", ""),
        version=build.get("version", ""),
        meta=build.get("meta", ""),
        gallery=build.get("gallery", ""),
        source=source.get("kind", ""),
        uri=source.get("uri", "") or ", ".join(source.get("requirements") or ()),
        sha256=source.get("sha256", ""),
        size_bytes=source.get("size_bytes"),
    )


def _get_desired_version(target: Target) -> str:
    """Return the version that the node should have. A rollback has no build and returns to the previous version."""
    return _get_version(target.build) or str((target.previous or {}).get("previous_version") or "")


def _get_version(build: Mapping[str, Any] | None) -> str:
    return str(build.get("version") or "") if build else ""


def _get_localai_status(state: str) -> str:
    return _LOCALAI_STATUSES.get(state, state)


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
