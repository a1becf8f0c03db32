"""Pretend workers, many of them in one process, on the real bus: `python -m bench.fleet`, led by lines of JSON.

Each speaks the worker's protocol: it accepts a command, tells how far it is four times a second, says when it is done
and then reports what it has over HTTP. Heartbeats go on all the time. The work itself is waiting. One credential of the
bus stands for all nodes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from bench.load import SimulatedNode, make_heartbeat_request
from bench.report import silence_logs
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import NatsEndpoint
from corral.adapters.nats.credentials import NatsCredential, make_credential, new_user_key, sign_user_token
from corral.adapters.nats.keys import NatsKeyKind, key_from_seed
from corral.adapters.system import SystemClock
from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    CancelJobReply,
    GetJobs,
    GetJobsReply,
    JobAcceptedReply,
    JobEvent,
)
from corral.bus.subjects import (
    BACKEND_INSTALL,
    JOB_EVENT,
    JOBS_CANCEL,
    JOBS_GET,
    BusPermissions,
    SubjectSpec,
    format_pattern,
    make_inbox_prefix,
)
from corral.ports.bus import Delivery

EVENT_INTERVAL_S = 0.25
BYTES = 200_000_000
HTTP_CONNECTIONS = 64
HEARTBEAT_INTERVAL_S = 10.0
_OWNER = "bench-fleet"
_SUBSCRIBED: tuple[SubjectSpec[Any, Any], ...] = (BACKEND_INSTALL, JOBS_GET, JOBS_CANCEL)


@dataclass
class FleetOrder:
    """Says how the pretend workers behave until the next order."""

    work_s: float = 1.0
    reports: bool = False


@dataclass
class FleetCounts:
    """Counts what has happened since the last order; times are of the machine's monotonic clock."""

    accepted: int = 0
    last_accepted_at: float = 0.0
    done: int = 0
    last_done_at: float = 0.0
    events: int = 0
    job_queries: int = 0
    reports: int = 0
    failed_reports: int = 0


@dataclass
class PretendWorker:
    """Holds the identity and the installed backends of one pretend worker."""

    id: str
    credential: str
    boot_id: str
    installed: dict[str, dict[str, Any]] = field(default_factory=dict)
    report_requested: bool = False
    is_reporting: bool = False


class PretendFleet:
    """Answers the bus commands of many pretend workers, and reports as they would."""

    def __init__(self, bus: NatsBus, session: aiohttp.ClientSession, workers: list[PretendWorker], url: str) -> None:
        self._bus = bus
        self._session = session
        self._workers = {worker.id: worker for worker in workers}
        self._url = url
        self._jobs: dict[str, JobEvent] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.current_order = FleetOrder()
        self.counts = FleetCounts()

    async def subscribe_all(self) -> None:
        await self._bus.subscribe(BACKEND_INSTALL, self._install)
        await self._bus.subscribe(JOBS_GET, self._get)
        await self._bus.subscribe(JOBS_CANCEL, self._cancel)

    async def _install(self, delivery: Delivery[BackendCommand]) -> JobAcceptedReply:
        command, worker = delivery.message, self._workers[delivery.node or ""]
        known = self._jobs.get(command.job_id)
        if known is None:
            known = JobEvent(
                job_id=command.job_id,
                seq=1,
                state="running",
                backend=command.backend,
                operation_id=command.operation_id,
                generation=command.generation,
                phase="fetching",
                current_bytes=0,
                total_bytes=BYTES,
            )
            self._jobs[command.job_id] = known
            self._start(self._work(worker, known))
            self.counts.accepted += 1
            self.counts.last_accepted_at = time.monotonic()
        return JobAcceptedReply(boot_id=worker.boot_id, job=known)

    async def _get(self, delivery: Delivery[GetJobs]) -> GetJobsReply:
        self.counts.job_queries += 1
        found = tuple(self._jobs[key] for key in delivery.message.job_ids if key in self._jobs)
        return GetJobsReply(boot_id=self._workers[delivery.node or ""].boot_id, jobs=found)

    async def _cancel(self, delivery: Delivery[CancelJob]) -> CancelJobReply:
        boot_id = self._workers[delivery.node or ""].boot_id
        return CancelJobReply(boot_id=boot_id, job=self._jobs.get(delivery.message.job_id))

    async def _work(self, worker: PretendWorker, event: JobEvent) -> None:
        steps = max(1, round(self.current_order.work_s / EVENT_INTERVAL_S))
        began = time.monotonic()
        for step in range(1, steps):
            await asyncio.sleep(began + self.current_order.work_s * step / steps - time.monotonic())
            part = step / steps
            event = replace(event, seq=event.seq + 1, percent=100 * part, current_bytes=int(BYTES * part))
            await self._publish_event(worker, event)
        await asyncio.sleep(began + self.current_order.work_s - time.monotonic())
        await self._publish_event(
            worker, replace(event, seq=event.seq + 1, state="done", percent=100.0, current_bytes=BYTES)
        )
        self.counts.done += 1
        self.counts.last_done_at = time.monotonic()
        worker.installed[event.backend] = {
            "name": event.backend,
            "version": "1",
            "generation": event.generation,
            "installed_at": datetime.now(UTC).isoformat(),
        }
        if self.current_order.reports:
            await self._report(worker)

    async def _publish_event(self, worker: PretendWorker, event: JobEvent) -> None:
        self._jobs[event.job_id] = event
        await self._bus.publish(JOB_EVENT, event, node=worker.id)
        self.counts.events += 1

    async def _report(self, worker: PretendWorker) -> None:
        """Report one worker's backends, one report at a time per node; later changes are in the next report."""
        worker.report_requested = True
        if worker.is_reporting:
            return
        worker.is_reporting = True
        while worker.report_requested:
            worker.report_requested = False
            await self._post(worker, "/backends", {"backends": list(worker.installed.values()), "removed": {}})
        worker.is_reporting = False

    async def _post(self, worker: PretendWorker, path: str, body: dict[str, Any]) -> None:
        sent = {"boot_id": worker.boot_id} | body
        headers = {"Authorization": f"Bearer {worker.credential}"}
        async with self._session.post(f"{self._url}/api/node/{worker.id}{path}", json=sent, headers=headers) as answer:
            await answer.read()
            self.counts.reports += 1
            self.counts.failed_reports += answer.status != 200

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_idle(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)


async def _heartbeats(port: int, workers: list[PretendWorker], first_round: asyncio.Event) -> None:
    """Send heartbeats over one connection for all workers: the first round at once, later ones spread over the
    interval."""
    nodes = [SimulatedNode(worker.id, worker.credential, worker.boot_id) for worker in workers]
    requests = [make_heartbeat_request(node, "/api/node/{id}/heartbeat") for node in nodes]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        began = time.monotonic()
        for number, request in enumerate(requests, 1):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            assert head.startswith(b"HTTP/1.1 200"), head
            if first_round.is_set():
                due = began + HEARTBEAT_INTERVAL_S * number / len(requests)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        first_round.set()


def _provider(account_seed: str) -> Callable[[], NatsCredential]:
    """Return a provider that mints credentials as the product does, for the subjects of a worker, of every node."""
    seed, public = new_user_key()
    allowed = BusPermissions(
        publish_allow=(format_pattern(JOB_EVENT),),
        subscribe_allow=(*(format_pattern(spec) for spec in _SUBSCRIBED), f"{make_inbox_prefix(_OWNER)}.>"),
        allow_responses=True,
    )
    account = key_from_seed(account_seed, NatsKeyKind.ACCOUNT)
    token = sign_user_token(account, public, allowed, name=_OWNER, valid=(datetime.now(UTC), 3600.0))
    return lambda: make_credential(token, seed, subject_id=_OWNER)


async def _run() -> None:
    silence_logs()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    given = json.loads(await reader.readline())
    if hasattr(os, "sched_setaffinity") and given["core"] is not None:
        os.sched_setaffinity(0, {given["core"]})
    bus = NatsBus(
        NatsEndpoint(urls=(given["nats_url"],), client_name=_OWNER),
        _provider(Path(given["account_seed_file"]).read_text().strip()),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    connector = aiohttp.TCPConnector(limit=HTTP_CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:
        workers = [PretendWorker(**worker) for worker in given["workers"]]
        fleet = PretendFleet(bus, session, workers, given["url"])
        await bus.start()
        while not bus.is_connected:
            await asyncio.sleep(0.01)
        await fleet.subscribe_all()
        first_round = asyncio.Event()
        beating = asyncio.create_task(_heartbeats(given["port"], workers, first_round))
        await first_round.wait()
        _print_json({"ready": True})
        while line := await reader.readline():
            order = json.loads(line)
            if order:
                fleet.current_order, fleet.counts = FleetOrder(**order), FleetCounts()
            else:
                await fleet.wait_idle()
            _print_json(vars(fleet.counts))
        beating.cancel()
        await bus.stop()


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    uvloop.run(_run())
