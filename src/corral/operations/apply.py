"""The one way to tell a node something about an operation, and what came of it as a value.

First try, retry, takeover and rollback all come through here. A refusal, silence and an empty bus are three different
outcomes; nothing is raised for them. Limit: an answer says that the worker has the job, not that it has done it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from corral.bus.messages import BackendCommand, CancelJob, Describe, GetJobs, JobAccepted, JobEvent, NodeDescription
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
from corral.domain.backend import Assignment, Desired
from corral.domain.errors import BusUnavailable, CorralError, NodeUnreachable
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, Target
from corral.operations.hearing import CODE_MAX, TEXT_MAX, heard, plain, result_of, stopped_by
from corral.operations.numbers import CommandOutcome, Numbers
from corral.policy import faults
from corral.policy.progress import News, NoAnswer, NobodyListens, Refused, UnknownJob
from corral.ports.bus import Bus

Q = TypeVar("Q")
R = TypeVar("R")

TIMEOUT_CODE = "node_timeout"
# The worker is there and takes nothing at the moment. That is no failure: it is asked again, and told again.
_NOT_NOW = frozenset({"worker_stopping", "worker_busy"})
# Workers from before there were upgrades listen to the first of these only.
_COMMANDS: dict[Desired, SubjectSpec[BackendCommand, JobAccepted]] = {
    Desired.PRESENT: BACKEND_INSTALL,
    Desired.REPLACED: BACKEND_UPGRADE,
    Desired.ABSENT: BACKEND_DELETE,
    Desired.ROLLED_BACK: BACKEND_ROLLBACK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of one message. No news: this frontend is off the bus itself, and nothing can be said."""

    node: NodeId
    job_id: JobId
    news: News | None
    stopped: tuple[str, ...] = ()
    is_stop: bool = False
    result: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_on_bus(self) -> bool | None:
        """What it shows about the node; None is nothing."""
        if isinstance(self.news, NobodyListens):
            return False
        return None if self.news is None or isinstance(self.news, NoAnswer) else True


class Teller:
    def __init__(self, bus: Bus, *, limit: int, numbers: Numbers) -> None:
        self._bus = bus
        self._limit = limit
        self._numbers = numbers

    async def tell_all(
        self, works: Sequence[Callable[[], Awaitable[Told]]], take: Callable[[list[Told]], Awaitable[None]], batch: int
    ) -> None:
        """Do all of it in parallel, under the limit; the outcomes are taken in batches as they come, in no order."""
        slots = asyncio.Semaphore(self._limit)
        done: asyncio.Queue[Told] = asyncio.Queue()

        async def one(work: Callable[[], Awaitable[Told]]) -> None:
            async with slots:
                done.put_nowait(await work())

        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(one(work))
                left = len(works)
                while left:
                    taken = [await done.get() for _ in range(min(batch, left))]
                    left -= len(taken)
                    await take(taken)
        except BaseExceptionGroup as failed:
            # The caller acts by the kind of the error: a lost lease and an absent database are no faults of a step.
            raise failed.exceptions[0] from failed

    async def send(self, target: Target, assignment: Assignment) -> Told:
        """Have the node do it. Sent twice it is still one job."""
        command = BackendCommand(
            job_id=target.job_id,
            generation=assignment.generation,
            backend=assignment.backend,
            build=assignment.build,
            operation_id=target.operation_id,
        )
        outcome = await self._accepted(_COMMANDS[assignment.desired], command, target)
        if assignment.desired is Desired.REPLACED and isinstance(outcome.news, NobodyListens):
            forced = BackendCommand(
                job_id=command.job_id,
                generation=command.generation,
                backend=command.backend,
                build=command.build,
                operation_id=command.operation_id,
                force=True,
            )
            outcome = await self._accepted(BACKEND_INSTALL, forced, target)
        # An older worker keeps its assignment, and does it once Corral was upgraded there.
        return await self._checked(outcome, _COMMANDS[assignment.desired], target)

    async def command(self, spec: SubjectSpec[Q, JobAccepted], message: Q, target: Target) -> Told:
        """Any other job of this target. Sent twice it is still one."""
        return await self._checked(await self._accepted(spec, message, target), spec, target)

    async def _checked(self, outcome: Told, spec: SubjectSpec[Q, JobAccepted], target: Target) -> Told:
        if isinstance(outcome.news, NobodyListens) and await self._is_there(target.node):
            text = f"The worker does not know {spec.name}; it may run an older Corral."
            return _told(target, Refused(fault=Fault(code=faults.COMMAND_UNKNOWN, text=text)))
        return outcome

    async def ask(self, target: Target) -> Told:
        """Where is the job?"""
        answer = await self._outcome(
            "ask", lambda: self._bus.request(JOBS_GET, GetJobs(job_ids=(target.job_id,)), node=target.node)
        )
        if answer is None or isinstance(answer, NobodyListens | NoAnswer):
            return _told(target, answer)
        if isinstance(answer, Refused):
            # It is there and cannot say: as good as silence.
            return _told(target, NoAnswer())
        found = next((job for job in answer.jobs if job.job_id == target.job_id), None)
        return _told(target, UnknownJob()) if found is None else _told_of(target, found)

    async def stop(self, target: Target) -> Told:
        wish = CancelJob(job_id=target.job_id, keeps_partial=target.keeps_partial)
        answer = await self._outcome("stop", lambda: self._bus.request(JOBS_CANCEL, wish, node=target.node))
        if answer is None or isinstance(answer, NobodyListens | NoAnswer):
            return _told(target, answer, is_stop=True)
        job = None if isinstance(answer, Refused) else answer.job
        # Told is told: what the job itself becomes is of no interest any more.
        return Told(
            node=target.node,
            job_id=target.job_id,
            news=UnknownJob(),
            stopped=() if job is None else stopped_by(job),
            is_stop=True,
        )

    async def _is_there(self, node: NodeId) -> bool:
        """Nobody listens to one subject: is the worker off the bus, or does it only lack this command?"""
        answer = await _outcome(lambda: self._bus.request(NODE_DESCRIBE, Describe(), node=node))
        return isinstance(answer, NodeDescription)

    async def _accepted(self, spec: SubjectSpec[Q, JobAccepted], command: Q, target: Target) -> Told:
        answer = await self._outcome("send", lambda: self._bus.request(spec, command, node=target.node))
        if answer is None or isinstance(answer, NobodyListens | NoAnswer | Refused):
            return _told(target, answer)
        return _told_of(target, answer.job)

    async def _outcome(
        self, command: str, call: Callable[[], Awaitable[R]]
    ) -> R | NobodyListens | NoAnswer | Refused | None:
        answer = await _outcome(call)
        self._numbers.commanded(command, _counted(answer))
        return answer


def _counted(answer: object) -> CommandOutcome:
    if answer is None:
        return CommandOutcome.OFF_BUS
    if isinstance(answer, NobodyListens):
        return CommandOutcome.NOBODY_LISTENS
    if isinstance(answer, NoAnswer):
        return CommandOutcome.NO_ANSWER
    return CommandOutcome.REFUSED if isinstance(answer, Refused) else CommandOutcome.ANSWERED


async def _outcome(call: Callable[[], Awaitable[R]]) -> R | NobodyListens | NoAnswer | Refused | None:
    try:
        return await call()
    except NodeUnreachable as error:
        return NoAnswer() if error.slug == TIMEOUT_CODE else NobodyListens()
    except BusUnavailable:
        return None
    except CorralError as error:
        if error.slug in _NOT_NOW:
            return NoAnswer()
        return Refused(fault=Fault(code=plain(error.slug, CODE_MAX), text=plain(error.message, TEXT_MAX)))


def _told(target: Target, news: News | None, *, is_stop: bool = False) -> Told:
    return Told(node=target.node, job_id=target.job_id, news=news, is_stop=is_stop)


def _told_of(target: Target, event: JobEvent) -> Told:
    news = heard(event)
    if event.job_id != target.job_id or news is None:
        fault = Fault(code="internal", text="The worker answered about something else than it was asked.")
        return _told(target, Refused(fault=fault))
    return Told(node=target.node, job_id=target.job_id, news=news, stopped=stopped_by(event), result=result_of(event))
