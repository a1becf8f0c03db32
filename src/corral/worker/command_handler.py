"""Handles the commands that a worker receives on the bus.

Guarantee: a command that takes long is accepted as a job and answered within milliseconds; the others wait for
processes only as long as the supervisor allows, and beside one another. An empty message never means "all".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

import structlog

from corral.bus import subjects
from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    CancelJobReply,
    CollectBackends,
    CollectBackendsReply,
    DeleteModel,
    DeleteModelReply,
    GarbageItem,
    GetJobs,
    GetJobsReply,
    InstalledBackendItem,
    JobAcceptedReply,
    ListBackends,
    ListBackendsReply,
    ListRunning,
    ListRunningReply,
    LoadModel,
    ReadLog,
    ReadLogReply,
    StageModel,
    StartBackend,
    StopBackend,
    StopBackendReply,
    StopModel,
    StopModelReply,
)
from corral.domain.backend import InstalledBackend
from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.bus import Bus, Delivery
from corral.worker.control_reporter import BackendReporter, HoldingsReporter
from corral.worker.job_ports import BackendInstaller, ModelFiles, ProcessSupervisor
from corral.worker.jobs.journal import JobCommand, JobKind
from corral.worker.jobs.runner import JobRunner

# Limits of one reply and of one follower's wait; the supervisor has limits of its own.
MAX_LOG_LINES = 2000
MAX_LOG_WAIT_S = 5.0
# Keeps a reply under a megabyte; a worker has tens of processes.
log = structlog.get_logger(__name__)

MAX_BACKENDS = 500
# Only the largest entries are listed: they are the ones that people look for.
MAX_COLLECTED = 200

JobCommandCallback = Callable[[Delivery[BackendCommand]], Awaitable[JobAcceptedReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHandlerDeps:
    """Holds what commands act on: job runner, reporters, installer, model files and engine supervisor."""

    runner: JobRunner
    backend_reporter: BackendReporter
    holdings_reporter: HoldingsReporter
    installer: BackendInstaller
    files: ModelFiles
    processes: ProcessSupervisor
    boot_id: str


class BackendCommandHandler:
    """Answers commands on the bus for a worker that has backends and models. Implements `bus_link.CommandHandler`."""

    def __init__(self, deps: CommandHandlerDeps) -> None:
        self._deps = deps
        self._node_id = ""

    async def subscribe(self, bus: Bus, node_id: str) -> None:
        self._node_id = node_id
        await bus.subscribe(subjects.BACKEND_INSTALL, self._make_job_callback(JobKind.INSTALL), node=node_id)
        await bus.subscribe(subjects.BACKEND_UPGRADE, self._make_job_callback(JobKind.UPGRADE), node=node_id)
        await bus.subscribe(subjects.BACKEND_ROLLBACK, self._make_job_callback(JobKind.ROLLBACK), node=node_id)
        await bus.subscribe(subjects.BACKEND_DELETE, self._make_job_callback(JobKind.DELETE), node=node_id)
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
        self._deps.runner.events.use_bus(bus, node_id)

    def on_connect(self) -> None:
        self._deps.runner.events.loop.wake()

    def on_registered(self) -> None:
        self._deps.backend_reporter.wake()
        self._deps.holdings_reporter.wake()

    async def on_removed(self) -> None:
        await self._deps.runner.abandon_jobs()
        ended, survivors = await self._deps.processes.stop_backend(None)
        if ended:
            log.warning("the engines of the removed node were ended", keys=ended)
        if survivors:
            log.error("engines of the removed node could not be ended", keys=survivors)

    def _make_job_callback(self, kind: JobKind) -> JobCommandCallback:
        async def accept_job(delivery: Delivery[BackendCommand]) -> JobAcceptedReply:
            return await self._accept(kind, delivery.message)

        return accept_job

    async def _on_start(self, delivery: Delivery[StartBackend]) -> JobAcceptedReply:
        return await self._accept(JobKind.START, delivery.message)

    async def _on_load(self, delivery: Delivery[LoadModel]) -> JobAcceptedReply:
        return await self._accept(JobKind.LOAD, delivery.message)

    async def _on_stage(self, delivery: Delivery[StageModel]) -> JobAcceptedReply:
        return await self._accept(JobKind.STAGE, delivery.message)

    async def _accept(self, kind: JobKind, command: JobCommand) -> JobAcceptedReply:
        await self._deps.runner.serve_node(self._node_id)
        return await self._deps.runner.accept(kind, command)

    async def _on_jobs(self, delivery: Delivery[GetJobs]) -> GetJobsReply:
        return await self._deps.runner.list_jobs(delivery.message)

    async def _on_cancel(self, delivery: Delivery[CancelJob]) -> CancelJobReply:
        return await self._deps.runner.cancel(delivery.message)

    async def _on_list(self, _: Delivery[ListBackends]) -> ListBackendsReply:
        inventory = await self._deps.runner.get_inventory(self._node_id)
        return ListBackendsReply(
            boot_id=self._deps.boot_id,
            backends=tuple(_make_item(each) for each in inventory.installed[:MAX_BACKENDS]),
            removed=dict(inventory.removed),
        )

    async def _on_collect(self, delivery: Delivery[CollectBackends]) -> CollectBackendsReply:
        found = await self._deps.installer.collect_garbage(dry_run=delivery.message.dry_run)
        largest = sorted(found.items, key=lambda item: (-item.size_bytes, item.name))[:MAX_COLLECTED]
        return CollectBackendsReply(
            items=tuple(GarbageItem(name=item.name, size_bytes=item.size_bytes) for item in largest),
            count=len(found.items),
            freed_bytes=found.size_bytes,
        )

    async def _on_stop(self, delivery: Delivery[StopBackend]) -> StopBackendReply:
        command = delivery.message
        if command.all == bool(command.backend):
            raise InvalidRequest(
                "A stop names one backend or says all, not both and not neither.",
                hint="Send backend, or all=true.",
                code="stop_of_what",
            )
        await self._deps.runner.wait_loaded()
        backend = None if command.all else self._deps.installer.resolve(command.backend) or command.backend
        stopped, survivors = await self._deps.processes.stop_backend(backend, force=command.force)
        return StopBackendReply(stopped=stopped, survivors=survivors)

    async def _on_logs(self, delivery: Delivery[ReadLog]) -> ReadLogReply:
        query = delivery.message
        bounded = ReadLog(
            key=query.key,
            after=max(0, query.after),
            limit=min(MAX_LOG_LINES, max(1, query.limit)),
            wait_s=min(MAX_LOG_WAIT_S, max(0.0, query.wait_s)),
        )
        return await self._deps.processes.read_log(bounded)

    async def _on_stop_model(self, delivery: Delivery[StopModel]) -> StopModelReply:
        command = delivery.message
        await self._deps.runner.wait_loaded()
        try:
            matched, address = await self._deps.processes.stop_process(
                command.process_key, expected_address=command.expected_address, force=command.force
            )
        except CorralError as error:
            # The process exists and goes on: that is a reply, not a failure of the command.
            return StopModelReply(
                process_key=command.process_key, matched=True, terminated=False, problem=error.message
            )
        return StopModelReply(process_key=command.process_key, matched=matched, terminated=True, address=address)

    async def _on_delete_model(self, delivery: Delivery[DeleteModel]) -> DeleteModelReply:
        return await self._deps.files.delete(delivery.message.model)

    async def _on_running(self, delivery: Delivery[ListRunning]) -> ListRunningReply:
        # Before engines are adopted, a reply "nothing runs" would be wrong.
        await self._deps.runner.wait_loaded()
        processes = self._deps.processes
        found = await processes.measure_running() if delivery.message.measures else processes.list_running()
        return ListRunningReply(boot_id=self._deps.boot_id, processes=found)


def _make_item(installed: InstalledBackend) -> InstalledBackendItem:
    installed_at = installed.installed_at.isoformat() if installed.installed_at else ""
    return InstalledBackendItem(**asdict(installed) | {"installed_at": installed_at})
