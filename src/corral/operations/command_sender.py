"""Sends commands about operations to nodes, and returns each outcome as a value.

First attempt, retry, takeover and rollback all use this module. A refusal, silence and an empty bus are three different
outcomes; nothing is raised for them. Limit: an answer says that the worker has accepted the job, not that it has done
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    DescribeNode,
    GetJobs,
    JobAcceptedReply,
    JobEvent,
    NodeDescription,
)
from corral.bus.subjects import (
    BACKEND_DELETE,
    BACKEND_INSTALL,
    BACKEND_ROLLBACK,
    BACKEND_UPGRADE,
    JOBS_CANCEL,
    JOBS_GET,
    NODE_DESCRIBE,
    SubjectSpec,
)
from corral.domain.backend import Assignment, DesiredState
from corral.domain.errors import BusUnavailable, CorralError, NodeUnreachable
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, Target
from corral.operations.job_reports import (
    CODE_MAX,
    TEXT_MAX,
    list_stopped_processes,
    parse_job_event,
    parse_result,
    sanitise_text,
)
from corral.policy import faults
from corral.policy.progress import CommandRefused, NoAnswer, NoResponders, Observation, UnknownJob
from corral.ports.bus import Bus

Q = TypeVar("Q")
R = TypeVar("R")

TIMEOUT_CODE = "node_timeout"
# The worker is present and accepts nothing at the moment. That is no failure: the command is sent again later.
_NOT_NOW = frozenset({"worker_starting", "worker_stopping", "worker_busy"})
# Workers from before there were upgrades subscribe to the first of these only.
_COMMANDS: dict[DesiredState, SubjectSpec[BackendCommand, JobAcceptedReply]] = {
    DesiredState.PRESENT: BACKEND_INSTALL,
    DesiredState.REPLACED: BACKEND_UPGRADE,
    DesiredState.ABSENT: BACKEND_DELETE,
    DesiredState.ROLLED_BACK: BACKEND_ROLLBACK,
}


class StepOutcome(StrEnum):
    """Labels of a metric: how a frontend's step of driving an operation ended."""

    DONE = "done"
    # PostgreSQL was away or another writer interfered: the step is retried.
    LATER = "later"
    # Another frontend holds the operation now.
    LOST = "lost"
    FAILED = "failed"


class CommandOutcome(StrEnum):
    """Labels of a metric: how sending a bus command to a worker ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    NO_SUBSCRIBER = "nobody_listens"
    # This frontend is off the bus itself.
    OFF_BUS = "off_bus"


class JobEventOutcome(StrEnum):
    """Labels of a metric: what a frontend did with a job event that it received from a worker."""

    # The event is kept for the next write.
    TAKEN = "taken"
    # The buffer was full; the worker is queried later.
    DROPPED = "dropped"
    # The event could not be read.
    ODD = "odd"


class DispatchMetrics(Protocol):
    """Interface that counts a frontend's steps of operations, bus commands and job events for metrics."""

    def count_step(self, outcome: StepOutcome, seconds: float) -> None: ...

    def count_command(self, command: str, outcome: CommandOutcome) -> None:
        """Count a command, which is send, ask or stop."""
        ...

    def count_job_event(self, outcome: JobEventOutcome) -> None: ...


class NullDispatchMetrics:
    """Implements `DispatchMetrics` without counting, for frontends and tests without metrics."""

    def count_step(self, outcome: StepOutcome, seconds: float) -> None:
        del outcome, seconds

    def count_command(self, command: str, outcome: CommandOutcome) -> None:
        del command, outcome

    def count_job_event(self, outcome: JobEventOutcome) -> None:
        del outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Outcome of one bus command to a worker about a job. No observation: this frontend was not connected to NATS."""

    node: NodeId
    job_id: JobId
    observation: Observation | None
    stopped: tuple[str, ...] = ()
    is_stop: bool = False
    result: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def node_on_bus(self) -> bool | None:
        """Return whether the outcome shows the node on the bus; None if it shows nothing."""
        if isinstance(self.observation, NoResponders):
            return False
        return None if self.observation is None or isinstance(self.observation, NoAnswer) else True


class CommandSender:
    """Sends bus commands about jobs from a frontend to workers, and returns each outcome as a `CommandResult`."""

    def __init__(self, bus: Bus, *, limit: int, metrics: DispatchMetrics) -> None:
        self._bus = bus
        self._limit = limit
        self._metrics = metrics

    async def send_all(
        self,
        calls: Sequence[Callable[[], Awaitable[CommandResult]]],
        on_batch: Callable[[list[CommandResult]], Awaitable[None]],
        batch: int,
    ) -> None:
        """Send all calls in parallel, under the limit; `on_batch` gets the outcomes in batches as they arrive, in no
        order."""
        slots = asyncio.Semaphore(self._limit)
        done: asyncio.Queue[CommandResult] = asyncio.Queue()

        async def one(work: Callable[[], Awaitable[CommandResult]]) -> None:
            async with slots:
                done.put_nowait(await work())

        try:
            async with asyncio.TaskGroup() as group:
                for work in calls:
                    group.create_task(one(work))
                left = len(calls)
                while left:
                    taken = [await done.get() for _ in range(min(batch, left))]
                    left -= len(taken)
                    await on_batch(taken)
        except BaseExceptionGroup as failed:
            # The caller distinguishes errors by type: a lost lease and an absent database are no faults of a step.
            raise failed.exceptions[0] from failed

    async def send_assignment(self, target: Target, assignment: Assignment) -> CommandResult:
        """Send the assignment of a target to its node. Sent twice, it is still one job."""
        command = BackendCommand(
            job_id=target.job_id,
            generation=assignment.generation,
            backend=assignment.backend,
            build=assignment.build,
            operation_id=target.operation_id,
        )
        outcome = await self._request_job(_COMMANDS[assignment.desired], command, target)
        if assignment.desired is DesiredState.REPLACED and isinstance(outcome.observation, NoResponders):
            forced = BackendCommand(
                job_id=command.job_id,
                generation=command.generation,
                backend=command.backend,
                build=command.build,
                operation_id=command.operation_id,
                force=True,
            )
            outcome = await self._request_job(BACKEND_INSTALL, forced, target)
        # An older worker keeps its assignment, and runs it once its Corral was upgraded.
        return await self._check_command_known(outcome, _COMMANDS[assignment.desired], target)

    async def send_command(self, spec: SubjectSpec[Q, JobAcceptedReply], message: Q, target: Target) -> CommandResult:
        """Send any other command about the job of this target. Sent twice, it is still one job."""
        return await self._check_command_known(await self._request_job(spec, message, target), spec, target)

    async def _check_command_known(
        self, outcome: CommandResult, spec: SubjectSpec[Q, JobAcceptedReply], target: Target
    ) -> CommandResult:
        if isinstance(outcome.observation, NoResponders) and await self._is_worker_present(target.node):
            text = f"The worker does not know {spec.name}; it may run an older Corral."
            return _make_result(target, CommandRefused(fault=Fault(code=faults.COMMAND_UNKNOWN, text=text)))
        return outcome

    async def query_job(self, target: Target) -> CommandResult:
        """Ask the node for the state of the target's job."""
        answer = await self._request(
            "ask", lambda: self._bus.request(JOBS_GET, GetJobs(job_ids=(target.job_id,)), node=target.node)
        )
        if answer is None or isinstance(answer, NoResponders | NoAnswer):
            return _make_result(target, answer)
        if isinstance(answer, CommandRefused):
            # The worker is present and cannot say: treated like silence.
            return _make_result(target, NoAnswer())
        found = next((job for job in answer.jobs if job.job_id == target.job_id), None)
        return _make_result(target, UnknownJob()) if found is None else _make_result_from_event(target, found)

    async def cancel_job(self, target: Target) -> CommandResult:
        command = CancelJob(job_id=target.job_id, keeps_partial=target.keeps_partial)
        answer = await self._request("stop", lambda: self._bus.request(JOBS_CANCEL, command, node=target.node))
        if answer is None or isinstance(answer, NoResponders | NoAnswer):
            return _make_result(target, answer, is_stop=True)
        job = None if isinstance(answer, CommandRefused) else answer.job
        # The worker has confirmed the stop, so the further fate of the job does not matter.
        return CommandResult(
            node=target.node,
            job_id=target.job_id,
            observation=UnknownJob(),
            stopped=() if job is None else list_stopped_processes(job),
            is_stop=True,
        )

    async def _is_worker_present(self, node: NodeId) -> bool:
        """Return whether the worker is on the bus, although one subject has no subscriber: it may only lack this
        command."""
        answer = await _catch_outcome(lambda: self._bus.request(NODE_DESCRIBE, DescribeNode(), node=node))
        return isinstance(answer, NodeDescription)

    async def _request_job(self, spec: SubjectSpec[Q, JobAcceptedReply], command: Q, target: Target) -> CommandResult:
        answer = await self._request("send", lambda: self._bus.request(spec, command, node=target.node))
        if answer is None or isinstance(answer, NoResponders | NoAnswer | CommandRefused):
            return _make_result(target, answer)
        return _make_result_from_event(target, answer.job)

    async def _request(
        self, command: str, call: Callable[[], Awaitable[R]]
    ) -> R | NoResponders | NoAnswer | CommandRefused | None:
        answer = await _catch_outcome(call)
        self._metrics.count_command(command, _classify_outcome(answer))
        return answer


def _classify_outcome(answer: object) -> CommandOutcome:
    if answer is None:
        return CommandOutcome.OFF_BUS
    if isinstance(answer, NoResponders):
        return CommandOutcome.NO_SUBSCRIBER
    if isinstance(answer, NoAnswer):
        return CommandOutcome.NO_ANSWER
    return CommandOutcome.REFUSED if isinstance(answer, CommandRefused) else CommandOutcome.ANSWERED


async def _catch_outcome(call: Callable[[], Awaitable[R]]) -> R | NoResponders | NoAnswer | CommandRefused | None:
    try:
        return await call()
    except NodeUnreachable as error:
        return NoAnswer() if error.slug == TIMEOUT_CODE else NoResponders()
    except BusUnavailable:
        return None
    except CorralError as error:
        if error.slug in _NOT_NOW:
            return NoAnswer()
        return CommandRefused(
            fault=Fault(code=sanitise_text(error.slug, CODE_MAX), text=sanitise_text(error.message, TEXT_MAX))
        )


def _make_result(target: Target, observation: Observation | None, *, is_stop: bool = False) -> CommandResult:
    return CommandResult(node=target.node, job_id=target.job_id, observation=observation, is_stop=is_stop)


def _make_result_from_event(target: Target, event: JobEvent) -> CommandResult:
    news = parse_job_event(event)
    if event.job_id != target.job_id or news is None:
        fault = Fault(code="internal", text="The worker's reply does not match the command.")
        return _make_result(target, CommandRefused(fault=fault))
    return CommandResult(
        node=target.node,
        job_id=target.job_id,
        observation=news,
        stopped=list_stopped_processes(event),
        result=parse_result(event),
    )
