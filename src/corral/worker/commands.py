"""What a worker does about commands on the bus.

Guarantee: a command that takes long is accepted as a job and answered within milliseconds; the others wait for
processes only as long as the supervisor allows, and beside one another. An empty message never means "all".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from corral.bus import subjects
from corral.bus.messages import (
    BackendCommand,
    Backends,
    BackendsCollected,
    BackendStopped,
    CancelJob,
    CollectBackends,
    CollectedItem,
    DeleteModel,
    GetJobs,
    InstalledItem,
    JobAccepted,
    JobCancelled,
    Jobs,
    ListBackends,
    ListRunning,
    LoadModel,
    Log,
    ModelDeleted,
    ModelStopped,
    ReadLog,
    Running,
    StageModel,
    StartBackend,
    StopBackend,
    StopModel,
)
from corral.domain.backend import InstalledBackend
from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.bus import Bus, Delivery
from corral.worker.backend_reports import BackendReports
from corral.worker.holdings import HoldingsReports
from corral.worker.jobs.record import Command, JobKind
from corral.worker.jobs.runner import JobRunner
from corral.worker.work import Files, Installer, Processes

# What one answer may hold and one follower may wait; the supervisor has limits of its own.
MAX_LOG_LINES = 2000
MAX_LOG_WAIT_S = 5.0
# Under a megabyte in any case; a worker has tens.
log = structlog.get_logger(__name__)

MAX_BACKENDS = 500
# The largest ones are what somebody wants to see.
MAX_COLLECTED = 200

TakesJob = Callable[[Delivery[BackendCommand]], Awaitable[JobAccepted]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandParts:
    runner: JobRunner
    reports: BackendReports
    holdings: HoldingsReports
    installer: Installer
    files: Files
    processes: Processes
    boot_id: str


class BackendCommands:
    """The duties of a worker that has backends and models (`worker.link.Duties`)."""

    def __init__(self, parts: CommandParts) -> None:
        self._parts = parts
        self._node_id = ""

    async def subscribe(self, bus: Bus, node_id: str) -> None:
        self._node_id = node_id
        await bus.subscribe(subjects.BACKEND_INSTALL, self._takes(JobKind.INSTALL), node=node_id)
        await bus.subscribe(subjects.BACKEND_UPGRADE, self._takes(JobKind.UPGRADE), node=node_id)
        await bus.subscribe(subjects.BACKEND_ROLLBACK, self._takes(JobKind.ROLLBACK), node=node_id)
        await bus.subscribe(subjects.BACKEND_DELETE, self._takes(JobKind.DELETE), node=node_id)
        await bus.subscribe(subjects.BACKEND_START, self._on_start, node=node_id)
        await bus.subscribe(subjects.BACKEND_LIST, self._on_list, node=node_id)
        await bus.subscribe(subjects.BACKEND_COLLECT, self._on_collect, node=node_id)
        await bus.subscribe(subjects.BACKEND_STOP, self._on_stop, node=node_id)
        await bus.subscribe(subjects.BACKEND_LOGS, self._on_logs, node=node_id)
        await bus.subscribe(subjects.JOBS_GET, self._on_jobs, node=node_id)
        await bus.subscribe(subjects.JOBS_CANCEL, self._on_cancel, node=node_id)
        await bus.subscribe(subjects.MODEL_LOAD, self._on_load, node=node_id)
        await bus.subscribe(subjects.MODEL_STAGE, self._on_stage, node=node_id)
        await bus.subscribe(subjects.MODEL_STOP, self._on_stop_model, node=node_id)
        await bus.subscribe(subjects.MODEL_DELETE, self._on_delete_model, node=node_id)
        await bus.subscribe(subjects.MODELS_RUNNING, self._on_running, node=node_id)
        self._parts.runner.events.use(bus, node_id)

    def on_bus(self) -> None:
        self._parts.runner.events.loop.wake()

    def registered(self) -> None:
        self._parts.reports.wake()
        self._parts.holdings.wake()

    async def removed(self) -> None:
        await self._parts.runner.abandon_jobs()
        ended, survivors = await self._parts.processes.stop_backend(None)
        if ended:
            log.warning("the engines of the removed node were ended", keys=ended)
        if survivors:
            log.error("engines of the removed node could not be ended", keys=survivors)

    def _takes(self, kind: JobKind) -> TakesJob:
        async def take(delivery: Delivery[BackendCommand]) -> JobAccepted:
            return await self._accept(kind, delivery.message)

        return take

    async def _on_start(self, delivery: Delivery[StartBackend]) -> JobAccepted:
        return await self._accept(JobKind.START, delivery.message)

    async def _on_load(self, delivery: Delivery[LoadModel]) -> JobAccepted:
        return await self._accept(JobKind.LOAD, delivery.message)

    async def _on_stage(self, delivery: Delivery[StageModel]) -> JobAccepted:
        return await self._accept(JobKind.STAGE, delivery.message)

    async def _accept(self, kind: JobKind, command: Command) -> JobAccepted:
        await self._parts.runner.serve(self._node_id)
        return await self._parts.runner.accept(kind, command)

    async def _on_jobs(self, delivery: Delivery[GetJobs]) -> Jobs:
        return await self._parts.runner.get(delivery.message)

    async def _on_cancel(self, delivery: Delivery[CancelJob]) -> JobCancelled:
        return await self._parts.runner.cancel(delivery.message)

    async def _on_list(self, _: Delivery[ListBackends]) -> Backends:
        held = await self._parts.runner.holdings(self._node_id)
        return Backends(
            boot_id=self._parts.boot_id,
            backends=tuple(_item(each) for each in held.installed[:MAX_BACKENDS]),
            removed=dict(held.removed),
        )

    async def _on_collect(self, delivery: Delivery[CollectBackends]) -> BackendsCollected:
        found = await self._parts.installer.collect(dry_run=delivery.message.dry_run)
        largest = sorted(found.items, key=lambda item: (-item.size_bytes, item.name))[:MAX_COLLECTED]
        return BackendsCollected(
            items=tuple(CollectedItem(name=item.name, size_bytes=item.size_bytes) for item in largest),
            count=len(found.items),
            freed_bytes=found.size_bytes,
        )

    async def _on_stop(self, delivery: Delivery[StopBackend]) -> BackendStopped:
        wish = delivery.message
        if wish.all == bool(wish.backend):
            raise InvalidRequest(
                "A stop names one backend or says all, not both and not neither.",
                hint="Send backend, or all=true.",
                code="stop_of_what",
            )
        await self._parts.runner.until_loaded()
        backend = None if wish.all else self._parts.installer.resolve(wish.backend) or wish.backend
        stopped, survivors = await self._parts.processes.stop_backend(backend, force=wish.force)
        return BackendStopped(stopped=stopped, survivors=survivors)

    async def _on_logs(self, delivery: Delivery[ReadLog]) -> Log:
        wish = delivery.message
        bounded = ReadLog(
            key=wish.key,
            after=max(0, wish.after),
            limit=min(MAX_LOG_LINES, max(1, wish.limit)),
            wait_s=min(MAX_LOG_WAIT_S, max(0.0, wish.wait_s)),
        )
        return await self._parts.processes.read_log(bounded)

    async def _on_stop_model(self, delivery: Delivery[StopModel]) -> ModelStopped:
        wish = delivery.message
        await self._parts.runner.until_loaded()
        try:
            matched, address = await self._parts.processes.stop_exactly(
                wish.process_key, expected_address=wish.expected_address, force=wish.force
            )
        except CorralError as error:
            # It is there, and it goes on: an answer, not a failure of the command.
            return ModelStopped(process_key=wish.process_key, matched=True, terminated=False, problem=error.message)
        return ModelStopped(process_key=wish.process_key, matched=matched, terminated=True, address=address)

    async def _on_delete_model(self, delivery: Delivery[DeleteModel]) -> ModelDeleted:
        return await self._parts.files.delete(delivery.message.model)

    async def _on_running(self, delivery: Delivery[ListRunning]) -> Running:
        # "Nothing runs" would be a lie as long as nothing has been adopted.
        await self._parts.runner.until_loaded()
        processes = self._parts.processes
        found = await processes.measure_running() if delivery.message.measures else processes.running()
        return Running(boot_id=self._parts.boot_id, processes=found)


def _item(installed: InstalledBackend) -> InstalledItem:
    return InstalledItem(
        name=installed.name,
        meta=installed.meta,
        alias=installed.alias,
        version=installed.version,
        digest=installed.digest,
        uri=installed.uri,
        gallery=installed.gallery,
        generation=installed.generation,
        size_bytes=installed.size_bytes,
        previous_version=installed.previous_version,
        is_system=installed.is_system,
        installed_at=installed.installed_at.isoformat() if installed.installed_at else "",
    )
