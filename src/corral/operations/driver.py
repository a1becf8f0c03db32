"""Takes one step of an operation of any pool: read the rows, write what follows, send commands, read again, conclude.

`OperationDriver` is the same for every pool. A pool supplies a `PoolHandler`, which reads the rows, plans targets and
decides, and a `JobReportListener`, which applies what workers report: `operations/backend_pool.py` for backends,
`loading/kinds/view.py` and `loading/load_reports.py` for models.

A step is bounded work; waiting for a worker is no part of it. It starts from the rows every time, so a first step, a
retry, a takeover and a cancellation are the same code. Guarantees: everything that is written carries the fence of the
lease; a step whose operation was taken over fails with `LeaseLost` and has changed nothing. A command is recorded
before it is sent, so that a step that ends its target while it is on its way knows that its worker has to be stopped.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import structlog

from corral.bus.messages import OperationDelta
from corral.domain.errors import LeaseLost
from corral.domain.node import Node, NodeId
from corral.domain.operation import OPEN, Fault, JobId, Operation, OperationId, OperationState
from corral.operations.admission import AdmissionController
from corral.operations.command_sender import CommandResult, CommandSender
from corral.operations.job_reports import JobObservation, JobReportListener, apply_observations, make_delta
from corral.policy import faults
from corral.policy.dispatch import OperationVerdict
from corral.ports.runtime import IdGenerator
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import dispatch as store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction
from corral.store.dispatch import LeasedOperation, OperationLease

log = structlog.get_logger(__name__)

BATCH_MAX = 128
CommandCall = Callable[[], Awaitable[CommandResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Outcome of one step of driving an operation: whether the lease is kept, what moved, and when to look again."""

    is_held: bool
    next_s: float | None = None
    # True if a command was sent or a row written; a step that changes nothing is not repeated at once.
    has_moved: bool = False
    delta: OperationDelta | None = None
    # True if the operation waits for replicas: any change of a replica is a reason to look.
    watches_replicas: bool = False


class StepView(Protocol):
    """Interface of an operation with its nodes, all read at one moment of the database for one step."""

    @property
    def operation(self) -> Operation: ...

    @property
    def nodes(self) -> Mapping[NodeId, Node]: ...

    @property
    def now(self) -> datetime: ...


V = TypeVar("V", bound=StepView)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOperation:
    """Implements `StepView` for an operation as it was admitted, with its targets and without a look at the rows."""

    operation: Operation

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        return {}

    @property
    def now(self) -> datetime:
        return self.operation.created_at


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceResult:
    """Outcome of deciding how an operation goes on: its state, bus commands to nodes, and what to do afterwards."""

    verdict: OperationVerdict
    # With calls the verdict is not written: the operation is advanced once more after they were made.
    calls: tuple[CommandCall, ...] = ()
    # The jobs that these calls command workers to begin.
    jobs_to_send: tuple[JobId, ...] = ()
    moved: frozenset[NodeId] = frozenset()
    # The operation with targets that were just written, if their workers' answers to the calls may be confirmed.
    started: Operation | None = None
    # True if the operation may be waiting for any change of a replica.
    watches_replicas: bool = False
    # Runs after the verdict was written; its failure does not change the verdict.
    afterwards: Callable[[], Awaitable[None]] | None = None


class PoolHandler(ABC, Generic[V]):
    """Base class that decides about operations of one pool (engine backends, models or runs) in a frontend."""

    # Whether the next look is at its time even after a step that moved nothing; else a moment later at the earliest.
    looks_on_time: ClassVar[bool] = False
    # Whether operations have notes; else something else says what has happened.
    keeps_notes: ClassVar[bool] = True
    # Whether the answers to commands are written in the transaction that goes on from them. Not for pools whose reports
    # lock rows that `read_view` or `advance` lock earlier.
    applies_answers_at_once: ClassVar[bool] = False
    # Whether the answer of a node that was never seen on the bus is recorded.
    records_answers: ClassVar[bool] = True
    # Limits how many operations that were just claimed are read and advanced at once, where such steps wait for each
    # other in the whole cluster: waiting here takes neither a connection nor a lock. None: no limit.
    first_steps: asyncio.Semaphore | None = None

    @abstractmethod
    async def read_view(self, tx: Transaction, lease: OperationLease, *, queries_all: bool = False) -> V:
        """Read and lock the operation, with what is decided on. `queries_all`: a new owner has missed reports."""

    @abstractmethod
    async def advance(self, tx: Transaction, lease: OperationLease, view: V) -> tuple[V, AdvanceResult]:
        """Plan targets where there are none, write what follows without a command, and return the view after that
        with what comes next. An ended operation keeps its state; only workers are left to notify."""

    def list_first_calls(self, placed: Operation) -> tuple[CommandCall, ...]:  # noqa: ARG002 - a hook
        """Return the commands of an operation that was admitted with its targets."""
        return ()

    async def confirm_placed(
        self,
        tx: Transaction,  # noqa: ARG002 - a hook
        lease: OperationLease,  # noqa: ARG002 - a hook
        placed: Operation,  # noqa: ARG002 - a hook
        answers: Sequence[CommandResult],  # noqa: ARG002 - a hook
    ) -> tuple[Operation, float] | None:
        """Write in one statement that workers have accepted the first commands. Return the operation with the seconds
        until the next look, or None if something else is the case: then the rows are read, and the answers applied as
        always."""
        return None

    @abstractmethod
    async def give_up(self, tx: Transaction, view: V, fault: Fault) -> AdvanceResult:
        """End every open target because of an internal error, and leave nothing that could run later."""

    async def abandon(self, tx: Transaction, found: LeasedOperation, fault: Fault) -> OperationVerdict:  # noqa: ARG002 - a hook
        """Take back what an operation has reserved whose owners were lost. Its targets stay as they are: a worker's
        later report may still correct the result."""
        return make_failed_verdict(found.operation, fault)

    def release(self, operation_id: OperationId) -> None:
        """Stop what this frontend does for an operation that has ended or that another frontend drives now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPool:
    """One kind of operations (engine backends, models or runs) of a frontend: how they are admitted and driven."""

    admission: AdmissionController[Any, Any]
    handler: PoolHandler[Any]
    listener: JobReportListener
    # Whether this frontend does work for an operation that a peer would have to repeat.
    is_busy_with: Callable[[OperationId], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDriver:
    """Drives the operations of one pool in a frontend: executes their steps, and fails those that cannot go on."""

    database: Database
    sender: CommandSender
    ids: IdGenerator
    pool: OperationPool
    frontend_id: str

    async def step(self, lease: OperationLease, *, queries_all: bool = False, is_first: bool = False) -> StepResult:
        """Take a step. `queries_all`: a new owner has missed reports. `is_first`: the lease was just taken."""
        try:
            return await self._step(lease, queries_all=queries_all, is_first=is_first)
        except LeaseLost:
            self.pool.handler.release(lease.id)
            raise

    async def _step(self, lease: OperationLease, *, queries_all: bool, is_first: bool) -> StepResult:
        handler = self.pool.handler
        limiter = handler.first_steps if is_first else None
        async with limiter or nullcontext(), self.database.transaction() as tx:
            view = await handler.read_view(tx, lease, queries_all=queries_all)
            view, first = await handler.advance(tx, lease, view)
            await store.mark_sent(tx, lease, first.jobs_to_send)
            result = None if first.calls else await self._conclude(tx, lease, view, first)
        if result is not None:
            await _run_afterwards(first)
            return result
        return await self._send_and_go_on(lease, view, first)

    async def begin_placed(self, lease: OperationLease, placed: Operation) -> StepResult:
        """Take the first step of an operation whose targets were written with it: send their commands at once."""
        try:
            calls = self.pool.handler.list_first_calls(placed)
            moved = frozenset(target.node for target in placed.targets)
            first = AdvanceResult(verdict=make_waiting_verdict(placed), calls=calls, moved=moved, started=placed)
            return await self._send_and_go_on(lease, PlacedOperation(operation=placed), first)
        except LeaseLost:
            self.pool.handler.release(lease.id)
            raise

    async def _send_and_go_on(self, lease: OperationLease, view: StepView, first: AdvanceResult) -> StepResult:
        """Send the commands of a step, write the answers, and advance the operation once more."""
        handler = self.pool.handler
        reached, answers = await self._send_commands(lease, view, first.calls)
        if first.started is not None:
            async with self.database.single_statements() as tx:
                confirmed = await handler.confirm_placed(tx, lease, first.started, answers)
            if confirmed is not None:
                operation, next_s = confirmed
                delta = make_delta(operation, first.moved, origin=self.frontend_id)
                return StepResult(is_held=True, next_s=next_s, has_moved=True, delta=delta)
        async with self.database.transaction() as tx:
            await self._apply_results(tx, lease, answers, view)
            view, second = await handler.advance(tx, lease, await handler.read_view(tx, lease))
            second = replace(second, moved=second.moved | first.moved | reached)
            result = await self._conclude(tx, lease, view, second)
        await self._note_bus(answers, view)
        await _run_afterwards(second)
        # This frontend is off the bus: no command was sent, and trying again at once would not help.
        return result if reached else replace(result, has_moved=False)

    async def reap(self, lease: OperationLease) -> None:
        """Fail an operation whose owners were lost again and again; a worker's later report may still correct the
        result."""
        fault = Fault(
            code=faults.OWNER_LOST, text="The frontends that worked on the operation were lost again and again."
        )
        async with self.database.transaction() as tx:
            found = await store.read_leased(tx, lease, locks=True)
            if found.operation.state not in OPEN:
                await store.release_lease(tx, lease)
                return
            await operation_store.add_note(tx, lease.id, fault.text, level="error")
            verdict = await self.pool.handler.abandon(tx, found, fault)
            await store.write_verdict(tx, lease, found.operation, verdict, is_reaped=True)

    async def fail(self, lease: OperationLease, text: str) -> None:
        """Fail an operation because of an internal error. No other operation is affected, and nothing is left of it
        that could run later."""
        handler = self.pool.handler
        handler.release(lease.id)
        async with self.database.transaction() as tx:
            view = await handler.read_view(tx, lease)
            if view.operation.state not in OPEN:
                await store.release_lease(tx, lease)
                return
            given_up = await handler.give_up(tx, view, Fault(code=faults.INTERNAL, text=text))
            await self._conclude(tx, lease, view, given_up)

    async def _send_commands(
        self, lease: OperationLease, view: StepView, calls: Collection[CommandCall]
    ) -> tuple[frozenset[NodeId], list[CommandResult]]:
        """Send the commands. Return the nodes of which something was learnt, none if this frontend is off the bus, and
        the results that are left to write."""
        reached: set[NodeId] = set()
        left: list[CommandResult] = []

        async def take_batch(results: list[CommandResult]) -> None:
            known = [item for item in results if item.observation is not None]
            reached.update(item.node for item in known)
            if self.pool.handler.applies_answers_at_once and len(calls) <= BATCH_MAX:
                left.extend(known)
            else:
                await self._write_results(lease, known, view)

        await self.sender.send_all(list(calls), take_batch, BATCH_MAX)
        return frozenset(reached), left

    async def _write_results(self, lease: OperationLease, results: list[CommandResult], view: StepView) -> None:
        if not results:
            return
        async with self.database.transaction() as tx:
            await self._apply_results(tx, lease, results, view)
        await self._note_bus(results, view)

    async def _apply_results(
        self, tx: Transaction, lease: OperationLease, results: list[CommandResult], view: StepView
    ) -> None:
        if not results:
            return
        await store.require_lease(tx, lease)
        observations = [
            JobObservation(
                node=item.node,
                job_id=item.job_id,
                observation=item.observation,
                stopped=item.stopped,
                result=item.result,
            )
            for item in results
            if not item.is_stop and item.observation is not None
        ]
        stopped = [item for item in results if item.is_stop and item.node_on_bus]
        await store.write_stopped(tx, [item.job_id for item in stopped])
        await apply_observations(
            tx,
            observations,
            self.ids,
            as_of=view.now,
            ended_processes=[(item.node, item.stopped) for item in stopped],
            listeners={view.operation.kind.pool: self.pool.listener},
        )

    async def _note_bus(self, results: list[CommandResult], view: StepView) -> None:
        """Record which nodes are on the bus, in a transaction of its own: heartbeats lock nodes before operations, so a
        node is never locked after one."""
        missing = {item.node for item in results if item.node_on_bus is False}
        answered: set[NodeId] = set()
        if self.pool.handler.records_answers:
            unknown = {key for key, node in view.nodes.items() if node.bus_ok is None}
            answered = {item.node for item in results if item.node_on_bus} & unknown
        if missing or answered:
            async with self.database.transaction() as tx:
                await store.note_bus(tx, missing, is_on_bus=False)
                await store.note_bus(tx, answered, is_on_bus=True)

    async def _conclude(
        self, tx: Transaction, lease: OperationLease, view: StepView, advanced: AdvanceResult
    ) -> StepResult:
        operation, verdict = view.operation, advanced.verdict
        if operation.state not in OPEN and verdict.state is operation.state:
            await store.release_lease(tx, lease, verdict.next_at)
            return StepResult(is_held=False, has_moved=bool(advanced.moved))
        rev = await store.write_verdict(tx, lease, operation, verdict)
        if verdict.state not in OPEN:
            if verdict.state is not operation.state and self.pool.handler.keeps_notes:
                level = "error" if verdict.state is OperationState.FAILED else "info"
                await operation_store.add_note(tx, lease.id, f"{verdict.state}: {verdict.message}", level=level)
            self.pool.handler.release(operation.id)
        # The row never goes back either.
        progress = replace(verdict.progress, percent=max(verdict.progress.percent, operation.progress.percent))
        shown = replace(operation, state=verdict.state, message=verdict.message, progress=progress, rev=rev)
        return StepResult(
            is_held=verdict.is_moving,
            next_s=None if verdict.next_at is None else (verdict.next_at - view.now).total_seconds(),
            has_moved=bool(advanced.moved) or self.pool.handler.looks_on_time,
            delta=make_delta(shown, advanced.moved, origin=self.frontend_id),
            watches_replicas=advanced.watches_replicas,
        )


def make_failed_verdict(operation: Operation, fault: Fault, *, next_at: datetime | None = None) -> OperationVerdict:
    return OperationVerdict(
        state=OperationState.FAILED, message=fault.text, progress=operation.progress, fault=fault, next_at=next_at
    )


def make_waiting_verdict(operation: Operation) -> OperationVerdict:
    """Return the verdict on an operation that goes on as it is."""
    return OperationVerdict(
        state=operation.state, message=operation.message, progress=operation.progress, is_moving=True
    )


async def _run_afterwards(advanced: AdvanceResult) -> None:
    if advanced.afterwards is not None:
        outcome = await attempt(advanced.afterwards)
        if isinstance(outcome, AttemptFailure):
            log.warning("could not clean up after an operation", error=outcome.sentence)
