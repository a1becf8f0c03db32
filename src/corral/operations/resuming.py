"""Taking up a paused operation: the same operation, the same nodes and builds, new jobs.

A worker has ended the old job, so each target gets a new one with a newer generation; it goes on from the bytes that
it kept. Targets whose node has been drained or removed meanwhile end with that reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.domain.backend import Desired
from corral.domain.node import Node, NodeId
from corral.domain.operation import Operation, OperationState, Target, TargetState
from corral.policy.gallery import build_from_json
from corral.policy.planning import PlannedTarget, desired_of
from corral.ports.runtime import Ids
from corral.store import access as access_store
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.schema import NOW


async def resume_paused(tx: Transaction, paused: Operation, ids: Ids, actor: str) -> Operation:
    """The caller holds the lock of the scope and has seen that no rival is active."""
    operation = await operation_store.lock(tx, paused.id)
    values: dict[str, Any] = {
        "state": OperationState.QUEUED,
        "message": "Waits for its turn.",
        "finished_at": None,
        "due_at": NOW,
    }
    if operation.kind.is_backend:
        operation = await operation_store.change(tx, operation.id, values)
        put_aside = [target for target in operation.targets if is_put_aside(target)]
        present = await node_store.list_nodes(tx, only=[target.node for target in put_aside])
        await assignment_store.assign(tx, operation, _planned(operation, put_aside, present), ids)
        await assignment_store.end_missing(tx, operation.id)
    else:
        # A node is chosen anew; the one that has a part of the files already is the likeliest.
        operation = await operation_store.change(tx, operation.id, values | {"deadline_at": None})
    await operation_store.add_note(tx, operation.id, f"Resumed by {actor}.")
    await access_store.record(tx, actor, "operation.resume", operation.id, operation.subject)
    await outbox.append(tx, "operation.changed", operation.id, operation_store.event_data(operation))
    return await operation_store.get(tx, operation.id)


def is_put_aside(target: Target) -> bool:
    """Stopped by a pause, as opposed to cancelled for good."""
    return target.state is TargetState.CANCELLED and target.keeps_partial


def _planned(operation: Operation, targets: Sequence[Target], present: Sequence[Node]) -> list[PlannedTarget]:
    nodes: dict[NodeId, Node] = {node.id: node for node in present}
    planned: list[PlannedTarget] = []
    for target in targets:
        # A removal that has begun is never paused, so every target that was put aside has its build.
        if target.node in nodes and target.build is not None:
            build = build_from_json(target.build)
            planned.append(
                PlannedTarget(
                    node=nodes[target.node],
                    backend=build.name,
                    desired=Desired.ROLLED_BACK if target.is_rollback else desired_of(operation.kind, target.previous),
                    build=build,
                    previous=target.previous,
                    wave=target.wave,
                    fetch_bytes=target.progress.total_bytes,
                )
            )
    return planned
