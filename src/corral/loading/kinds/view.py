"""An operation about a model as a step sees it, the handler of its pool, and functions that end targets.

`ModelPoolHandler` gives each kind of operation to its own handler: load, stage and install, unload, delete. Guarantee:
this frontend's fetches for an operation that has ended or was taken over are stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import (
    OPEN,
    Fault,
    JobId,
    Operation,
    OperationId,
    OperationKind,
    OperationState,
    Progress,
    Target,
    TargetState,
)
from corral.loading.admission import ModelOperationSpec
from corral.operations.command_sender import CommandResult, CommandSender
from corral.operations.driver import AdvanceResult, CommandCall, PoolHandler
from corral.operations.job_reports import add_change_notes
from corral.policy.dispatch import QUERY_RETRY_INTERVAL, OperationVerdict, describe_drained
from corral.policy.loads import NODE_LOST, compute_query_time
from corral.policy.progress import TargetEnd, TargetSnapshot, aggregate_progress, apply_observation
from corral.policy.status import is_reachable, is_schedulable
from corral.store import dispatch as store
from corral.store import loads as load_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store.database import Transaction
from corral.store.dispatch import LeasedOperation, OperationLease
from corral.store.loads import LoadReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperationView:
    """One operation about a model, such as a load, as a frontend reads it for a step: spec, nodes and model.

    Locked, and all read at one moment.
    """

    lease: OperationLease
    operation: Operation
    spec: ModelOperationSpec
    nodes: Mapping[NodeId, Node]
    model: Model | None
    now: datetime
    queries_all: bool = False

    @property
    def open_targets(self) -> list[Target]:
        return [target for target in self.operation.targets if not target.state.is_final]

    @property
    def done_targets(self) -> list[Target]:
        return [target for target in self.operation.targets if target.state is TargetState.SUCCESS]

    def is_edited(self, run_hash: str) -> bool:
        """Return whether a node got its command for another run hash. Targets that were ended for this reason count:
        the end of the operation is written after their workers were notified, and a new owner has to find it again."""
        counted = {TargetState.SUCCESS, TargetState.SUPERSEDED}
        targets = [one for one in self.operation.targets if not one.state.is_final or one.state in counted]
        return any(read_target_plan(target).get("revision") != run_hash for target in targets)

    @property
    def loaded_node_names(self) -> list[str]:
        """Return the node name of each replica that this load has brought; a node with two replicas is named twice."""
        return [
            target.node_name
            for target in self.operation.targets
            for _ in range(load_store.count_earlier_successes(target.previous) + (target.state is TargetState.SUCCESS))
        ]

    def compute_time_after(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)


class ModelOperationHandler(Protocol):
    """Interface that advances one kind of operation about models, such as loads."""

    async def advance(self, tx: Transaction, view: ModelOperationView) -> AdvanceResult:
        """Look at the operation, write what follows, and return what comes next. Starts from the rows every time."""
        ...


class ModelPoolHandler(PoolHandler[ModelOperationView]):
    """Passes each operation about a model to the handler of its kind, and sends stop commands for all."""

    looks_on_time = True
    records_answers = False

    def __init__(
        self,
        sender: CommandSender,
        handlers: Mapping[OperationKind, ModelOperationHandler],
        release_fetches: Callable[[OperationId], object],
    ) -> None:
        self._sender = sender
        self._handlers = handlers
        self._release_fetches = release_fetches

    async def read_view(
        self, tx: Transaction, lease: OperationLease, *, queries_all: bool = False
    ) -> ModelOperationView:
        found = await store.read_leased(tx, lease, locks=True)
        spec = ModelOperationSpec.from_json(found.operation.request)
        concerned = list_relevant_nodes(found.operation)
        models = await model_store.list_models(tx, [spec.model])
        return ModelOperationView(
            lease=lease,
            operation=found.operation,
            spec=spec,
            nodes={node.id: node for node in await node_store.list_nodes(tx, only=concerned)},
            model=models[0] if models else None,
            now=found.now,
            queries_all=queries_all,
        )

    async def advance(
        self, tx: Transaction, lease: OperationLease, view: ModelOperationView
    ) -> tuple[ModelOperationView, AdvanceResult]:
        del lease
        if view.operation.state not in OPEN:
            return view, AdvanceResult(verdict=_make_ended_verdict(view), calls=self._list_cancel_calls(view))
        result = await self._handlers[view.operation.kind].advance(tx, view)
        view = await reload_view(tx, view)
        stops = self._list_cancel_calls(view)
        if stops:
            # A worker that does not respond to its stop command gets another one.
            next_query = view.now + QUERY_RETRY_INTERVAL
            next_at = next_query if result.verdict.next_at is None else min(result.verdict.next_at, next_query)
            result = replace(result, verdict=replace(result.verdict, next_at=next_at), calls=(*result.calls, *stops))
        return view, result

    async def give_up(self, tx: Transaction, view: ModelOperationView, fault: Fault) -> AdvanceResult:
        return await give_up(tx, view, fault)

    async def abandon(self, tx: Transaction, found: LeasedOperation, fault: Fault) -> OperationVerdict:
        await load_store.abandon_operation(tx, found.operation.id, fault.text)
        return _end_early(found.operation, found.now, OperationState.FAILED, fault)

    def release(self, operation_id: OperationId) -> None:
        self._release_fetches(operation_id)

    def _list_cancel_calls(self, view: ModelOperationView) -> tuple[CommandCall, ...]:
        return tuple(
            partial(self._sender.cancel_job, target)
            for target in view.operation.targets
            if target.stop_wanted and is_reachable(view.nodes.get(target.node))
        )


def _make_ended_verdict(view: ModelOperationView) -> OperationVerdict:
    """Return the state that an operation has ended in, and when to look at workers that have to stop."""
    operation = view.operation
    waits = any(target.stop_wanted for target in operation.targets)
    return OperationVerdict(
        state=operation.state,
        message=operation.message,
        progress=operation.progress,
        fault=operation.fault,
        next_at=view.now + QUERY_RETRY_INTERVAL if waits else None,
    )


def read_target_plan(target: Target) -> Mapping[str, Any]:
    """Return what was decided for a target when its node was chosen."""
    found = (target.build or {}).get("load")
    return found if isinstance(found, Mapping) else {}


def compute_progress(view: ModelOperationView) -> Progress:
    """Return the progress over the targets that count: failed ones were replaced by others."""
    counted = [target for target in view.operation.targets if target.state is not TargetState.ERROR]
    return aggregate_progress(counted, view.operation.progress)


@dataclass(slots=True)
class TargetCalls:
    """Bus commands that the open nodes of an operation about a model need now, and when to look at them again.

    It also lists the jobs that these commands begin.
    """

    calls: list[CommandCall] = field(default_factory=list)
    jobs_to_send: list[JobId] = field(default_factory=list)
    moments: list[datetime] = field(default_factory=list)


def list_target_calls(
    view: ModelOperationView,
    targets: Iterable[Target],
    sender: CommandSender,
    send: Callable[[Target], Awaitable[CommandResult]],
) -> TargetCalls:
    """Send the commands of queued targets by `send`, and query the jobs of silent ones."""
    found = TargetCalls()
    for target in targets:
        node = view.nodes.get(target.node)
        if target.state is TargetState.QUEUED:
            if is_schedulable(node):
                found.calls.append(partial(send, target))
                found.jobs_to_send.append(target.job_id)
            found.moments.append(view.now)
        elif is_reachable(node):
            at = compute_query_time(target, view.now)
            if view.queries_all or at <= view.now:
                found.calls.append(partial(sender.query_job, target))
            found.moments.append(max(at, view.now))
    if view.operation.deadline_at is not None:
        found.moments.append(max(view.operation.deadline_at, view.now))
    return found


def make_running_verdict(
    view: ModelOperationView,
    message: str,
    *,
    progress: Progress | None = None,
    next_s: float | None = None,
    next_at: datetime | None = None,
) -> OperationVerdict:
    at = [
        moment
        for moment in (next_at, None if next_s is None else view.compute_time_after(next_s))
        if moment is not None
    ]
    return OperationVerdict(
        state=OperationState.RUNNING,
        message=message,
        progress=progress or compute_progress(view),
        is_moving=True,
        next_at=min(at, default=None),
    )


def make_completed_verdict(view: ModelOperationView, message: str) -> OperationVerdict:
    total = view.operation.progress.total_bytes
    whole = Progress(percent=100.0, current_bytes=total, total_bytes=total)
    return OperationVerdict(state=OperationState.COMPLETED, message=message, progress=whole)


def make_failed_verdict(view: ModelOperationView, fault: Fault) -> OperationVerdict:
    return _end_early(view.operation, view.now, OperationState.FAILED, fault)


def _end_early(operation: Operation, now: datetime, state: OperationState, fault: Fault) -> OperationVerdict:
    # Workers that have to stop are notified at once.
    next_at = now if any(target.stop_wanted for target in operation.targets) else None
    return OperationVerdict(
        state=state,
        message=fault.text,
        progress=operation.progress,
        fault=fault,
        next_at=next_at,
    )


def make_not_begun_verdict(view: ModelOperationView, cause: Operation) -> OperationVerdict:
    """Cancel an operation because the one that it waited for brought nothing. `cause` alone is the failure."""
    words = f"the {cause.kind.replace('_', ' ')} of {cause.subject}"
    ended = f"{words} failed: {cause.fault.text}" if cause.fault else f"{words} was {cause.state}."
    message = f"Not begun: {ended}"
    return OperationVerdict(state=OperationState.CANCELLED, message=message, progress=view.operation.progress)


def make_drained_verdict(view: ModelOperationView, node_names: Sequence[str]) -> OperationVerdict:
    """Cancel an operation whose nodes were all drained before they began: an admin's intent is no failure."""
    message = f"Not done: {describe_drained(node_names)}"
    return OperationVerdict(state=OperationState.CANCELLED, message=message, progress=view.operation.progress)


async def end_targets(
    tx: Transaction,
    view: ModelOperationView,
    ends: Sequence[tuple[Target, TargetEnd]],
    *,
    notifies_workers: bool = True,
) -> ModelOperationView:
    """End targets without a report of their workers. With `notifies_workers`, workers that may be at work get a
    stop command, and processes that they may have started are stopped."""
    if not ends:
        return view
    changes = []
    for target, ended in ends:
        change = apply_observation(
            TargetSnapshot(target=target, desired=None, attempts=0, next_job=target.job_id), ended
        )
        if change is not None:
            counted = target.attempt + (1 if ended.state is TargetState.ERROR else 0)
            changes.append(replace(change, target=replace(change.target, attempt=counted)))
    await store.write_changes(tx, changes)
    await add_change_notes(tx, changes)
    if notifies_workers:
        # A removed node cannot be notified; should it come back, it reports what it has.
        reachable = [t.node for t, end in ends if end.fault is None or end.fault.code != NODE_LOST]
        await load_store.request_stops(tx, view.operation.id, reachable)
        reasons = {target.node: ended.fault.text if ended.fault else "" for target, ended in ends}
        for node, reason in sorted(reasons.items()):
            news = LoadReport(operation_id=view.operation.id, node_id=node)
            await load_store.abandon_loads(tx, [news], f"Its load has ended. {reason}".strip())
    return await reload_view(tx, view)


async def give_up(tx: Transaction, view: ModelOperationView, fault: Fault) -> AdvanceResult:
    """Fail the operation with `fault`: open targets are ended, and nothing is retried."""
    view, moved = await _take_back(tx, view, TargetState.ERROR, fault)
    await load_store.abandon_operation(tx, view.operation.id, f"Its load has failed. {fault.text}")
    return AdvanceResult(verdict=make_failed_verdict(view, fault), moved=moved)


async def supersede(tx: Transaction, view: ModelOperationView, cause: Fault) -> AdvanceResult:
    """End an operation whose model is not what it was when the operation began: an admin edited, disabled or deleted
    it. Nothing has failed, so the operation ends as superseded; its row keeps the cause for requests that wait."""
    view, moved = await _take_back(tx, view, TargetState.SUPERSEDED, cause)
    await load_store.abandon_operation(tx, view.operation.id, f"Its load was superseded. {cause.text}")
    return AdvanceResult(verdict=_end_early(view.operation, view.now, OperationState.SUPERSEDED, cause), moved=moved)


async def _take_back(
    tx: Transaction, view: ModelOperationView, state: TargetState, cause: Fault
) -> tuple[ModelOperationView, frozenset[NodeId]]:
    """End the open targets in this state. Return the view as it is afterwards, and the nodes of those targets."""
    moved = frozenset(target.node for target in view.open_targets)
    ended = TargetEnd(state=state, fault=cause)
    return await end_targets(tx, view, [(target, ended) for target in view.open_targets]), moved


async def reload_view(tx: Transaction, view: ModelOperationView) -> ModelOperationView:
    """Return the view as it is now, within the same transaction, with the nodes that were added to the operation."""
    found = await store.read_leased(tx, view.lease, locks=True)
    missing = [node for node in list_relevant_nodes(found.operation) if node not in view.nodes]
    more = {node.id: node for node in await node_store.list_nodes(tx, only=missing)} if missing else {}
    return replace(view, operation=found.operation, nodes={**view.nodes, **more})


def list_relevant_nodes(operation: Operation) -> list[NodeId]:
    """Return the nodes of open targets, and the nodes that those take files from."""
    concerned = [target for target in operation.targets if target.stop_wanted or not target.state.is_final]
    sources = {NodeId(node) for target in concerned for node in read_target_plan(target).get("from") or ()}
    return sorted({target.node for target in concerned} | sources)


@dataclass(slots=True)
class RetryBudget:
    """Counts failed attempts of each operation about a model, in memory, and says when there were too many."""

    max_attempts: int
    counts: dict[str, int] = field(default_factory=dict)

    def exceeds_after_attempt(self, key: str) -> bool:
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.counts[key] > self.max_attempts

    def forget(self, key: str) -> None:
        self.counts.pop(key, None)
