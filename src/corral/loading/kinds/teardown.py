"""Handles unloading a model, also with the copies of some nodes, and deleting it with every copy. Both only mark
rows and look until they are gone.

`loading/replica_stopper.py` ends the processes and `loading/copy_remover.py` removes the files; both go on whatever
becomes of the operation. Guarantee: a model that is deleted is gone from the registry at once; copies on absent nodes
are pending removals, done when the nodes come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corral.domain.errors import NotFound
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, JobPhase, OperationState, Progress, Target, TargetState
from corral.domain.replica import Replica
from corral.loading.kinds.view import (
    ModelOperationView,
    end_targets,
    make_completed_verdict,
    make_failed_verdict,
    reload_view,
)
from corral.models import catalog as model_flow
from corral.operations.driver import AdvanceResult
from corral.policy.dispatch import OperationVerdict
from corral.policy.faults import NODE_REMOVED
from corral.policy.progress import TargetEnd
from corral.policy.status import is_reachable
from corral.ports.library import ModelLibrary
from corral.ports.runtime import IdGenerator
from corral.store import holdings as staged_store
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.store.loads import NewTarget

LOOK_S = 1.0
# How long a process may take to end after the grace period before its node counts as failed.
STOP_PATIENCE_S = 60.0
_DONE = TargetEnd(state=TargetState.SUCCESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadHandler:
    """Drives operations that unload a model: end its replicas, and remove copies of its files if requested."""

    ids: IdGenerator
    grace_s: float = replica_store.GRACE_S

    async def advance(self, tx: Transaction, view: ModelOperationView) -> AdvanceResult:
        if not view.operation.targets:
            rows = await _list_replicas(tx, view)
            copies = await _assign_removals(tx, view)
            if not rows and not copies:
                return AdvanceResult(verdict=make_completed_verdict(view, _describe_nothing_to_do(view)))
            await self._begin(tx, view, rows, copies)
            view = await reload_view(tx, view)
        replicas = {replica.id: replica for replica in await replica_store.list_replicas(tx, model=view.spec.model)}
        left = {
            target.node: [replicas[key] for key in _read_replica_ids(target) if key in replicas]
            for target in view.operation.targets
        }
        removals = {removal.node_id: removal for removal in await _list_removals(tx, view)}
        ends = [
            (target, _DONE) for target in view.open_targets if not left[target.node] and target.node not in removals
        ]
        if self._is_over(view):
            ends += [
                (target, _make_not_stopped_end(left[target.node])) for target in view.open_targets if left[target.node]
            ]
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends, notifies_workers=False)
        if not view.open_targets:
            words = f"Removed the files of {view.spec.model} from" if view.spec.removes_files else "Unloaded from"
            return AdvanceResult(verdict=_make_end_verdict(view, words), moved=moved)
        if not any(left[target.node] for target in view.open_targets):
            return replace(_make_removing_result(view, removals), moved=moved)
        problems = [one.stop_problem for target in view.open_targets for one in left[target.node] if one.stop_problem]
        words = f"Unloading {view.spec.model} from {_format_names(view.open_targets)}"
        verdict = _make_moving_verdict(view, f"{words}: {problems[0]}" if problems else words, JobPhase.STOPPING)
        return AdvanceResult(verdict=verdict, moved=moved, watches_replicas=True)

    async def _begin(
        self,
        tx: Transaction,
        view: ModelOperationView,
        rows: Sequence[Replica],
        copies: Sequence[staged_store.CopyRemoval],
    ) -> None:
        by_node: dict[NodeId, list[str]] = {removal.node_id: [] for removal in copies}
        for replica in rows:
            by_node.setdefault(replica.node_id, []).append(replica.id)
        await load_store.put_targets(tx, view.operation.id, await _make_targets(tx, self.ids, by_node))
        reason = f"Unloaded by {view.operation.created_by}."
        grace_s = 0.0 if view.spec.is_forced else self.grace_s
        await replica_store.mark_unloading(tx, [replica.id for replica in rows], reason, grace_s=grace_s)

    def _is_over(self, view: ModelOperationView) -> bool:
        began = view.operation.started_at or view.operation.created_at
        return (view.now - began).total_seconds() > self.grace_s + STOP_PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteHandler:
    """Drives operations that delete a model: delete it at once, and wait until nodes have removed its files."""

    ids: IdGenerator
    library: ModelLibrary

    async def advance(self, tx: Transaction, view: ModelOperationView) -> AdvanceResult:
        name, key = view.spec.model, view.operation.id
        if view.model is not None and not view.operation.targets:
            await self._begin(tx, view)
            view = await reload_view(tx, view)
        removals = {removal.node_id: removal for removal in await staged_store.list_removals(tx, key)}
        ends = [(target, _DONE) for target in view.open_targets if target.node not in removals]
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends, notifies_workers=False)
        if not view.open_targets:
            words = f"Removed {name}" + (
                f" from {_format_names(view.operation.targets)}" if view.operation.targets else ""
            )
            return AdvanceResult(
                verdict=make_completed_verdict(view, words), moved=moved, afterwards=self.library.forget_unused
            )
        return replace(_make_removing_result(view, removals), moved=moved)

    async def _begin(self, tx: Transaction, view: ModelOperationView) -> None:
        """Delete the model at once; only copies are left. The lock order is operations, models, nodes, replicas."""
        name = view.spec.model
        try:
            await model_flow.delete_model(tx, name, view.operation.created_by)
        except NotFound:
            return
        await staged_store.assign_removals(tx, name, view.operation.id)
        removals = await staged_store.list_removals(tx, view.operation.id)
        by_node: dict[NodeId, list[str]] = {removal.node_id: [] for removal in removals}
        await load_store.put_targets(tx, view.operation.id, await _make_targets(tx, self.ids, by_node))


def _make_removing_result(
    view: ModelOperationView, removals: Mapping[NodeId, staged_store.CopyRemoval]
) -> AdvanceResult:
    """Wait for the nodes that can be reached; the pending removals of the others are done when they are back."""
    reachable = [target for target in view.open_targets if is_reachable(view.nodes.get(target.node))]
    problems = [removals[target.node].problem for target in view.open_targets if removals[target.node].problem]
    if reachable:
        words = f"Removing {view.spec.model} from {_format_names(reachable)}"
        verdict = _make_moving_verdict(view, f"{words}: {problems[0]}" if problems else words, JobPhase.REMOVING)
        return AdvanceResult(verdict=verdict, watches_replicas=True)
    words = f"Removed from reachable nodes; pending for {_format_names(view.open_targets)}, which cannot be reached"
    progress = _compute_progress(view, JobPhase.REMOVING)
    return AdvanceResult(
        verdict=OperationVerdict(state=OperationState.COMPLETED_WITH_PENDING, message=words, progress=progress)
    )


async def _assign_removals(tx: Transaction, view: ModelOperationView) -> list[staged_store.CopyRemoval]:
    """Write pending removals for the named nodes, if the spec requests it, and return those that are open."""
    if view.spec.removes_files:
        await staged_store.assign_removals(tx, view.spec.model, view.operation.id, nodes=view.spec.nodes)
    return await _list_removals(tx, view)


async def _list_removals(tx: Transaction, view: ModelOperationView) -> list[staged_store.CopyRemoval]:
    if not view.spec.removes_files:
        return []
    return await staged_store.list_removals(tx, view.operation.id)


def _describe_nothing_to_do(view: ModelOperationView) -> str:
    if view.spec.removes_files:
        return f"There is no copy of {view.spec.model} to remove"
    return f"{view.spec.model} is loaded nowhere"


async def _list_replicas(tx: Transaction, view: ModelOperationView) -> list[Replica]:
    named = None if view.spec.nodes is None else set(view.spec.nodes)
    rows = await replica_store.list_replicas(tx, model=view.spec.model)
    return [row for row in rows if named is None or row.node_id in named]


async def _make_targets(tx: Transaction, ids: IdGenerator, by_node: dict[NodeId, list[str]]) -> list[NewTarget]:
    nodes = {node.id: node for node in await node_store.list_nodes(tx, only=list(by_node))}
    return [
        NewTarget(
            node=nodes[node],
            job_id=JobId(ids.new_id()),
            build={"name": "", "version": "", "replicas": keys},
            state=TargetState.WORKING,
        )
        for node, keys in sorted(by_node.items())
        if node in nodes
    ]


def _read_replica_ids(target: Target) -> list[str]:
    return [str(key) for key in (target.build or {}).get("replicas") or ()]


def _make_not_stopped_end(left: Sequence[Replica]) -> TargetEnd:
    problem = next((one.stop_problem for one in left if one.stop_problem), "it does not respond")
    text = f"Its process has not ended yet: {problem} Corral retries until it has."
    return TargetEnd(state=TargetState.ERROR, fault=Fault(code="stop_failed", text=text))


def _make_end_verdict(view: ModelOperationView, words: str) -> OperationVerdict:
    """Return the final verdict. A removed node counts as done: it has nothing left to end."""
    failures = [
        target
        for target in view.operation.targets
        if target.state is TargetState.ERROR and (target.fault is None or target.fault.code != NODE_REMOVED)
    ]
    if failures:
        text = "; ".join(f"{t.node_name}: {t.fault.text if t.fault else 'failed'}" for t in failures)
        return make_failed_verdict(view, Fault(code="stop_failed", text=text))
    return make_completed_verdict(view, f"{words} {_format_names(view.operation.targets)}")


def _make_moving_verdict(view: ModelOperationView, words: str, phase: JobPhase) -> OperationVerdict:
    return OperationVerdict(
        state=OperationState.RUNNING
        if view.operation.state is not OperationState.COMPLETED_WITH_PENDING
        else OperationState.COMPLETED_WITH_PENDING,
        message=words,
        progress=_compute_progress(view, phase),
        is_moving=True,
        next_at=view.compute_time_after(LOOK_S),
    )


def _compute_progress(view: ModelOperationView, phase: JobPhase) -> Progress:
    targets = view.operation.targets
    ended = len(targets) - len(view.open_targets)
    percent = 100.0 * ended / len(targets) if targets else 0.0
    return replace(view.operation.progress, percent=max(percent, view.operation.progress.percent), phase=phase)


def _format_names(targets: Sequence[Target]) -> str:
    shown = ", ".join(target.node_name for target in targets[:5])
    return shown if len(targets) <= 5 else f"{shown} and {len(targets) - 5} more"
