"""Operations, targets, notes and assignments as JSON. One representation of an operation, live or in the history."""

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
from corral.operations.admission import AdmissionResult
from corral.store.operations import EndedOperation
from corral.wire.operations import (
    AssignmentOut,
    BuildOut,
    EndedOperationOut,
    OperationDetailOut,
    OperationNoteOut,
    OperationOut,
    OperationProgressOut,
    OperationRetryOut,
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
