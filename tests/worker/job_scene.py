"""One worker's jobs on a pretend disk and a simulated bus, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from corral.bus import subjects
from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    CancelJobReply,
    GetJobs,
    JobAcceptedReply,
    JobEvent,
    LoadModel,
    ModelFileItem,
)
from corral.bus.subjects import JOB_EVENT, BusRole, SubjectSpec
from corral.domain.operation import JobState
from corral.ports.bus import Delivery
from corral.worker.command_handler import BackendCommandHandler, CommandHandlerDeps
from corral.worker.control_reporter import BackendReporter, HoldingsReporter
from corral.worker.jobs.runner import JobRunner, JobRunnerDeps
from tests.simulation.bus import SimBus
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.network import Network
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.worker.pretend_work import (
    MIB,
    PretendDisk,
    PretendFiles,
    PretendInstaller,
    PretendJournal,
    PretendProcesses,
    wire_build,
)
from tests.worker.standin import PretendFrontend

Q = TypeVar("Q")
R = TypeVar("R")

NODE = "node-1"
CPU = "cpu-llama-cpp"
CUDA = "cuda-llama-cpp"


class JobScene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = SimClock(loop)
        self.network = Network(loop, chance(loop.seed, "network"))
        self.frontend_bus = SimBus(loop, self.network, role=BusRole.FRONTEND, owner_id="f1")
        self.frontend = PretendFrontend(self.clock)
        self.disk = PretendDisk()
        self.max_parallel = 4
        # The reports that a frontend has received.
        self.events: list[JobEvent] = []
        self._lives = 0
        self.worker_bus: SimBus | None = None
        self._runner: JobRunner | None = None

    @property
    def runner(self) -> JobRunner:
        assert self._runner is not None, "no worker runs"
        return self._runner

    async def open(self) -> None:
        await self.frontend_bus.start()
        await self.frontend_bus.subscribe(JOB_EVENT, self._on_event)
        await self.until(lambda: self.frontend_bus.is_connected)

    async def start(self, *, on_bus: bool = True, is_registered: bool = True) -> None:
        """A new life of the worker, on the same disk."""
        self._lives += 1
        boot_id = f"boot-{self._lives}"
        rng = chance(self.loop.seed, boot_id)
        self.installer = PretendInstaller(self.disk, self.clock)
        self.files = PretendFiles(self.disk, self.clock)
        self.processes = PretendProcesses(self.clock)
        self.journal = PretendJournal(self.disk)
        self._runner = JobRunner(
            JobRunnerDeps(
                installer=self.installer,
                files=self.files,
                processes=self.processes,
                journal=self.journal,
                clock=self.clock,
                rng=rng,
                boot_id=boot_id,
                max_parallel=self.max_parallel,
            )
        )
        self.reports = BackendReporter(
            self.frontend, self.runner.get_inventory, boot_id=boot_id, clock=self.clock, rng=rng
        )
        self.holdings = HoldingsReporter(
            self.frontend, self.processes, self.files, boot_id=boot_id, clock=self.clock, rng=rng
        )
        self.runner.on_change = self.reports.wake
        self.commands = BackendCommandHandler(
            CommandHandlerDeps(
                runner=self.runner,
                backend_reporter=self.reports,
                holdings_reporter=self.holdings,
                installer=self.installer,
                files=self.files,
                processes=self.processes,
                boot_id=boot_id,
            )
        )
        await self.runner.start()
        if is_registered:
            await self.runner.serve_node(NODE)
        if on_bus:
            await self.join()

    async def join(self) -> None:
        bus = SimBus(self.loop, self.network, role=BusRole.WORKER, owner_id=NODE)
        self.worker_bus = bus
        await self.commands.subscribe(bus, NODE)

        async def reread() -> None:
            self.commands.on_connect()

        bus.on_reconnect(reread)
        await bus.start()
        await self.until(lambda: bus.is_connected)

    async def kill(self) -> None:
        """The process is gone: nothing of it writes or speaks any more."""
        disk, self.disk.jobs = self.disk.jobs.copy(), {}
        if self.worker_bus is not None:
            await self.worker_bus.stop()
        await self.runner.stop()
        self._runner = None
        self.disk.jobs = disk

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.stop()
            await self.reports.stop()
            await self.holdings.stop()
        if self.worker_bus is not None:
            await self.worker_bus.stop()
        await self.frontend_bus.stop()

    # --- what a frontend does ---

    async def ask(self, spec: SubjectSpec[Q, R], message: Q) -> R:
        return await self.frontend_bus.request(spec, message, node=NODE)

    async def install(self, job_id: str, generation: int, name: str = CPU, **more: Any) -> JobAcceptedReply:
        version = more.pop("version", "1")
        force = more.pop("force", False)
        command = BackendCommand(
            job_id=job_id,
            generation=generation,
            backend=name,
            build=wire_build(name, version, **more),
            operation_id=f"operation of {job_id}",
            force=force,
        )
        return await self.ask(subjects.BACKEND_INSTALL, command)

    async def upgrade(self, job_id: str, generation: int, name: str = CPU, version: str = "2") -> JobAcceptedReply:
        command = BackendCommand(job_id=job_id, generation=generation, backend=name, build=wire_build(name, version))
        return await self.ask(subjects.BACKEND_UPGRADE, command)

    async def delete(self, job_id: str, generation: int, name: str = CPU) -> JobAcceptedReply:
        return await self.ask(
            subjects.BACKEND_DELETE, BackendCommand(job_id=job_id, generation=generation, backend=name)
        )

    async def load(self, job_id: str, **more: Any) -> JobAcceptedReply:
        return await self.ask(subjects.MODEL_LOAD, load_of(job_id, **more))

    async def cancel(self, job_id: str, *, keeps_partial: bool = False) -> CancelJobReply:
        return await self.ask(subjects.JOBS_CANCEL, CancelJob(job_id=job_id, keeps_partial=keeps_partial))

    async def get(self, *job_ids: str) -> dict[str, JobEvent]:
        answer = await self.ask(subjects.JOBS_GET, GetJobs(job_ids=job_ids))
        return {event.job_id: event for event in answer.jobs}

    # --- what the test looks at ---

    def list_events(self, job_id: str) -> list[JobEvent]:
        return [event for event in self.events if event.job_id == job_id]

    async def end_of(self, job_id: str, *, limit_s: float = 600.0) -> JobEvent:
        """The last word about a job, as a frontend hears it."""

        def has_ended() -> bool:
            job_events = self.list_events(job_id)
            return bool(job_events) and JobState(job_events[-1].state).is_final

        await self.until(has_ended, limit_s=limit_s)
        return self.list_events(job_id)[-1]

    async def until(self, is_true: Callable[[], bool], *, limit_s: float = 600.0) -> float:
        began = self.clock.monotonic()
        while not is_true():
            assert self.clock.monotonic() - began < limit_s, "it did not become true"
            await self.clock.sleep(0.01)
        return self.clock.monotonic() - began

    async def _on_event(self, delivery: Delivery[JobEvent]) -> None:
        self.events.append(delivery.message)


def load_of(job_id: str, **more: Any) -> LoadModel:
    """One replica of `qwen`, of 8 MiB, on an engine that is not there yet."""
    values: dict[str, Any] = {
        "model": "qwen",
        "replica": 0,
        "revision": "r1",
        "backend": CPU,
        "build": wire_build(CPU),
        "files": (ModelFileItem(path="qwen.gguf", sha256="a" * 64, size_bytes=8 * MIB),),
        "entry": "qwen.gguf",
        "operation_id": f"operation of {job_id}",
    }
    return LoadModel(job_id=job_id, **(values | more))


def play(story: Callable[[JobScene], Awaitable[None]], seed: int = 0) -> None:
    """The story on one seed, with a worker that runs and is on the bus."""

    async def scenario(loop: VirtualLoop) -> None:
        scene = JobScene(loop)
        await scene.open()
        await scene.start()
        try:
            await story(scene)
        finally:
            await asyncio.shield(scene.close())

    simulate(seed, scenario)
