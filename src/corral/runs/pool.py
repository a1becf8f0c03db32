"""The pool of runs: chooses nodes, sends commands, notices lost workers, and concludes from the trace.

A step starts from the rows every time. The end of a run is what its worker has written as the last entry of the trace;
the bus only carries the command to begin, the question whether a run still goes on, and the command to stop.

Guarantees: a run ends exactly once. Of two attempts only the present one can write: its job id is the fence. A worker
that is away is queried for `policy.runs.GIVE_UP_AFTER` before its run is begun elsewhere or lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from corral.bus.messages import StartRun
from corral.bus.subjects import RUN_START
from corral.domain.node import Node, NodeId
from corral.domain.operation import (
    OPEN,
    Fault,
    JobId,
    Operation,
    OperationState,
    Progress,
    Target,
    TargetState,
)
from corral.domain.run import WORKER_LOST, Run, RunEventType, RunKind, RunNeeds, RunState
from corral.operations import actions
from corral.operations.command_sender import CommandResult, CommandSender
from corral.operations.driver import AdvanceResult, CommandCall, PoolHandler
from corral.operations.job_reports import JobObservation, ReportBatch
from corral.policy import runs as policy
from corral.policy.dispatch import QUERY_RETRY_INTERVAL, OperationVerdict
from corral.policy.earlier_calls import BYTES_MAX, make_call_messages
from corral.policy.faults import INTERNAL
from corral.policy.progress import JobReport, Observation, TargetChange, TargetEnd, TargetSnapshot
from corral.policy.runs import RunNode
from corral.policy.status import is_reachable
from corral.ports.runtime import IdGenerator
from corral.runs.admission import get_queue_limit_s
from corral.store import dispatch as dispatch_store
from corral.store import loads as target_store
from corral.store import nodes as node_store
from corral.store import run_calls as call_store
from corral.store import run_places as place_store
from corral.store import runs as store
from corral.store.database import Transaction
from corral.store.dispatch import LeasedOperation, OperationLease
from corral.store.loads import NewTarget
from corral.store.runs import StoredRun

_STATES = {
    "completed": (RunState.COMPLETED, OperationState.COMPLETED),
    "cancelled": (RunState.CANCELLED, OperationState.CANCELLED),
}
# How many runs of a frontend wait for the choice of a node at once: all frontends make one after the other, so more
# would only keep connections and rows from others. One is read while another one is placed.
PLACING_MAX = 2
# How many waiting runs with one selector are woken at most when places become free; those that get one wake the next.
WOKEN_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnding:
    """How a run has ended, for the flow (LLM agent, task or batch) that started the run."""

    run: Run
    state: RunState
    # The worker's last entry; empty if the run ended without one.
    outcome: Mapping[str, Any]
    fault: Fault | None = None


class RunEndListener(Protocol):
    """Interface that applies the end of a run to its conversation, task or batch, in the same transaction."""

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None: ...


class RunMetrics(Protocol):
    """Interface that counts ended runs (such as LLM agents' turns) for metrics."""

    def count_run(self, kind: RunKind, state: RunState, seconds: float) -> None: ...


class NullRunMetrics:
    """Implements `RunMetrics` without counting, for frontends and tests without metrics."""

    def count_run(self, kind: RunKind, state: RunState, seconds: float) -> None:
        del kind, state, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The locked operation of a run (such as an LLM agent's turn), with the run and its nodes, read for one step."""

    lease: OperationLease
    operation: Operation
    stored: StoredRun | None
    nodes: Mapping[NodeId, Node]
    now: datetime
    queries_all: bool = False

    @property
    def target(self) -> Target | None:
        """Return the target of the present attempt."""
        job_id = self.stored.run.job_id if self.stored is not None else None
        return next((t for t in self.operation.targets if t.job_id == job_id), None)


class RunPoolHandler(PoolHandler[RunView]):
    """Drives runs (LLM agents' turns, tasks, batches) in a frontend: gives them to nodes, retries, concludes them."""

    looks_on_time = True
    keeps_notes = False
    # Reports of runs lock the operation, the target and the run: all rows of this operation alone.
    applies_answers_at_once = True

    def __init__(
        self,
        sender: CommandSender,
        ids: IdGenerator,
        listeners: Mapping[RunKind, RunEndListener],
        metrics: RunMetrics | None = None,
    ) -> None:
        self._sender = sender
        self._ids = ids
        self._listeners = listeners
        self._metrics = metrics or NullRunMetrics()
        self.first_steps = asyncio.Semaphore(PLACING_MAX)

    async def read_view(self, tx: Transaction, lease: OperationLease, *, queries_all: bool = False) -> RunView:
        found = await dispatch_store.read_leased(tx, lease, locks=True, has_assignments=False)
        stored = await store.lock_run(tx, found.operation.id)
        # A run that its worker has ended needs nothing of its node.
        is_watched = stored is None or stored.outcome is None
        concerned = [t.node for t in found.operation.targets if t.stop_wanted or (is_watched and not t.state.is_final)]
        return RunView(
            lease=lease,
            operation=found.operation,
            stored=stored,
            nodes={node.id: node for node in await node_store.list_nodes(tx, only=concerned)} if concerned else {},
            now=found.now,
            queries_all=queries_all,
        )

    async def advance(self, tx: Transaction, lease: OperationLease, view: RunView) -> tuple[RunView, AdvanceResult]:
        del lease
        if view.operation.state not in OPEN:
            if view.stored is not None and not any(target.stop_wanted for target in view.operation.targets):
                # Its worker has confirmed the stop, so its place is free from now on.
                await self._wake_waiting(tx, view.stored.run.kind)
            return view, AdvanceResult(verdict=_make_ended_verdict(view), calls=self._list_stop_calls(view))
        if view.stored is None:
            return view, await self._end_without_run(tx, view)
        return view, await self._advance(tx, view, view.stored)

    async def give_up(self, tx: Transaction, view: RunView, fault: Fault) -> AdvanceResult:
        return await self._end(tx, view, RunState.FAILED, fault=fault)

    async def abandon(self, tx: Transaction, found: LeasedOperation, fault: Fault) -> OperationVerdict:
        """Lose the run for good: its trace gets its last entry, and its worker a stop command."""
        operation = found.operation
        assert operation.owner is not None, "the operation was read under its lease"
        lease = OperationLease(id=operation.id, owner=operation.owner, fence=operation.fence)
        ended = await self._end(tx, await self.read_view(tx, lease), RunState.LOST, fault=fault)
        return ended.verdict

    # --- one step ---

    async def _advance(self, tx: Transaction, view: RunView, stored: StoredRun) -> AdvanceResult:
        run, target = stored.run, view.target
        if stored.outcome is not None:
            return await self._conclude(tx, view, stored.outcome)
        if policy.is_past_wall(run, view.now):
            text = f"The run took longer than its {run.budgets.wall_s:g} s, and its worker did not end it."
            return await self._end(tx, view, RunState.FAILED, fault=Fault(code=policy.RUN_TIMEOUT, text=text))
        if target is None:
            return await self._place(tx, view, run)
        if target.state.is_final or policy.is_given_up(run, stored.silent_since, view.now):
            return await self._replace_lost(tx, view, run)
        if target.node not in view.nodes:
            return await self._replace_lost(tx, view, run)
        return self._watch(view, run, target)

    def _watch(self, view: RunView, run: Run, target: Target) -> AdvanceResult:
        """Send the commands that the worker has not got, query a silent worker, or wait."""
        calls: list[CommandCall] = []
        jobs: tuple[JobId, ...] = ()
        next_at = policy.compute_query_time(target, view.now)
        if target.state is TargetState.QUEUED:
            calls.append(partial(self._send_start, run.id, run.kind, target))
            jobs = (target.job_id,)
            next_at = view.now
        elif view.queries_all or next_at <= view.now:
            calls.append(partial(self._sender.query_job, target))
            next_at = view.now + policy.QUERY_INTERVAL
        calls += self._list_stop_calls(view)
        verdict = OperationVerdict(
            state=OperationState.RUNNING,
            message=run.message,
            progress=view.operation.progress,
            is_moving=True,
            next_at=next_at,
        )
        return AdvanceResult(verdict=verdict, calls=tuple(calls), jobs_to_send=jobs, moved=frozenset({target.node}))

    def list_first_calls(self, placed: Operation) -> tuple[CommandCall, ...]:
        kind = RunKind(placed.kind.removeprefix("run_"))
        return tuple(partial(self._send_start, placed.id, kind, target) for target in placed.targets)

    async def confirm_placed(
        self, tx: Transaction, lease: OperationLease, placed: Operation, answers: Sequence[CommandResult]
    ) -> tuple[Operation, float] | None:
        report = answers[0].observation if len(answers) == 1 and not answers[0].is_stop else None
        if not isinstance(report, JobReport) or report.state.is_final:
            return None
        confirmed = await store.confirm_begun(tx, lease, placed.targets[0].job_id, report.seq)
        if confirmed is None:
            return None
        rev, message = confirmed
        targets = tuple(replace(target, state=TargetState.WORKING) for target in placed.targets)
        operation = replace(placed, rev=rev, message=message, targets=targets)
        return operation, policy.SILENCE.total_seconds()

    async def _send_start(self, run_id: str, kind: RunKind, target: Target) -> CommandResult:
        command = StartRun(job_id=target.job_id, run_id=run_id, kind=str(kind))
        return await self._sender.send_command(RUN_START, command, target)

    async def _place(self, tx: Transaction, view: RunView, run: Run) -> AdvanceResult:
        deadline = view.operation.deadline_at
        if deadline is not None and deadline <= view.now:
            who = "node with room" if run.kind.is_program else "agent worker"
            text = f"No {who} had a free place in time."
            return await self._end(tx, view, RunState.FAILED, fault=Fault(code="no_free_place", text=text))
        await place_store.lock_places(tx)
        needs = await place_store.read_needs(tx, run.id) if run.kind.is_program else None
        places = await list_places(tx, run.kind, needs)
        avoided = [t.node for t in view.operation.targets if t.state is TargetState.ERROR]
        position = await place_store.read_position(tx, run)
        # The programs that wait longer may need more room than these nodes have.
        ahead = 0 if run.kind.is_program else position.ahead
        chosen = policy.choose_place(places, run.selector, preferred=position.last_node, avoid=avoided, ahead=ahead)
        if chosen is None:
            return await self._wait_for_place(tx, view, run, places, position.ahead)
        job_id = JobId(self._ids.new_id())
        new = NewTarget(node=chosen.node, job_id=job_id, build={"run": str(run.kind)})
        await store.begin_attempt(tx, run.id, new)
        if position.behind:
            left = [replace(place, active=place.active + 1) if place is chosen else place for place in places]
            await self._wake_waiting(tx, run.kind, left if needs is None else None)
        target = Target(operation_id=view.operation.id, node=chosen.node.id, node_name=chosen.node.name, job_id=job_id)
        started = replace(view.operation, targets=(target,))
        # The command is recorded as sent with the target.
        return replace(self._watch(view, run, target), jobs_to_send=(), started=started)

    async def _wait_for_place(
        self, tx: Transaction, view: RunView, run: Run, places: Sequence[RunNode], ahead: int
    ) -> AdvanceResult:
        """Leave the run queued, without a lease: it is woken when a place becomes free."""
        eligible = policy.list_eligible(places, run.selector)
        if not eligible:
            message = "Waiting for a node with room." if run.kind.is_program else "Waiting for an agent worker."
        else:
            message = policy.make_waiting_message(ahead)
        if any(place.free > 0 for place in eligible):
            # They are for runs that have waited longer.
            await self._wake_waiting(tx, run.kind, places)
        if message != run.message:
            await store.set_message(tx, run.id, message)
        verdict = OperationVerdict(
            state=OperationState.RUNNING,
            message=message,
            progress=view.operation.progress,
            next_at=view.now + policy.compute_look_interval(ahead),
        )
        return AdvanceResult(verdict=verdict)

    async def _wake_waiting(self, tx: Transaction, kind: RunKind, places: Sequence[RunNode] | None = None) -> None:
        """Wake the runs that wait longest, as many as there are free places for them. `places`: those of all nodes, if
        they were read."""
        if places is not None and not any(place.free > 0 for place in places):
            return
        selectors = await place_store.list_waiting_selectors(tx, kind.place_kind)
        if not selectors:
            return
        if places is None:
            places = await list_places(tx, kind)
        free = [
            (selector, sum(max(0, place.free) for place in policy.list_eligible(places, selector)))
            for selector in selectors
        ]
        woken = [(selector, min(number, WOKEN_MAX)) for selector, number in free if number > 0]
        await place_store.wake_waiting(tx, woken, kind.place_kind)

    async def _replace_lost(self, tx: Transaction, view: RunView, run: Run) -> AdvanceResult:
        """Begin a run once more whose worker was lost, or lose it."""
        view = await self._end_targets(tx, view, Fault(code=WORKER_LOST, text="The worker was lost."))
        if run.state is RunState.LEASED:
            # No worker has accepted it, so nothing was begun: this attempt does not count.
            await store.uncount_attempt(tx, run.id)
        elif not policy.can_retry(run, made := await call_store.measure_calls(tx, run.id)):
            return await self._end(tx, view, RunState.LOST, fault=policy.make_lost_fault(run, made))
        else:
            await store.extend_deadline(tx, run.id, get_queue_limit_s(run.kind))
        message = f"The worker on {run.node_name} was lost; the run begins again."
        await store.append_note(tx, run.id, RunEventType.RETRIED, {"text": message, "attempt": run.attempt})
        await store.requeue(tx, run.id, message)
        return await self._place(tx, await self.read_view(tx, view.lease), replace(run, state=RunState.QUEUED))

    # --- ends ---

    async def _conclude(self, tx: Transaction, view: RunView, outcome: Mapping[str, Any]) -> AdvanceResult:
        assert view.stored is not None, "an outcome belongs to a run"
        run = view.stored.run
        code = str(outcome.get("error_code") or "")
        fault = Fault(code=code or INTERNAL, text=str(outcome.get("error_text") or "")) if code else None
        if policy.is_loss(code):
            return await self._replace_lost(tx, view, run)
        state, _ = _STATES.get(str(outcome.get("state")), (RunState.FAILED, OperationState.FAILED))
        if state is RunState.FAILED and fault is None:
            fault = Fault(code=INTERNAL, text="The worker reported no reason.")
        earlier = await read_earlier_calls(tx, run)
        if earlier:
            outcome = {**outcome, "messages": [*earlier, *(outcome.get("messages") or ())]}
        return await self._end(tx, view, state, fault=fault, outcome=outcome)

    async def _end_without_run(self, tx: Transaction, view: RunView) -> AdvanceResult:
        """Cancel the operation of a run that was deleted with its owner."""
        view = await self._end_targets(tx, view, Fault(code="run_deleted", text="The run was deleted."))
        message = "Its run was deleted with its owner."
        verdict = OperationVerdict(
            state=OperationState.CANCELLED, message=message, progress=view.operation.progress, next_at=view.now
        )
        return AdvanceResult(verdict=verdict)

    async def _end(
        self,
        tx: Transaction,
        view: RunView,
        state: RunState,
        *,
        fault: Fault | None = None,
        outcome: Mapping[str, Any] | None = None,
    ) -> AdvanceResult:
        moved = frozenset({view.target.node}) if view.target is not None else frozenset()
        is_reported = outcome is not None
        view = await self._end_targets(tx, view, fault, is_reported=is_reported, state=state)
        message = _make_end_message(state, fault)
        outcome = outcome or {}
        if view.stored is not None:
            run = view.stored.run
            if not is_reported:
                data = {"state": str(state), "error_code": fault.code, "error_text": fault.text} if fault else {}
                await store.append_note(tx, run.id, RunEventType.END, {"state": str(state)} | data)
            result = _pick_result(outcome)
            ended = await store.end_run(tx, run.id, state, message=message, fault=fault, result=result)
            if ended is not None and ended.has_children:
                await actions.cancel_children(tx, run.id, "the end of the run that started it")
            if run.started_at is not None:
                self._metrics.count_run(run.kind, state, (view.now - run.started_at).total_seconds())
            listener = self._listeners.get(run.kind)
            if listener is not None:
                await listener.on_run_ended(tx, RunEnding(run=run, state=state, outcome=outcome, fault=fault))
            if is_reported:
                await self._wake_waiting(tx, run.kind)
        verdict = OperationVerdict(
            state=_to_operation_state(state),
            message=message,
            progress=Progress(percent=100.0) if state is RunState.COMPLETED else view.operation.progress,
            fault=fault if state is not RunState.CANCELLED else None,
            next_at=view.now if any(t.stop_wanted for t in view.operation.targets) else None,
        )
        return AdvanceResult(verdict=verdict, moved=moved)

    async def _end_targets(
        self,
        tx: Transaction,
        view: RunView,
        fault: Fault | None,
        *,
        is_reported: bool = False,
        state: RunState = RunState.LOST,
    ) -> RunView:
        """End the open targets. A worker that has not reported the end itself gets a stop command."""
        opened = [target for target in view.operation.targets if not target.state.is_final]
        if not opened:
            return view
        ended = TargetEnd(state=_to_target_state(state), fault=fault)
        changes = []
        for target in opened:
            snapshot = TargetSnapshot(target=target, desired=None, attempts=0, next_job=target.job_id)
            change = policy.apply_end(snapshot, ended)
            if change is not None:
                changes.append(change)
        await dispatch_store.write_changes(tx, changes)
        if is_reported:
            changed = {change.target.node: change.target for change in changes}
            targets = tuple(changed.get(target.node, target) for target in view.operation.targets)
            return replace(view, operation=replace(view.operation, targets=targets))
        await target_store.request_stops(tx, view.operation.id, [target.node for target in opened])
        return await self.read_view(tx, view.lease)

    def _list_stop_calls(self, view: RunView) -> tuple[CommandCall, ...]:
        return tuple(
            partial(self._sender.cancel_job, target)
            for target in view.operation.targets
            if target.stop_wanted and is_reachable(view.nodes.get(target.node))
        )


def _pick_result(outcome: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of an outcome that is kept beside state, error and usage, which have columns of their own."""
    if not outcome:
        return None
    return {
        "content": outcome.get("content", ""),
        "reason": outcome.get("reason", ""),
        **(outcome.get("result") or {}),
    }


def _to_operation_state(state: RunState) -> OperationState:
    if state is RunState.COMPLETED:
        return OperationState.COMPLETED
    return OperationState.CANCELLED if state is RunState.CANCELLED else OperationState.FAILED


def _to_target_state(state: RunState) -> TargetState:
    if state is RunState.COMPLETED:
        return TargetState.SUCCESS
    return TargetState.CANCELLED if state is RunState.CANCELLED else TargetState.ERROR


def _make_end_message(state: RunState, fault: Fault | None) -> str:
    if fault is not None and fault.text:
        return fault.text
    return f"{str(state).capitalize()}."


def _make_ended_verdict(view: RunView) -> OperationVerdict:
    operation = view.operation
    waits = any(target.stop_wanted for target in operation.targets)
    return OperationVerdict(
        state=operation.state,
        message=operation.message,
        progress=operation.progress,
        fault=operation.fault,
        next_at=view.now + min(QUERY_RETRY_INTERVAL, timedelta(seconds=2)) if waits else None,
    )


async def read_earlier_calls(tx: Transaction, run: Run) -> list[dict[str, Any]]:
    """Return the messages of the tool calls that earlier attempts of a run have made, behind which it goes on."""
    if run.attempt < 2:
        return []
    return make_call_messages(await call_store.list_earlier_calls(tx, run.id, BYTES_MAX))


async def list_places(
    tx: Transaction, kind: RunKind = RunKind.AGENT_TURN, needs: RunNeeds | None = None
) -> list[RunNode]:
    """Return every node that takes runs of this kind, with how many it has now that use the same places. With `needs`,
    only nodes that have the room."""
    active = await place_store.count_active(tx, kind.place_kind)
    places = policy.make_places(await node_store.list_nodes(tx, takes_runs=True), kind, active)
    return [place for place in places if needs is None or policy.has_room(place.node, needs)]


@dataclass(frozen=True, slots=True)
class RunReportListener:
    """Applies workers' job reports about runs to PostgreSQL. A run's result comes with its trace instead."""

    def apply_observation(self, snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None:
        change = policy.apply_run_observation(snapshot, observation)
        # The trace of a run says what has happened to it; the notes of its operation are not shown.
        return None if change is None else replace(change, note="")

    async def find_faults(self, tx: Transaction, done: Sequence[tuple[JobObservation, Target]]) -> dict[JobId, Fault]:
        del tx, done
        return {}

    async def on_applied(self, tx: Transaction, batch: ReportBatch) -> None:
        by_state: dict[TargetState, list[JobId]] = {}
        for applied in batch.applied:
            target = applied.change.target
            by_state.setdefault(target.state, []).append(target.job_id)
        await store.mark_running(tx, by_state.get(TargetState.WORKING, ()))
        await store.mark_silent(tx, by_state.get(TargetState.UNCONFIRMED, ()))
