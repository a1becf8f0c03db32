"""Operations, targets, notes and assignments as JSON. One name for one operation, live or recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from corral.bus.messages import OperationDelta, TargetDelta
from corral.domain.backend import Assignment
from corral.domain.operation import (
    Operation,
    OperationKind,
    OperationNote,
    OperationState,
    Target,
    TargetState,
)
from corral.operations.admission import Admitted
from corral.store.operations import Recorded
from corral.wire.operations import (
    BuildOut,
    IntentOut,
    NoteOut,
    OperationInFull,
    OperationOut,
    ProgressOut,
    RecordOut,
    RetryOut,
    TargetInFull,
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
# The ancestor's words for how a node is doing; for the other states it had none.
_STATUS: dict[str, str] = {TargetState.WORKING: "downloading", TargetState.UNCONFIRMED: "running_on_worker"}


def as_json(value: BaseModel) -> bytes:
    """As the framework would write it: by the names of the wire, and what is not known is left out."""
    return value.model_dump_json(by_alias=True, exclude_none=True).encode()


def display_name(operation: Operation) -> str:
    """Without its gallery. Names may hold colons, and only the first @ parts a gallery from a name."""
    gallery, _, name = operation.subject.partition("@")
    return name if gallery and name else operation.subject


def full_name(operation: Operation) -> str:
    return f"node:{operation.scope_node}:{operation.subject}" if operation.scope_node else operation.subject


def operation_out(operation: Operation) -> OperationOut:
    return OperationOut(**_common(operation), nodes=[target_out(target) for target in _by_name(operation.targets)])


def operation_in_full(operation: Operation) -> OperationInFull:
    return OperationInFull(
        **_common(operation),
        request=dict(operation.request),
        owner=operation.owner,
        attempt=operation.attempt,
        is_reaped=operation.is_reaped,
        dismissed_at=operation.dismissed_at,
        dismissed_by=operation.dismissed_by,
        nodes=[_target_in_full(target) for target in _by_name(operation.targets)],
    )


def retry_out(admitted: Admitted) -> RetryOut:
    return RetryOut(
        id=admitted.operation.id,
        deduplicated=admitted.is_duplicate,
        message="Already under way." if admitted.is_duplicate else "Asked for again.",
        operation=operation_out(admitted.operation),
    )


def record_out(record: Recorded) -> RecordOut:
    operation = record.operation
    return RecordOut(
        **_named(operation),
        outcome=outcome_of(operation),
        message=operation.message,
        started_at=operation.started_at,
        finished_at=operation.finished_at,
        nodes=list(record.node_names),
        node_count=record.node_count,
    )


def outcome_of(operation: Operation) -> str:
    """Error wins over everything, as in the ancestor's record."""
    if operation.fault is not None:
        return str(OperationState.FAILED)
    return str(operation.state)


def live_order(operations: Iterable[OperationOut]) -> list[OperationOut]:
    """The least advanced first."""
    return sorted(operations, key=lambda one: (one.progress, one.id))


def target_out(target: Target) -> TargetOut:
    return TargetOut(**_target(target))


def note_out(note: OperationNote) -> NoteOut:
    return NoteOut(at=note.at, level=note.level, text=note.text, node_name=note.node_name)


def intent_out(assignment: Assignment, node_name: str) -> IntentOut:
    return IntentOut(
        node_id=assignment.node_id,
        node_name=node_name,
        backend=assignment.backend,
        desired=assignment.desired,
        version=_version(assignment.build),
        state=assignment.state,
        generation=assignment.generation,
        operation_id=assignment.operation_id,
        attempts=assignment.attempts,
        next_retry_at=assignment.next_retry_at,
        error=assignment.fault.text if assignment.fault else None,
        error_code=assignment.fault.code if assignment.fault else None,
        created_at=assignment.created_at,
    )


def progress_out(delta: OperationDelta) -> ProgressOut:
    return ProgressOut(
        id=delta.operation_id,
        rev=delta.rev,
        state=delta.state,
        progress=delta.percent,
        phase=delta.phase or None,
        current_bytes=delta.current_bytes,
        total_bytes=delta.total_bytes,
        message=delta.message,
        nodes=[_delta_out(target) for target in delta.targets],
    )


def _delta_out(target: TargetDelta) -> TargetOut:
    # Only what a delta knows: what is left out stays as the reader has it.
    return TargetOut(
        node_id=target.node,
        node_name=target.node_name,
        status=_status(target.state),
        state=target.state,
        phase=target.phase or None,
        file_name=target.file_name,
        current=target.current_bytes,
        total=target.total_bytes,
        percentage=target.percent,
        error=target.error_text or None,
    )


def _common(operation: Operation) -> dict[str, Any]:
    progress = operation.progress
    return _named(operation) | {
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


def _named(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "job_id": operation.id,
        "name": display_name(operation),
        "full_name": full_name(operation),
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


def _by_name(targets: Iterable[Target]) -> list[Target]:
    return sorted(targets, key=lambda target: (target.node_name, target.node))


def _target(target: Target) -> dict[str, Any]:
    progress = target.progress
    return {
        "node_id": target.node,
        "node_name": target.node_name,
        "status": _status(target.state),
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
        "version": _wanted_version(target),
        "previous_version": _version(target.previous),
        "finished_at": target.finished_at,
    }


def _target_in_full(target: Target) -> TargetInFull:
    return TargetInFull(
        **_target(target),
        job_id=target.job_id,
        generation=target.generation,
        build=build_out(target.build) if target.build else None,
        is_rollback=target.is_rollback,
        stop_wanted=target.stop_wanted,
        contacted_at=target.contacted_at,
        heard_at=target.heard_at,
    )


def build_out(build: Mapping[str, Any]) -> BuildOut:
    """From the JSON that is kept with a target: this is for eyes, so what is missing stays empty."""
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


def _wanted_version(target: Target) -> str:
    """What the node is to have; one that goes back has no build, and goes to what it had before."""
    return _version(target.build) or str((target.previous or {}).get("previous_version") or "")


def _version(build: Mapping[str, Any] | None) -> str:
    return str(build.get("version") or "") if build else ""


def _status(state: str) -> str:
    return _STATUS.get(state, state)
