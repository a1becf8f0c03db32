"""What must hold for operations when the faults are over: all have ended, and nodes have what was last requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corral.domain.operation import OPEN, OperationState, TargetState
from tests.simulation.operations.inspector import Look, OperationsInspector, RecordedAssignment
from tests.simulation.operations.work import MachineWork
from tests.simulation.workers import SimWorker

_S = OperationState


def of_operations(
    look: Look, workers: Sequence[SimWorker], works: Mapping[str, MachineWork], inspector: OperationsInspector
) -> list[str]:
    away = {worker.name for worker in workers if not worker.is_running}
    present = {node.name: node for node in look.nodes if node.name in works and node.name not in away}
    return [
        *_ends(look, away),
        *_leases(look),
        *_jobs(works),
        *_reports(look, works, present),
        *_check_assignments(look, works, present, inspector),
        *_check_never_sent(works, inspector),
        *_stopped(works, inspector),
    ]


def _ends(look: Look, away: set[str]) -> list[str]:
    """Return the operations that have not ended, except those without a deadline that only an absent machine holds
    up."""
    wrong = []
    for operation in look.operations:
        state = _S(operation.state)
        open_targets = [
            target
            for target in look.targets
            if target.operation_id == operation.id and not TargetState(target.state).is_final
        ]
        if state in OPEN or state is _S.PAUSED:
            late = [target for target in open_targets if target.node_name not in away]
            gated = any(target.node_name in away for target in open_targets)
            owes = state in (_S.COMPLETED_WITH_PENDING, _S.WAITING_ON_NODES) and open_targets
            if not owes or operation.deadline_at is not None or (late and not gated):
                names = [f"{target.node_name} {target.state}" for target in open_targets]
                wrong.append(f"operation {operation.id} ({operation.kind}) is still {state}: {names}")
        elif open_targets and not operation.reaped:
            wrong.append(f"operation {operation.id} is {state}, and has open targets")
    return wrong


def _leases(look: Look) -> list[str]:
    return [
        f"operation {operation.id} is {operation.state}, and {operation.owner} still holds it"
        for operation in look.operations
        if operation.owner is not None and operation.state not in (_S.RUNNING, _S.QUEUED)
    ]


def _jobs(works: Mapping[str, MachineWork]) -> list[str]:
    return [f"{name} is still at job {job}" for name, work in sorted(works.items()) for job in work.unfinished()]


def _reports(look: Look, works: Mapping[str, MachineWork], present: Mapping[str, Any]) -> list[str]:
    """Return the machines whose disk differs from the registry. Backends of an earlier node are reported without a
    generation."""
    wrong = []
    for name, node in sorted(present.items()):
        if node.approved_at is None:
            continue
        rows = [row for row in look.installed if row.node_id == str(node.id)]
        reported = {row.name: (row.version, row.generation) for row in rows}
        without_generation = {row.name for row in rows if not row.generation}
        disk = works[name].disk.installed.values()
        there = {item.name: (item.version, 0 if item.name in without_generation else item.generation) for item in disk}
        if reported != there:
            wrong.append(f"{name} has {there}, and the registry says {reported}")
    return wrong


def _check_assignments(
    look: Look, works: Mapping[str, MachineWork], present: Mapping[str, Any], inspector: OperationsInspector
) -> list[str]:
    """Return the backends that the newest successful operation has put on a node and the disk does not have."""
    by_id = {str(node.id): name for name, node in present.items()}
    states = {(str(target.operation_id), str(target.node)): target for target in look.targets}
    wrong = []
    for (node_id, backend), assignment in sorted(inspector.newest_assignments.items()):
        target = states.get((assignment.operation_id, node_id))
        if node_id not in by_id or target is None or target.state != TargetState.SUCCESS:
            continue
        there = works[by_id[node_id]].disk.installed.get(backend)
        if not _is_met(assignment, there.version if there else None, (target.previous or {}).get("version", "")):
            wrong.append(
                f"{by_id[node_id]} was to have {backend} {assignment.desired} {assignment.version} (generation"
                f" {assignment.generation}), the operation says success, and there is {there}"
            )
    return wrong


def _is_met(assignment: RecordedAssignment, version: str | None, previous: str) -> bool:
    match assignment.desired:
        case "absent":
            return version is None
        case "present":
            return version is not None
        case "replaced":
            return version == assignment.version
        case _:
            return version == previous


def _stopped(works: Mapping[str, MachineWork], inspector: OperationsInspector) -> list[str]:
    return [
        f"{name} got a stop for job {job} at {at_s:.1f} s, and did it"
        for name, work in sorted(works.items())
        for job, at_s in sorted(inspector.stopped.items())
        if work.went_on(job, at_s)
    ]


def _check_never_sent(works: Mapping[str, MachineWork], inspector: OperationsInspector) -> list[str]:
    """Return operations that were cancelled while queued and have reached a machine."""
    unseen = {key for key, story in inspector.stories.items() if story.states == [_S.QUEUED, _S.CANCELLED]}
    return [
        f"operation {key} was cancelled while it was queued, and {name} got a command of it"
        for name, work in sorted(works.items())
        for key in sorted(unseen & work.ledger.operations)
    ]
