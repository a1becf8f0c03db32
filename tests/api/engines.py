"""A worker's side of the bus, scripted: engines that run, print and can be stopped, and jobs that move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from corral.adapters.nats.client import NatsBus
from corral.bus import subjects
from corral.bus.messages import (
    BackendCommand,
    CollectBackends,
    CollectBackendsReply,
    GarbageItem,
    JobAcceptedReply,
    JobEvent,
    ListRunning,
    ListRunningReply,
    LogLine,
    ReadLog,
    ReadLogReply,
    RunningProcess,
    StartBackend,
    StopBackend,
    StopBackendReply,
    StopModel,
    StopModelReply,
)
from corral.ports.bus import Delivery
from tests.bus.nats_server import NatsServer
from tests.support.nodes import PretendNode
from tests.support.polling import eventually


@dataclass
class Engines:
    node: PretendNode
    bus: NatsBus
    running: list[str] = field(default_factory=list)
    lines: dict[str, list[str]] = field(default_factory=dict)
    survivors: tuple[str, ...] = ()
    garbage: dict[str, int] = field(default_factory=dict)
    jobs: list[BackendCommand] = field(default_factory=list)
    printed: asyncio.Event = field(default_factory=asyncio.Event)

    def prints(self, key: str, *texts: str) -> None:
        self.lines.setdefault(key, []).extend(texts)
        self.printed.set()

    async def tell(self, command: BackendCommand, seq: int, state: str, **more: object) -> None:
        """An event of a job."""
        event = JobEvent(
            job_id=command.job_id,
            seq=seq,
            state=state,
            backend=command.backend,
            operation_id=command.operation_id,
            generation=command.generation,
            **more,  # type: ignore[arg-type]
        )
        await self.bus.publish(subjects.JOB_EVENT, event, node=self.node.id)

    async def _list(self, delivery: Delivery[ListRunning]) -> ListRunningReply:
        found = [
            RunningProcess(
                key=key, model=key.rpartition("#")[0], replica=0, backend="fake", version="1", address="h:1", pid=7
            )
            for key in self.running
        ]
        if delivery.message.measures:
            found = [replace(one, ram_bytes=2**30, cpu_percent=150.0) for one in found]
        return ListRunningReply(boot_id=self.node.boot_id, processes=tuple(found))

    async def _start(self, delivery: Delivery[StartBackend]) -> JobAcceptedReply:
        command = delivery.message
        self.running.append(f"{command.model}#{command.replica}")
        job = JobEvent(job_id=command.job_id, seq=1, state="running", backend=command.backend)
        return JobAcceptedReply(boot_id=self.node.boot_id, job=job)

    async def _collect(self, delivery: Delivery[CollectBackends]) -> CollectBackendsReply:
        items = tuple(GarbageItem(name=name, size_bytes=size) for name, size in self.garbage.items())
        if not delivery.message.dry_run:
            self.garbage = {}
        return CollectBackendsReply(items=items, count=len(items), freed_bytes=sum(item.size_bytes for item in items))

    async def _stop_backend(self, _: Delivery[StopBackend]) -> StopBackendReply:
        ended = tuple(key for key in self.running if key not in self.survivors)
        self.running = [key for key in self.running if key in self.survivors]
        return StopBackendReply(stopped=ended, survivors=self.survivors)

    async def _stop_exactly(self, delivery: Delivery[StopModel]) -> StopModelReply:
        key = delivery.message.process_key
        is_there = key in self.running
        if is_there:
            self.running.remove(key)
        return StopModelReply(process_key=key, matched=is_there, terminated=True)

    async def _read(self, delivery: Delivery[ReadLog]) -> ReadLogReply:
        query = delivery.message
        if not query.key:
            return ReadLogReply(keys=tuple(self.lines))
        if len(self.lines.get(query.key, ())) <= query.after and query.wait_s:
            self.printed.clear()
            try:
                async with asyncio.timeout(query.wait_s):
                    await self.printed.wait()
            except TimeoutError:
                pass
        texts = self.lines.get(query.key, [])[query.after : query.after + query.limit]
        found = [
            LogLine(number=number, at="2026-01-02T12:00:00Z", stream="stdout", text=text)
            for number, text in enumerate(texts, start=query.after + 1)
        ]
        there = len(self.lines.get(query.key, ()))
        return ReadLogReply(lines=tuple(found), first=1, next=min(query.after, there) + len(found))

    async def _install(self, delivery: Delivery[BackendCommand]) -> JobAcceptedReply:
        command = delivery.message
        self.jobs.append(command)
        job = JobEvent(
            job_id=command.job_id, seq=1, state="running", backend=command.backend, operation_id=command.operation_id
        )
        return JobAcceptedReply(boot_id=self.node.boot_id, job=job)


@asynccontextmanager
async def on_the_bus(nats: NatsServer, node: PretendNode) -> AsyncIterator[Engines]:
    """The node answers over the bus, and the registry knows that it does."""
    bus = nats.bus(subjects.BusRole.WORKER, node.id)
    engines = Engines(node=node, bus=bus)
    await bus.start()
    try:

        async def is_connected() -> bool:
            return bus.is_connected

        await eventually(is_connected)
        await bus.subscribe(subjects.MODELS_RUNNING, engines._list, node=node.id)
        await bus.subscribe(subjects.BACKEND_COLLECT, engines._collect, node=node.id)
        await bus.subscribe(subjects.BACKEND_START, engines._start, node=node.id)
        await bus.subscribe(subjects.BACKEND_STOP, engines._stop_backend, node=node.id)
        await bus.subscribe(subjects.MODEL_STOP, engines._stop_exactly, node=node.id)
        await bus.subscribe(subjects.BACKEND_LOGS, engines._read, node=node.id)
        await bus.subscribe(subjects.BACKEND_INSTALL, engines._install, node=node.id)
        assert (await node.heartbeat(bus_ok=True))[0] == 200
        yield engines
    finally:
        await bus.stop()
