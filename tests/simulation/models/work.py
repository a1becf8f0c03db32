"""What a worker does about models on a simulated machine: the product's jobs and commands on pretended files and
engines.

The engines belong to the machine (`host.py`); what is here belongs to one process of the worker, and does nothing any
more once that process is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from typing_extensions import override

from corral.bus.messages import (
    BlobSource,
    DeleteModelReply,
    ModelFileItem,
    ReadLog,
    ReadLogReply,
    RunningProcess,
    StartBackend,
)
from corral.domain.errors import NotFound, Unavailable
from corral.domain.operation import JobPhase
from corral.runtime.services import Service, ServiceGroup
from corral.worker.bus_link import CommandHandler
from corral.worker.control_plane import HttpControlPlane
from corral.worker.job_ports import HeldFiles, JobProgressListener, ModelFiles, ProcessSupervisor
from corral.worker.processes.process_control import AddressMismatch, ProcessBeingStopped, ProcessStopFailed
from tests.simulation.clock import SimClock
from tests.simulation.models.host import Engine, Host
from tests.simulation.operations.work import Life, MachineWork
from tests.simulation.worlds import SimulationDeps
from tests.worker.pretend_work import MIB, PretendFiles

# Moments of a load at which the power may go; the last one is when the engine is ready and nobody knows it.
STAGING, STARTING, LOADING, STARTED = "staging", "starting", "loading", "started"
# Files of models come so much faster than backends.
FILE_SPEED = 8.0
CanGet = Callable[[str, str, tuple[BlobSource, ...]], bool]


class ModelsWork(MachineWork):
    """Does the work of one machine. `can_get(reader, sha256, places)`: whether a source gives a content to it now."""

    def __init__(self, host: Host, around: SimulationDeps, can_get: CanGet) -> None:
        super().__init__(host.name, around)
        self.host = host
        self.can_get = can_get
        self.mood = replace(self.mood, passing=min(self.mood.passing, 0.05), lasting=0.0)
        # Whether the next end of the worker is its own only.
        self.engines_survive = False

    @override
    def processes(self, life: Life) -> ProcessSupervisor:
        self._processes = SimProcesses(self.host, life)
        self.host.has_power = self.host.has_worker = True
        return self._processes

    @override
    def files(self, life: Life) -> ModelFiles:
        return SimFiles(self, life)

    @override
    def services(self, place: Callable[[], str | None]) -> tuple[Service, ...]:
        return (self._processes, *super().services(place))

    @override
    def power_cut(self) -> None:
        super().power_cut()
        self.host.has_worker = False
        if not self.engines_survive:
            self.host.power_cut()
        self.engines_survive = False

    @override
    def begin(self, control: HttpControlPlane, boot_id: str, services: ServiceGroup) -> CommandHandler:
        # What crashed while no worker was there is not taken up again.
        self.host.engines = {key: each for key, each in self.host.engines.items() if each.is_alive}
        return super().begin(control, boot_id, services)

    def now_s(self) -> float:
        return self._around.now()


class SimProcesses:
    """Runs the engines of one worker process, as a service. Implements `worker.work.Processes`."""

    name = "engines"

    def __init__(self, host: Host, life: Life) -> None:
        self._host = host
        self._life = life
        self._clock: SimClock = life.machine.clock
        self.on_change: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Find the engines that an earlier process has left."""
        self._host.on_change = self._tell

    async def stop(self) -> None:
        await self.stop_backend(None)

    def _tell(self) -> None:
        if not self._life.is_dead:
            self.on_change()

    def _check(self) -> None:
        if self._life.is_dead:
            raise asyncio.CancelledError

    async def start_backend(self, command: StartBackend, progress: JobProgressListener) -> RunningProcess:
        key = f"{command.model}#{command.replica}"
        progress.on_phase(JobPhase.STARTING)
        await self._clock.sleep(0.01)
        self._reached(STARTING)
        while (old := self._host.engines.get(key)) is not None:
            if old.is_stopping:
                raise ProcessBeingStopped(f"{key} is being stopped; try again when it has ended.")
            if old.is_alive and (old.command.revision, old.command.backend) == (command.revision, command.backend):
                progress.on_phase(JobPhase.LOADING)
                return await self._started(old)
            await self._end(old)
        self._check()
        engine = self._host.launch(command, "1")
        progress.on_phase(JobPhase.LOADING)
        await self._clock.sleep(0.01)
        self._reached(LOADING)
        return await self._started(engine)

    async def _started(self, engine: Engine) -> RunningProcess:
        engine.waiters += 1
        try:
            await engine.settled.wait()
        except asyncio.CancelledError:
            if engine.waiters == 1 and not engine.settled.is_set() and not self._life.is_dead:
                self._host.end(engine, "is not needed any more")
            raise
        finally:
            engine.waiters -= 1
        self._check()
        self._reached(STARTED)
        if engine.fault is not None:
            raise engine.fault
        return engine.describe()

    def _reached(self, moment: str) -> None:
        self._life.machine.reached(moment, self._life)

    async def stop_backend(
        self, backend: str | None, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        chosen = [each for each in self._host.engines.values() if backend is None or each.command.backend == backend]
        for engine in chosen:
            if engine.is_stopping:
                await engine.ended.wait()
            else:
                await self._end(engine)
        return tuple(engine.key for engine in chosen), ()

    async def stop_process(self, key: str, *, expected_address: str = "", force: bool = False) -> tuple[bool, str]:
        engine = self._host.engines.get(key)
        if engine is None:
            return False, ""
        if expected_address and engine.address != expected_address:
            raise AddressMismatch(f"{key} listens on {engine.address}.", details={"address": engine.address})
        if engine.is_stopping:
            raise ProcessBeingStopped(f"{key} is being stopped.")
        if self._host.is_stubborn:
            await self._clock.sleep(self._host.stop_pause_s())
            raise ProcessStopFailed(f"{key} could not be ended.")
        await self._end(engine)
        return True, engine.address

    async def _end(self, engine: Engine) -> None:
        # A process that was killed does not tidy up on its way out.
        self._check()
        engine.is_stopping = True
        self._tell()
        try:
            await self._clock.sleep(self._host.stop_pause_s())
        finally:
            # A stop that was begun comes to its end, whatever becomes of the one who asked for it. With its worker
            # dead, the engine has got the signal all the same.
            self._host.end(engine, "was stopped")

    def list_running(self) -> tuple[RunningProcess, ...]:
        return tuple(each.describe() for _, each in sorted(self._host.engines.items()) if not each.is_stopping)

    async def measure_running(self) -> tuple[RunningProcess, ...]:
        return self.list_running()

    async def read_log(self, query: ReadLog) -> ReadLogReply:
        raise NotFound(f"There is no log of {query.key}.", code="log_not_found")


class SimFiles(PretendFiles):
    """Fetches files from sources that have them, chunk by chunk, in virtual time."""

    def __init__(self, work: ModelsWork, life: Life) -> None:
        super().__init__(work.disk, work.clock, bytes_per_s=work.mood.bytes_per_s * FILE_SPEED)
        self._work = work
        self._life = life
        self._places: dict[str, tuple[BlobSource, ...]] = {}

    @override
    async def ensure_files(
        self,
        model: str,
        revision: str,
        files: tuple[ModelFileItem, ...],
        sources: tuple[BlobSource, ...],
        progress: JobProgressListener,
    ) -> Path:
        for file in files:
            self._places[file.sha256] = sources
        if self.at_work[model]:
            self._work.violated(f"two jobs fetch {model} at once")
        return await super().ensure_files(model, revision, files, sources, progress)

    @override
    async def _fetch(self, file: ModelFileItem, report: JobProgressListener, total: int, digests: set[str]) -> None:
        there = self.disk.blobs.get(file.sha256, (0, 0))[1]
        if there < file.size_bytes and not self._work.can_get(self._work.name, file.sha256, self._places[file.sha256]):
            await self.clock.sleep(2.0)
            raise Unavailable("Nobody gives this content.", code="source_unavailable")
        self._work.reached(STAGING, self._life)
        await super()._fetch(file, report, total, digests)
        if self._life.is_dead:
            raise asyncio.CancelledError

    @override
    async def delete(self, model: str) -> DeleteModelReply:
        if self._life.is_dead:
            raise asyncio.CancelledError
        return await super().delete(model)

    @override
    async def list_holdings(self) -> HeldFiles:
        await self.clock.sleep(0.05)
        return await super().list_holdings()


def damage(work: ModelsWork, number: int) -> None:
    """Mark a content on this machine's disk as damaged: it has to be fetched again."""
    whole = sorted(sha256 for sha256, (size, there) in work.disk.blobs.items() if there == size)
    if whole:
        sha256 = whole[number % len(whole)]
        work.disk.blobs[sha256] = (work.disk.blobs[sha256][0], 0)


__all__ = ["LOADING", "MIB", "STAGING", "STARTED", "STARTING", "ModelsWork", "SimProcesses", "damage"]
