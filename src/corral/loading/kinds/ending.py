"""Unloading a model, also with the copies of some nodes, and deleting it with every copy. Both only mark rows and look
until they are gone.

Who ends processes is `loading/stopping.py`, who has files removed is `loading/removing.py`; both go on whatever becomes
of the operation. Guarantee: a model that is deleted is gone from the registry at once; what absent nodes still hold of
it is owed, and done when they come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corral.domain.errors import NotFound
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, OperationState, Phase, Progress, Target, TargetState
from corral.domain.replica import Replica
from corral.loading.kinds.view import Next, View, completed, end_targets, failed, reread
from corral.models import catalog as model_flow
from corral.policy.dispatch import Verdict, can_be_asked
from corral.policy.faults import NODE_REMOVED
from corral.policy.progress import Ended
from corral.ports.library import ModelLibrary
from corral.ports.runtime import Ids
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import staged as staged_store
from corral.store.database import Transaction
from corral.store.loads import NewTarget

LOOK_S = 1.0
# After the grace: how long a process may take to end before its node is said to have failed.
STOP_PATIENCE_S = 60.0
_DONE = Ended(state=TargetState.SUCCESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadKind:
    ids: Ids
    grace_s: float = replica_store.GRACE_S

    async def advance(self, tx: Transaction, view: View) -> Next:
        if not view.operation.targets:
            rows = await _replicas(tx, view)
            copies = await _owe_copies(tx, view)
            if not rows and not copies:
                return Next(verdict=completed(view, _nothing_there(view)))
            await self._begin(tx, view, rows, copies)
            view = await reread(tx, view)
        there = {replica.id: replica for replica in await replica_store.list_replicas(tx, model=view.wanted.model)}
        left = {
            target.node: [there[key] for key in _ids_of(target) if key in there] for target in view.operation.targets
        }
        owed = {removal.node_id: removal for removal in await _list_owed(tx, view)}
        ends = [(target, _DONE) for target in view.open if not left[target.node] and target.node not in owed]
        if self._is_over(view):
            ends += [(target, _not_stopped(left[target.node])) for target in view.open if left[target.node]]
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends, tells=False)
        if not view.open:
            words = f"Removed the files of {view.wanted.model} from" if view.wanted.removes_files else "Unloaded from"
            return Next(verdict=_outcome(view, words), moved=moved)
        if not any(left[target.node] for target in view.open):
            return replace(_removing(view, owed), moved=moved)
        problems = [one.stop_problem for target in view.open for one in left[target.node] if one.stop_problem]
        words = f"Unloading {view.wanted.model} from {_names(view.open)}"
        verdict = _moving(view, f"{words}: {problems[0]}" if problems else words, Phase.STOPPING)
        return Next(verdict=verdict, moved=moved, hears_replicas=True)

    async def _begin(
        self, tx: Transaction, view: View, rows: Sequence[Replica], copies: Sequence[staged_store.Removal]
    ) -> None:
        by_node: dict[NodeId, list[str]] = {removal.node_id: [] for removal in copies}
        for replica in rows:
            by_node.setdefault(replica.node_id, []).append(replica.id)
        await load_store.put_targets(tx, view.operation.id, await _targets(tx, self.ids, by_node))
        reason = f"Unloaded by {view.operation.created_by}."
        grace_s = 0.0 if view.wanted.is_forced else self.grace_s
        await replica_store.mark_unloading(tx, [replica.id for replica in rows], reason, grace_s=grace_s)

    def _is_over(self, view: View) -> bool:
        began = view.operation.started_at or view.operation.created_at
        return (view.now - began).total_seconds() > self.grace_s + STOP_PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKind:
    ids: Ids
    library: ModelLibrary

    async def advance(self, tx: Transaction, view: View) -> Next:
        name, key = view.wanted.model, view.operation.id
        if view.model is not None and not view.operation.targets:
            await self._begin(tx, view)
            view = await reread(tx, view)
        owed = {removal.node_id: removal for removal in await staged_store.list_removals(tx, operation_id=key)}
        ends = [(target, _DONE) for target in view.open if target.node not in owed]
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends, tells=False)
        if not view.open:
            words = f"Removed {name}" + (f" from {_names(view.operation.targets)}" if view.operation.targets else "")
            return Next(verdict=completed(view, words), moved=moved, afterwards=self.library.forget_unused)
        return replace(_removing(view, owed), moved=moved)

    async def _begin(self, tx: Transaction, view: View) -> None:
        """The model goes at once; what is left are copies. Operations, models, nodes, replicas: in this order."""
        name = view.wanted.model
        try:
            await model_flow.forget(tx, name, view.operation.created_by)
        except NotFound:
            return
        await staged_store.owe_removals(tx, name, view.operation.id)
        owed = await staged_store.list_removals(tx, operation_id=view.operation.id)
        by_node: dict[NodeId, list[str]] = {removal.node_id: [] for removal in owed}
        await load_store.put_targets(tx, view.operation.id, await _targets(tx, self.ids, by_node))


def _removing(view: View, owed: Mapping[NodeId, staged_store.Removal]) -> Next:
    """Wait for the nodes that can be reached; what the others owe is done when they are back."""
    there = [target for target in view.open if can_be_asked(view.nodes.get(target.node))]
    problems = [owed[target.node].problem for target in view.open if owed[target.node].problem]
    if there:
        words = f"Removing {view.wanted.model} from {_names(there)}"
        verdict = _moving(view, f"{words}: {problems[0]}" if problems else words, Phase.REMOVING)
        return Next(verdict=verdict, hears_replicas=True)
    words = f"Removed where it could be; owed to {_names(view.open)}, which cannot be reached now"
    progress = _share_done(view, Phase.REMOVING)
    return Next(verdict=Verdict(state=OperationState.COMPLETED_WITH_PENDING, message=words, progress=progress))


async def _owe_copies(tx: Transaction, view: View) -> list[staged_store.Removal]:
    """Write down that the named nodes are to remove their copies, if that was asked for; return what they owe."""
    if view.wanted.removes_files:
        await staged_store.owe_removals(tx, view.wanted.model, view.operation.id, nodes=view.wanted.nodes)
    return await _list_owed(tx, view)


async def _list_owed(tx: Transaction, view: View) -> list[staged_store.Removal]:
    if not view.wanted.removes_files:
        return []
    return await staged_store.list_removals(tx, operation_id=view.operation.id)


def _nothing_there(view: View) -> str:
    if view.wanted.removes_files:
        return f"There is no copy of {view.wanted.model} to remove"
    return f"{view.wanted.model} is loaded nowhere"


async def _replicas(tx: Transaction, view: View) -> list[Replica]:
    wanted = None if view.wanted.nodes is None else set(view.wanted.nodes)
    rows = await replica_store.list_replicas(tx, model=view.wanted.model)
    return [row for row in rows if wanted is None or row.node_id in wanted]


async def _targets(tx: Transaction, ids: Ids, by_node: dict[NodeId, list[str]]) -> list[NewTarget]:
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


def _ids_of(target: Target) -> list[str]:
    return [str(key) for key in (target.build or {}).get("replicas") or ()]


def _not_stopped(left: Sequence[Replica]) -> Ended:
    problem = next((one.stop_problem for one in left if one.stop_problem), "it does not answer")
    text = f"Its process has not ended yet: {problem} It is tried again until it has."
    return Ended(state=TargetState.ERROR, fault=Fault(code="stop_failed", text=text))


def _outcome(view: View, words: str) -> Verdict:
    """A node that was removed has nothing left to end."""
    failures = [
        target
        for target in view.operation.targets
        if target.state is TargetState.ERROR and (target.fault is None or target.fault.code != NODE_REMOVED)
    ]
    if failures:
        text = "; ".join(f"{t.node_name}: {t.fault.text if t.fault else 'failed'}" for t in failures)
        return failed(view, Fault(code="stop_failed", text=text))
    return completed(view, f"{words} {_names(view.operation.targets)}")


def _moving(view: View, words: str, phase: Phase) -> Verdict:
    return Verdict(
        state=OperationState.RUNNING
        if view.operation.state is not OperationState.COMPLETED_WITH_PENDING
        else OperationState.COMPLETED_WITH_PENDING,
        message=words,
        progress=_share_done(view, phase),
        is_moving=True,
        next_at=view.in_seconds(LOOK_S),
    )


def _share_done(view: View, phase: Phase) -> Progress:
    targets = view.operation.targets
    ended = len(targets) - len(view.open)
    percent = 100.0 * ended / len(targets) if targets else 0.0
    return replace(view.operation.progress, percent=max(percent, view.operation.progress.percent), phase=phase)


def _names(targets: Sequence[Target]) -> str:
    shown = ", ".join(target.node_name for target in targets[:5])
    return shown if len(targets) <= 5 else f"{shown} and {len(targets) - 5} more"
