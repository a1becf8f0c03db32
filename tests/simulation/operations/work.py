"""What a simulated machine does for jobs: the product's runner, commands and reports on a pretend disk.

The disk outlives the process; its installer takes virtual time for every phase and fails when the seed says so. A
power cut freezes the disk as it is: whatever still runs of the process cannot write. The ledger says what truly
happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from typing_extensions import override

from corral.domain.backend import Build, InstalledBackend
from corral.domain.errors import Conflict, CorralError, Unavailable
from corral.domain.operation import JobPhase, JobState
from corral.runtime.services import Service, ServiceGroup
from corral.worker.bus_link import CommandHandler
from corral.worker.command_handler import BackendCommandHandler, CommandHandlerDeps
from corral.worker.control_plane import HttpControlPlane
from corral.worker.control_reporter import BackendReporter, HoldingsReporter
from corral.worker.job_ports import JobProgressListener, ModelFiles, ProcessSupervisor
from corral.worker.jobs.journal import JobRecord, JournalNotWritten
from corral.worker.jobs.runner import JobRunner, JobRunnerDeps
from tests.simulation.chance import Random
from tests.simulation.clock import SimClock
from tests.simulation.worlds import SimulationDeps
from tests.worker.pretend_work import MIB, PretendDisk, PretendFiles, PretendInstaller, PretendJournal, PretendProcesses

SWAPPED = "swapped"
PHASE_LONGEST_S = 1.5
STOP_WITHIN_S = 3.0


@dataclass(slots=True)
class Ledger:
    """Records what happened on one machine, over all its lives."""

    # Operations of which a job was ever accepted here.
    operations: set[str] = field(default_factory=set)
    # Which jobs have carried out each generation, and when.
    done: dict[int, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBehaviour:
    """Says how fast a machine's line is today, and how often its work fails."""

    bytes_per_s: float
    passing: float
    lasting: float
    journal_full: float

    @classmethod
    def of(cls, rng: Random) -> MachineBehaviour:
        return cls(
            bytes_per_s=rng.choice((0.3, 0.6, 2.0, 8.0)) * MIB,
            # Now and then a source is down for good: ten failures, and it is put aside.
            passing=rng.choice((0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.2, 0.2, 0.9)),
            lasting=rng.choice((0.0, 0.0, 0.0, 0.05)),
            journal_full=rng.choice((0.0, 0.0, 0.0, 0.03)),
        )


class MachineWork:
    """Does the jobs of one machine; made once for it. Implements `workers.Work`."""

    def __init__(self, name: str, around: SimulationDeps) -> None:
        self.name = name
        self.disk = PretendDisk()
        self.ledger = Ledger()
        self._around = around
        self._rng = around.rng(f"work of {name}")
        self.mood = MachineBehaviour.of(self._rng)
        self.clock = SimClock(around.loop)
        self._moment: str | None = None
        self._strike: Callable[[], None] = lambda: None
        self._life: Life | None = None
        self.runner: JobRunner | None = None
        self._reports: tuple[BackendReporter | HoldingsReporter, ...] = ()

    def begin(self, control: HttpControlPlane, boot_id: str, services: ServiceGroup) -> CommandHandler:
        life = Life(self, boot_id)
        self._life = life
        rng = self._around.rng(f"jitter of the work of {boot_id}")
        processes, files = self.processes(life), self.files(life)
        runner = JobRunner(
            JobRunnerDeps(
                installer=life.installer,
                files=files,
                processes=processes,
                journal=life.journal,
                clock=self.clock,
                rng=rng,
                boot_id=boot_id,
                max_parallel=2,
                on_crash=services.request_stop,
            )
        )
        reports = BackendReporter(control, runner.get_inventory, boot_id=boot_id, clock=self.clock, rng=rng)
        holdings = HoldingsReporter(control, processes, files, boot_id=boot_id, clock=self.clock, rng=rng)
        for each in (reports, holdings):
            each.loop.on_crash = services.request_stop
        runner.on_change = reports.wake
        self.runner, self._reports = runner, (reports, holdings)
        return BackendCommandHandler(
            CommandHandlerDeps(
                runner=runner,
                backend_reporter=reports,
                holdings_reporter=holdings,
                installer=life.installer,
                files=files,
                processes=processes,
                boot_id=boot_id,
            )
        )

    def processes(self, life: Life) -> ProcessSupervisor:
        return PretendProcesses(self.clock)

    def files(self, life: Life) -> ModelFiles:
        return PretendFiles(self.disk, self.clock)

    def services(self, place: Callable[[], str | None]) -> tuple[Service, ...]:
        assert self.runner is not None, "nothing has begun"
        for reports in self._reports:
            reports.get_node_id = place
        return (self.runner, *self._reports)

    def power_cut(self) -> None:
        if self._life is not None:
            self._life.is_dead = True
        self._life = self.runner = None

    def lie_in_wait(self, moment: str | None, strike: Callable[[], None]) -> None:
        self._moment, self._strike = moment, strike

    def unfinished(self) -> list[str]:
        """Return the jobs that this process has not ended, with their operations."""
        if self.runner is None:
            return []
        return [f"{job.id} of {job.event.operation_id}" for job in self.runner._table.list_unfinished()]

    def reached(self, moment: str, life: Life) -> None:
        """Note that a job is at this moment, at which the power may be cut."""
        if self._moment == moment and not life.is_dead:
            self._around.trace.add(f"{self.name} loses its power: {moment}")
            self._moment = None
            self.power_cut()
            self._strike()
        if life.is_dead:
            raise asyncio.CancelledError

    def done(self, record: JobRecord) -> None:
        """Note that a job has succeeded. One command is carried out by one job, however often it was sent."""
        if not record.kind.is_change:
            return
        jobs = self.ledger.done.setdefault(record.event.generation, {})
        jobs.setdefault(record.job_id, self._around.now())
        if len(jobs) > 1:
            self.violated(f"generation {record.event.generation} was carried out by the jobs {sorted(jobs)}")

    def went_on(self, job_id: str, since_s: float) -> bool:
        """Return whether a job succeeded although its worker had received a request to stop it."""
        if self.mood.journal_full:
            # A stop that could not be written down may be forgotten with a crash.
            return False
        ends = [at_s for jobs in self.ledger.done.values() for job, at_s in jobs.items() if job == job_id]
        return any(at_s > since_s + STOP_WITHIN_S for at_s in ends)

    def violated(self, sentence: str) -> None:
        self._around.violated(f"{self.name}: {sentence}")

    def fault(self, phase: JobPhase) -> CorralError | OSError | None:
        """Return the error of this phase, if one strikes."""
        if phase in (JobPhase.RESOLVING, JobPhase.DOWNLOADING) and self._strikes(self.mood.passing):
            return Unavailable("The source does not respond.", code="source_unavailable")
        if phase is JobPhase.EXTRACTING and self._strikes(self.mood.lasting):
            return OSError(28, "No space left on device")
        if phase is JobPhase.CHECKING and self._strikes(self.mood.lasting):
            return Conflict("The check of the new version failed.", code="check_failed")
        return None

    def journal_fault(self) -> bool:
        return self._strikes(self.mood.journal_full)

    def pause_s(self) -> float:
        return self._rng.uniform(0, PHASE_LONGEST_S)

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability


class Life:
    """Leads one process of the machine to the disk, until the process ends."""

    def __init__(self, machine: MachineWork, boot_id: str) -> None:
        self.machine = machine
        self.boot_id = boot_id
        self.is_dead = False
        self.journal = SimJournal(self)
        self.installer = SimInstaller(self)


class SimJournal(PretendJournal):
    def __init__(self, life: Life) -> None:
        super().__init__(life.machine.disk)
        self._life = life

    @override
    async def save(self, record: JobRecord) -> None:
        self._check()
        job_id, machine, ledger = record.job_id, self._life.machine, self._life.machine.ledger
        before, now = self._disk.jobs.get(job_id), record.event.state
        if before is not None and before.event.state == JobState.DONE and now != JobState.DONE:
            machine.violated(f"job {job_id} was done and became {now}")
        if before is not None and record.event.seq < before.event.seq:
            machine.violated(f"the numbers of job {job_id} go back from {before.event.seq} to {record.event.seq}")
        await super().save(record)
        ledger.operations.add(record.event.operation_id)
        if now == JobState.DONE:
            machine.done(record)

    @override
    async def forget(self, job_id: str) -> None:
        if not self._life.is_dead:
            await super().forget(job_id)

    @override
    def _check(self) -> None:
        if self._life.is_dead:
            raise JournalNotWritten("The power is gone.")
        if self._life.machine.journal_fault():
            raise JournalNotWritten("The disk of the journal is full.")


class SimGates:
    """Delays every phase by the seed, and fails some. Implements `pretend_work.Gates`."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def enter(self, backend: str, phase: JobPhase, report: JobProgressListener) -> None:
        machine = self._life.machine
        report.on_phase(phase)
        await machine.clock.sleep(machine.pause_s())
        machine.reached(str(phase), self._life)
        fault = machine.fault(phase)
        if fault is not None:
            raise fault


class SimInstaller(PretendInstaller):
    def __init__(self, life: Life) -> None:
        machine = life.machine
        super().__init__(machine.disk, machine.clock, bytes_per_s=machine.mood.bytes_per_s)
        self._life = life
        self.gates = SimGates(life)  # type: ignore[assignment]  # the one method that is used

    @override
    async def install(
        self,
        build: Build,
        *,
        generation: int,
        replaces: bool,
        before_swap: Callable[[], Awaitable[None]],
        progress: JobProgressListener,
    ) -> InstalledBackend:
        self._check_alone(build.name)
        return await super().install(
            build, generation=generation, replaces=replaces, before_swap=before_swap, progress=progress
        )

    @override
    async def remove(self, name: str, *, generation: int, progress: JobProgressListener) -> None:
        self._check_alone(name)
        await super().remove(name, generation=generation, progress=progress)
        self._check_newest(name, generation)
        self._life.machine.reached(SWAPPED, self._life)

    @override
    async def discard(self, build: Build) -> None:
        if not self._life.is_dead:
            await super().discard(build)

    @override
    def _swap(self, build: Build, generation: int) -> InstalledBackend:
        self._check_newest(build.name, generation)
        made = super()._swap(build, generation)
        self._life.machine.reached(SWAPPED, self._life)
        return made

    def _check_newest(self, name: str, generation: int) -> None:
        there = self.disk.installed.get(name)
        newest = max(there.generation if there else 0, self.disk.removed.get(name, 0))
        if generation < newest:
            self._life.machine.violated(f"{name} was changed for {generation}, an older generation than {newest}")

    def _check_alone(self, name: str) -> None:
        if self.at_work[name]:
            self._life.machine.violated(f"two jobs work on {name} at once")
