"""What each kind of job does, in its turn.

Guarantee: processes are ended only of the concrete backend that is replaced or removed, only at the moment of the
swap, and which ones is noted before anything else happens. One that cannot be ended keeps its backend: `stop_failed`.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import structlog

from corral.bus.messages import BackendCommand, LoadModel, StageModel, StartBackend
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict, CorralError
from corral.domain.operation import Fault, Phase
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks
from corral.worker.jobs.loading import Loading
from corral.worker.jobs.record import JobKind
from corral.worker.jobs.telling import Job
from corral.worker.jobs.turns import Turns
from corral.worker.processes.keys import ProcessKey
from corral.worker.work import Files, Installer, Processes

log = structlog.get_logger(__name__)

# The last lines of an engine's output fit; a page of HTML does not.
MAX_ERROR_CHARACTERS = 4000
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What jobs work with."""

    installer: Installer
    files: Files
    processes: Processes


class Doing:
    """`save` writes a job to the journal."""

    def __init__(self, tools: Tools, turns: Turns, tasks: Tasks, save: Callable[[Job], Awaitable[None]]) -> None:
        self.installer = tools.installer
        self.processes = tools.processes
        self.turns = turns
        self.tasks = tasks
        self.save = save
        self.loading = Loading(
            installer=tools.installer,
            files=tools.files,
            processes=tools.processes,
            turns=turns,
            install=self._install_missing,
            save=save,
        )

    async def do(self, job: Job) -> dict[str, str]:
        """What came out of it."""
        match job.command:
            case StartBackend() as wish:
                return await self._start(job, wish)
            case LoadModel() as wish:
                return await self.loading.load(job, wish)
            case StageModel() as wish:
                return await self.loading.stage(job, wish)
            case command:
                return await self._change_in_turn(job, command)

    async def _change_in_turn(self, job: Job, command: BackendCommand) -> dict[str, str]:
        async with self.turns.change(job.backend):
            job.running()
            try:
                # New starts are held back from the swap on, until the job is over.
                with ExitStack() as at_the_end:
                    return await self._change(job, command, at_the_end)
            except asyncio.CancelledError:
                if job.stop_asked.is_set() and not job.keeps_partial:
                    # Before the next one has its turn, which may fetch the same.
                    await self.discard(job)
                raise

    async def discard(self, job: Job) -> None:
        """Throw away what was fetched for it. Only in its turn."""
        build = job.build
        if build is None or job.has_discarded:
            return
        job.has_discarded = True
        outcome = await attempt(lambda: self.installer.discard(build))
        if isinstance(outcome, Failed):
            log.warning("what a job had fetched stays for now", job=job.id, problem=outcome.sentence)

    def done(self, job: Job) -> dict[str, str] | None:
        """What came of a change that is in place already: told by nobody yet, because of a kill or a stop that came
        after the swap. Done twice, a rollback would be undone."""
        if not job.kind.is_change or job.kind is JobKind.DELETE or not job.generation:
            return None
        there = (each for each in self.installer.installed() if each.name == job.backend)
        found = next((each for each in there if each.generation == job.generation), None)
        return None if found is None else _result(found)

    async def _change(self, job: Job, command: BackendCommand, at_the_end: ExitStack) -> dict[str, str]:
        async def before_swap() -> None:
            await self._stop_processes(job, at_the_end)

        generation = command.generation
        done = self.done(job) if job.lives > 1 else None
        if done is not None:
            return done
        match job.kind:
            case JobKind.INSTALL | JobKind.UPGRADE:
                assert job.build is not None, "such a command is not accepted without a build"
                replaces = command.force or job.kind is JobKind.UPGRADE
                return _result(
                    await self.installer.install(
                        job.build, generation=generation, replaces=replaces, before_swap=before_swap, report=job
                    )
                )
            case JobKind.ROLLBACK:
                return _result(
                    await self.installer.roll_back(
                        job.backend, generation=generation, before_swap=before_swap, report=job
                    )
                )
            case _:
                self._refuse_system(job.backend)
                await before_swap()
                job.phase(Phase.REMOVING)
                await self.installer.remove(job.backend, generation=generation, report=job)
                return {}

    async def _install_missing(self, job: Job) -> None:
        """For a load: as an installation, without an assignment, and only if nobody has done it meanwhile."""
        build = job.build
        assert build is not None, "there is something to install"
        async with self.turns.change(job.backend):
            if self.installer.resolve(job.backend) is not None:
                return
            with ExitStack() as at_the_end:

                async def before_swap() -> None:
                    await self._stop_processes(job, at_the_end)

                await self.installer.install(build, generation=0, replaces=False, before_swap=before_swap, report=job)

    async def _start(self, job: Job, wish: StartBackend) -> dict[str, str]:
        key = ProcessKey(model=wish.model or wish.backend, replica=wish.replica)
        async with self.loading.turn(str(key)):
            return await self._start_in_turn(job, wish)

    async def _start_in_turn(self, job: Job, wish: StartBackend) -> dict[str, str]:
        if self.installer.resolve(job.backend) is None:
            await self.turns.after_changes(job.backend)
        await self.turns.until_startable(job.backend)
        job.running()
        job.phase(Phase.STARTING)
        # The name of what it was resolved to: an alias may mean something else by now.
        process = await self.processes.start_backend(replace(wish, backend=job.backend), job)
        return {
            "key": process.key,
            "address": process.address,
            "backend": process.backend,
            "version": process.version,
        }

    async def _stop_processes(self, job: Job, at_the_end: ExitStack) -> None:
        job.phase(Phase.STOPPING)
        at_the_end.enter_context(self.turns.no_starts(job.backend))
        stopping = self.tasks.start(self.processes.stop_backend(job.backend), name=f"stop processes of {job.backend}")
        try:
            stopped, survivors = await asyncio.shield(stopping)
        except asyncio.CancelledError:
            # Which processes have ended must be told, whatever becomes of the job.
            await asyncio.wait({stopping})
            if not stopping.cancelled() and stopping.exception() is None:
                job.has_stopped(stopping.result()[0])
            raise
        job.has_stopped(stopped)
        if stopped:
            await self.save(job)
        if survivors:
            raise Conflict(
                f"{', '.join(survivors)} could not be ended, so {job.backend} stays as it is.",
                hint="Look at the process on the machine; end it by hand, then try again.",
                code="stop_failed",
            )

    def _refuse_system(self, backend: str) -> None:
        if any(each.name == backend and each.is_system for each in self.installer.installed()):
            raise Conflict(f"{backend} came with the machine; Corral does not remove it.", code="system_backend")


def fault_of(error: Exception) -> Fault:
    """What the control plane is told."""
    if isinstance(error, CorralError):
        return Fault(code=error.slug, text=error.message[:MAX_ERROR_CHARACTERS])
    if isinstance(error, OSError) and error.errno in _FULL:
        return Fault(code="disk_full", text=f"The disk is full: {error.strerror}.")
    return Fault(code="internal", text=f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS])


def _result(installed: InstalledBackend) -> dict[str, str]:
    return {"version": installed.version, "digest": installed.digest, "uri": installed.uri}
