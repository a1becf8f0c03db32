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
    CallMcpServer,
    CallMcpServerReply,
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
    StartRun,
    StopBackend,
    StopBackendReply,
    StopModel,
    StopModelReply,
    WakeRun,
)
from corral.domain.backend import InstalledBackend
from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.bus import Bus, Delivery
from corral.worker.control_reporter import BackendReporter, HoldingsReporter
from corral.worker.job_ports import BackendInstaller, ModelFiles, ProcessSupervisor
from corral.worker.jobs.journal import JobCommand, JobKind
from corral.worker.jobs.runner import JobRunner
from corral.worker.runs.executor import RunExecutor

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
    """Dependencies of a worker's bus command handler: job runner, reporters, installer, model files and supervisor."""

    runner: JobRunner
    backend_reporter: BackendReporter
    holdings_reporter: HoldingsReporter
    installer: BackendInstaller
    files: ModelFiles
    processes: ProcessSupervisor
    boot_id: str
    # None: this worker executes no runs.
    runs: RunExecutor | None = None


class RunCommandHandler:
    """Handles the bus commands of a worker that executes runs. Implements `bus_link.CommandHandler`.

    A worker that has backends too subscribes through `BackendCommandHandler`, which shares the commands about runs.
    """

    def __init__(self, runs: RunExecutor, boot_id: str) -> None:
        self._runs = runs
        self._boot_id = boot_id
        self._node_id = ""

    async def subscribe(self, bus: Bus, node_id: str) -> None:
        await self.subscribe_to_runs(bus, node_id)
        await bus.subscribe(subjects.JOBS_GET, self._on_jobs, node=node_id)
        await bus.subscribe(subjects.JOBS_CANCEL, self._on_cancel, node=node_id)

    async def subscribe_to_runs(self, bus: Bus, node_id: str) -> None:
        """Receive only the commands that are about runs alone."""
        self._node_id = node_id
        await bus.subscribe(subjects.RUN_START, self._on_start_run, node=node_id)
        await bus.subscribe(subjects.RUN_WAKE, self._on_wake_run, node=node_id)
        await bus.subscribe(subjects.MCP_CALL, self._on_call_mcp_server, node=node_id)

    def on_connect(self) -> None:
        return

    def on_registered(self) -> None:
        self._runs.prepare()

    async def on_removed(self) -> None:
        await self._runs.abandon_runs()

    async def _on_start_run(self, delivery: Delivery[StartRun]) -> JobAcceptedReply:
        return self._runs.accept(delivery.message, self._node_id)

    async def _on_call_mcp_server(self, delivery: Delivery[CallMcpServer]) -> CallMcpServerReply:
        return await self._runs.mcp_caller.call(delivery.message, self._node_id)

    async def _on_wake_run(self, delivery: Delivery[WakeRun]) -> None:
        self._runs.wake_run(delivery.message.run_id)

    async def _on_jobs(self, delivery: Delivery[GetJobs]) -> GetJobsReply:
        ids = delivery.message.job_ids
        found = [self._runs.find_job(job_id) for job_id in ids] if ids else self._runs.list_jobs()
        return GetJobsReply(boot_id=self._boot_id, jobs=tuple(event for event in found if event is not None))

    async def _on_cancel(self, delivery: Delivery[CancelJob]) -> CancelJobReply:
        return CancelJobReply(boot_id=self._boot_id, job=self._runs.cancel(delivery.message.job_id))


class BackendCommandHandler:
    """Handles the bus commands of a worker that has engine backends and models.

    Implements `bus_link.CommandHandler`.
    """

    def __init__(self, deps: CommandHandlerDeps) -> None:
        self._deps = deps
        self._node_id = ""
        self._run_handler = RunCommandHandler(deps.runs, deps.boot_id) if deps.runs is not None else None

    async def subscribe(self, bus: Bus, node_id: str) -> None:
        self._node_id = node_id
        if self._run_handler is not None:
            await self._run_handler.subscribe_to_runs(bus, node_id)
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
        if self._run_handler is not None:
            self._run_handler.on_registered()
        self._deps.backend_reporter.wake()
        self._deps.holdings_reporter.wake()

    async def on_removed(self) -> None:
        if self._run_handler is not None:
            await self._run_handler.on_removed()
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
        query, runs = delivery.message, self._deps.runs
        if runs is None:
            return await self._deps.runner.list_jobs(query)
        found = {job_id: runs.find_job(job_id) for job_id in query.job_ids}
        events = tuple(event for event in found.values() if event is not None) if found else runs.list_jobs()
        rest = tuple(job_id for job_id, event in found.items() if event is None)
        if found and not rest:
            return GetJobsReply(boot_id=self._deps.boot_id, jobs=events)
        others = await self._deps.runner.list_jobs(GetJobs(job_ids=rest))
        return GetJobsReply(boot_id=self._deps.boot_id, jobs=(*events, *others.jobs))

    async def _on_cancel(self, delivery: Delivery[CancelJob]) -> CancelJobReply:
        command, runs = delivery.message, self._deps.runs
        run_event = runs.cancel(command.job_id) if runs is not None else None
        if run_event is not None:
            return CancelJobReply(boot_id=self._deps.boot_id, job=run_event)
        return await self._deps.runner.cancel(command)

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
