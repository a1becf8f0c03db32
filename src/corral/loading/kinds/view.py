"""An operation about a model as a step sees it, what a step comes to, and how its nodes' parts are ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, Operation, OperationState, Progress, Target, TargetState
from corral.loading.request import Wanted
from corral.operations.apply import Told
from corral.operations.hearing import note
from corral.policy.dispatch import Verdict
from corral.policy.loading import NODE_LOST
from corral.policy.progress import Ended, Standing, aggregate, take
from corral.store import dispatch as store
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store.database import Transaction
from corral.store.dispatch import Hold
from corral.store.loads import LoadNews

Work = Callable[[], Awaitable[Told]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Read at one moment of the database, with the operation locked. `model` is None if there is none any more."""

    hold: Hold
    operation: Operation
    wanted: Wanted
    nodes: Mapping[NodeId, Node]
    model: Model | None
    now: datetime
    asks_all: bool = False

    @property
    def open(self) -> list[Target]:
        return [target for target in self.operation.targets if not target.state.is_final]

    @property
    def done(self) -> list[Target]:
        return [target for target in self.operation.targets if target.state is TargetState.SUCCESS]

    def is_edited(self, run_hash: str) -> bool:
        """Whether a node was told to do this for another run hash. Targets that were ended for this reason count: the
        end of the operation is written after their workers were told, and found again by whoever takes over."""
        counted = {TargetState.SUCCESS, TargetState.SUPERSEDED}
        targets = [one for one in self.operation.targets if not one.state.is_final or one.state in counted]
        return any(plan_of(target).get("revision") != run_hash for target in targets)

    @property
    def loaded_on(self) -> list[str]:
        """The name of a node for each replica that this load has brought; a node that got two is named twice."""
        return [
            target.node_name
            for target in self.operation.targets
            for _ in range(load_store.earlier_done(target.previous) + (target.state is TargetState.SUCCESS))
        ]

    def in_seconds(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What a look has come to. `works` are messages to nodes; afterwards it is looked once more."""

    verdict: Verdict
    works: tuple[Work, ...] = ()
    moved: frozenset[NodeId] = frozenset()
    # Whatever becomes of a replica may be what it waits for.
    hears_replicas: bool = False
    # Done after the end was written; it may fail without changing it.
    afterwards: Callable[[], Awaitable[None]] | None = None


class Kind(Protocol):
    """One kind of operation about models."""

    async def advance(self, tx: Transaction, view: View) -> Next:
        """Look, write down what follows, and say what comes next. Starts from the rows every time."""
        ...


def plan_of(target: Target) -> Mapping[str, Any]:
    """What was decided for a node when it was chosen."""
    found = (target.build or {}).get("load")
    return found if isinstance(found, Mapping) else {}


def progress_of(view: View) -> Progress:
    """Of the nodes that count: those that failed were replaced by others."""
    counted = [target for target in view.operation.targets if target.state is not TargetState.ERROR]
    return aggregate(counted, view.operation.progress)


def running(
    view: View,
    message: str,
    *,
    progress: Progress | None = None,
    next_s: float | None = None,
    next_at: datetime | None = None,
) -> Verdict:
    at = [moment for moment in (next_at, None if next_s is None else view.in_seconds(next_s)) if moment is not None]
    return Verdict(
        state=OperationState.RUNNING,
        message=message,
        progress=progress or progress_of(view),
        is_moving=True,
        next_at=min(at, default=None),
    )


def completed(view: View, message: str) -> Verdict:
    total = view.operation.progress.total_bytes
    whole = Progress(percent=100.0, current_bytes=total, total_bytes=total)
    return Verdict(state=OperationState.COMPLETED, message=message, progress=whole)


def failed(view: View, fault: Fault) -> Verdict:
    return _ended_early(view, OperationState.FAILED, fault)


def _ended_early(view: View, state: OperationState, fault: Fault) -> Verdict:
    # Whoever has to be told to stop is told at once.
    next_at = view.now if any(target.stop_wanted for target in view.operation.targets) else None
    return Verdict(
        state=state,
        message=fault.text,
        progress=view.operation.progress,
        fault=fault,
        next_at=next_at,
    )


def not_begun(view: View, cause: Operation) -> Verdict:
    """Cancel an operation because the one that it waited for brought nothing. `cause` alone is the failure."""
    words = f"the {cause.kind.replace('_', ' ')} of {cause.subject}"
    ended = f"{words} failed: {cause.fault.text}" if cause.fault else f"{words} was {cause.state}."
    message = f"Not begun: {ended}"
    return Verdict(state=OperationState.CANCELLED, message=message, progress=view.operation.progress)


async def end_targets(tx: Transaction, view: View, ends: Sequence[tuple[Target, Ended]], *, tells: bool = True) -> View:
    """It is over with these, without their workers having said so. With `tells`, those that may be at it are told, and
    what they may have started is stopped."""
    if not ends:
        return view
    changes = []
    for target, ended in ends:
        change = take(Standing(target=target, desired=None, attempts=0, next_job=target.job_id), ended)
        if change is not None:
            counted = target.attempt + (1 if ended.state is TargetState.ERROR else 0)
            changes.append(replace(change, target=replace(change.target, attempt=counted)))
    await store.write_changes(tx, changes)
    await note(tx, changes)
    if tells:
        # Of a node that is gone there is nobody to tell; should it come back, it says what it has.
        reachable = [t.node for t, end in ends if end.fault is None or end.fault.code != NODE_LOST]
        await load_store.want_stops(tx, view.operation.id, reachable)
        reasons = {target.node: ended.fault.text if ended.fault else "" for target, ended in ends}
        for node, reason in sorted(reasons.items()):
            news = LoadNews(operation_id=view.operation.id, node_id=node)
            await load_store.abandon(tx, [news], f"Its load has ended. {reason}".strip())
    return await reread(tx, view)


async def give_up(tx: Transaction, view: View, fault: Fault) -> Next:
    """It has failed: what was begun is taken back, and nobody is asked again."""
    view, moved = await _take_back(tx, view, TargetState.ERROR, fault)
    await load_store.abandon_operation(tx, view.operation.id, f"Its load has failed. {fault.text}")
    return Next(verdict=failed(view, fault), moved=moved)


async def supersede(tx: Transaction, view: View, cause: Fault) -> Next:
    """End an operation whose model is not what it was when the operation began: an admin edited, disabled or deleted
    it. Nothing has failed, so the operation ends as superseded; its row keeps the cause for requests that wait."""
    view, moved = await _take_back(tx, view, TargetState.SUPERSEDED, cause)
    await load_store.abandon_operation(tx, view.operation.id, f"Its load was superseded. {cause.text}")
    return Next(verdict=_ended_early(view, OperationState.SUPERSEDED, cause), moved=moved)


async def _take_back(tx: Transaction, view: View, state: TargetState, cause: Fault) -> tuple[View, frozenset[NodeId]]:
    """End the open targets in this state. Return the view as it is afterwards, and the nodes of those targets."""
    moved = frozenset(target.node for target in view.open)
    ended = Ended(state=state, fault=cause)
    return await end_targets(tx, view, [(target, ended) for target in view.open]), moved


async def reread(tx: Transaction, view: View) -> View:
    """As it is now, within the same transaction; with nodes that have come to it."""
    found = await store.read(tx, view.hold, locks=True)
    missing = [node for node in nodes_of(found.operation) if node not in view.nodes]
    more = {node.id: node for node in await node_store.list_nodes(tx, only=missing)} if missing else {}
    return replace(view, operation=found.operation, nodes={**view.nodes, **more})


def nodes_of(operation: Operation) -> list[NodeId]:
    """Those of its targets that are not at their end, and those that they take files from."""
    concerned = [target for target in operation.targets if target.stop_wanted or not target.state.is_final]
    sources = {NodeId(node) for target in concerned for node in plan_of(target).get("from") or ()}
    return sorted({target.node for target in concerned} | sources)


@dataclass(slots=True)
class Patience:
    """How often something was tried in vain, for each operation; only in memory: whoever takes over begins anew."""

    most: int
    counts: dict[str, int] = field(default_factory=dict)

    def is_over(self, key: str) -> bool:
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.counts[key] > self.most

    def forget(self, key: str) -> None:
        self.counts.pop(key, None)
