"""A bus inside the test's process, and workers on it that do what the test says. Fast, and with nothing to wait for.

It keeps the errors of `ports.bus.Bus` and sends everything through the real codec, so that what works here is what
NATS would carry. The main path and outages are tested on a real NATS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from corral.bus.codec import decode, decode_reply, encode
from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    CancelJobReply,
    DescribeNode,
    GetJobs,
    GetJobsReply,
    JobAcceptedReply,
    JobEvent,
    NodeDescription,
)
from corral.bus.subjects import JOB_EVENT, SubjectSpec, format_pattern, format_subject
from corral.domain.errors import BusUnavailable, CorralError, NodeUnreachable
from corral.ports.bus import Delivery, MessageHandler, ReconnectCallback

Q = TypeVar("Q")
R = TypeVar("R")
BOOT = "boot-one"
NORMAL, OFF, SILENT = "normal", "off the bus", "silent"


@dataclass
class FakeWorker:
    """A worker without a disk: it accepts jobs and moves them when the test says so."""

    node: str
    hub: Hub
    mode: str = NORMAL
    # Commands that it has never heard of.
    lacks: frozenset[str] = frozenset()
    # Raised instead of accepting.
    refuses: CorralError | None = None
    # Raised instead of cancelling.
    refuses_cancel: CorralError | None = None
    # Called with each job that it accepts, before it answers.
    on_accept: Callable[[FakeWorker, str], None] | None = None
    jobs: dict[str, JobEvent] = field(default_factory=dict)
    commands: list[tuple[str, BackendCommand]] = field(default_factory=list)
    cancelled: list[CancelJob] = field(default_factory=list)
    queried_jobs: list[str] = field(default_factory=list)

    @property
    def job(self) -> str:
        """The job of the last command."""
        return self.commands[-1][1].job_id

    def handle(self, name: str, message: Any) -> Any:
        match message:
            case BackendCommand():
                return self._accept(name, message)
            case DescribeNode():
                return NodeDescription(node_id=self.node, boot_id=BOOT, name=self.node, version="0.0.1", uptime_s=1.0)
            case GetJobs():
                self.queried_jobs += message.job_ids
                return GetJobsReply(
                    boot_id=BOOT, jobs=tuple(self.jobs[key] for key in message.job_ids if key in self.jobs)
                )
            case CancelJob():
                if self.refuses_cancel is not None:
                    raise self.refuses_cancel
                self.cancelled.append(message)
                job = self.jobs.get(message.job_id)
                if job is not None:
                    state = "paused" if message.keeps_partial else "cancelled"
                    job = self.jobs[message.job_id] = replace(job, seq=job.seq + 1, state=state)
                return CancelJobReply(boot_id=BOOT, job=job)
        raise AssertionError(f"nobody has taught the fake worker {name}")

    def _accept(self, name: str, command: BackendCommand) -> JobAcceptedReply:
        self.commands.append((name, command))
        if self.refuses is not None:
            raise self.refuses
        if command.job_id not in self.jobs:
            self.jobs[command.job_id] = JobEvent(
                job_id=command.job_id,
                seq=1,
                state="running",
                backend=command.backend,
                operation_id=command.operation_id,
                generation=command.generation,
            )
            if self.on_accept is not None:
                self.on_accept(self, command.job_id)
        return JobAcceptedReply(boot_id=BOOT, job=self.jobs[command.job_id])

    def set(self, job: str = "", **changes: Any) -> JobEvent:
        """Move the job without sending an event yet."""
        key = job or self.job
        event = self.jobs[key] = replace(self.jobs[key], seq=self.jobs[key].seq + 1, **changes)
        return event

    async def move(self, percent: float, job: str = "", **changes: Any) -> None:
        await self.say(self.set(job, percent=percent, **changes))

    async def finish(self, job: str = "", **changes: Any) -> None:
        await self.say(self.set(job, **({"state": "done", "percent": 100.0} | changes)))

    async def fail(self, code: str, text: str = "it broke", job: str = "", **changes: Any) -> None:
        await self.say(self.set(job, state="failed", error_code=code, error_text=text, **changes))

    async def say(self, event: JobEvent) -> None:
        await self.hub.deliver(JOB_EVENT, event, node=self.node)


class Hub:
    """What all buses of a test are connected to."""

    def __init__(self) -> None:
        self.workers: dict[str, FakeWorker] = {}
        self.buses: list[FakeBus] = []
        self.sent: list[tuple[str, str, Any]] = []
        # Closed: requests wait here, and how many wait at once is counted.
        self.gate = asyncio.Event()
        self.gate.set()
        self.in_flight = 0
        self.most_in_flight = 0

    def worker(self, node: str, **options: Any) -> FakeWorker:
        self.workers[node] = FakeWorker(node, self, **options)
        return self.workers[node]

    async def answer(self, spec: SubjectSpec[Q, R], message: Q, node: str) -> R:
        self.sent.append((spec.name, node, message))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.gate.wait()
        finally:
            self.in_flight -= 1
        worker = self.workers.get(node)
        if worker is None or worker.mode == OFF or spec.name in worker.lacks:
            raise NodeUnreachable(f"No subscriber listens on {format_subject(spec, node=node)}.")
        if worker.mode == SILENT:
            raise NodeUnreachable("The node did not respond in time.", code="node_timeout")
        assert spec.reply is not None
        answer = worker.handle(spec.name, message)
        return decode_reply(spec.reply, encode(answer, subject=spec.name), subject=spec.name)

    async def deliver(self, spec: SubjectSpec[Any, None], message: Any, *, node: str | None = None) -> None:
        self.sent.append((spec.name, node or "", message))
        for bus in self.buses:
            await bus.receive(spec, message, node)

    def names(self, name: str) -> list[str]:
        """The nodes to which this was sent, in order."""
        return [node for sent, node, _ in self.sent if sent == name]


@dataclass
class _Subscription:
    subject: str
    is_confirmed: bool = True

    async def cancel(self) -> None:
        return


class FakeBus:
    name = "bus"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._handlers: dict[str, MessageHandler[Any, Any]] = {}
        self._callbacks: list[ReconnectCallback] = []
        self.is_connected = True
        hub.buses.append(self)

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        self.unplug()

    def unplug(self) -> None:
        self.is_connected = False

    async def plug(self) -> None:
        self.is_connected = True
        for callback in self._callbacks:
            await callback()

    async def request(
        self, spec: SubjectSpec[Q, R], message: Q, *, node: str | None = None, timeout_s: float | None = None
    ) -> R:
        if not self.is_connected:
            raise BusUnavailable
        assert node is not None
        return await self._hub.answer(spec, _carried(spec, message), node)

    async def publish(self, spec: SubjectSpec[Q, None], message: Q, *, node: str | None = None) -> None:
        if not self.is_connected:
            raise BusUnavailable
        await self._hub.deliver(spec, _carried(spec, message), node=node)

    async def subscribe(
        self, spec: SubjectSpec[Q, R], handler: MessageHandler[Q, R], *, node: str | None = None
    ) -> _Subscription:
        self._handlers[spec.name] = handler
        return _Subscription(format_pattern(spec, node=node))

    def on_reconnect(self, callback: ReconnectCallback) -> None:
        self._callbacks.append(callback)

    async def receive(self, spec: SubjectSpec[Any, None], message: Any, node: str | None) -> None:
        handler = self._handlers.get(spec.name)
        if handler is not None and self.is_connected:
            await handler(Delivery(message=_carried(spec, message), subject=spec.name, node=node))


def _carried(spec: SubjectSpec[Any, Any], message: Q) -> Q:
    """As it comes out at the other end."""
    carried: Q = decode(spec.request, encode(message, subject=spec.name), subject=spec.name)
    return carried
