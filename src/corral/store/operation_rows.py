"""Converts rows of operations, targets, assignments and installed backends to values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from corral.domain.backend import Assignment, AssignmentState, DesiredState, InstalledBackend
from corral.domain.node import NodeId
from corral.domain.operation import (
    Fault,
    JobId,
    JobPhase,
    Operation,
    OperationId,
    OperationKind,
    OperationState,
    Progress,
    Target,
    TargetState,
)


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
