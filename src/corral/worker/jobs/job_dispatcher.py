"""Runs the work of each kind of job, in its turn.

Guarantee: processes are ended only of the concrete backend that is replaced or removed, only at the moment of the swap,
and which ones is recorded before anything else happens. If one cannot be ended, its backend stays: `stop_failed`.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from corral.bus.messages import BackendCommand, LoadModel, RunningProcess, StageModel, StartBackend
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict, CorralError, NotFound, Unprocessable
from corral.domain.operation import Fault, JobPhase
from corral.policy.models.adapters import locate_adapters
from corral.policy.models.configuration import ADAPTERS_OPTION
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.worker.job_ports import BackendInstaller, ModelFiles, ProcessSupervisor
from corral.worker.jobs.job import ASSUMED_ENGINE_BYTES, MAX_UNFINISHED, KeyedLocks, WorkerJob, compute_load_windows
from corral.worker.jobs.journal import JobKind
from corral.worker.processes.journal import ProcessKey

log = structlog.get_logger(__name__)
# The last lines of an engine's output fit; a page of HTML does not.
MAX_ERROR_CHARACTERS = 4000
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
# An engine in these states serves requests, or would if it answered; only an explicit stop ends it.
_SERVING_STATES = ("ready", "unhealthy")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDispatcherDeps:
    """Dependencies of a worker's job dispatcher: backend installer, model files and process supervisor."""

    installer: BackendInstaller
    files: ModelFiles
    processes: ProcessSupervisor


class JobDispatcher:
    """Runs each job of a worker by its kind: changes a backend, starts an engine, or loads a model."""

    def __init__(
        self, deps: JobDispatcherDeps, locks: KeyedLocks, tasks: TaskSet, save: Callable[[WorkerJob], Awaitable[None]]
    ) -> None:
        self.installer = deps.installer
        self.processes = deps.processes
        self.locks = locks
        self.tasks = tasks
        self.save = save
        self.model_loader = ModelLoader(
            installer=deps.installer,
            files=deps.files,
            processes=deps.processes,
            backend_locks=locks,
            install=self._install_missing,
            save=save,
        )

    async def run_job(self, job: WorkerJob) -> dict[str, str]:
        """Run the job and return its result."""
        match job.command:
            case StartBackend() as command:
                return await self._start(job, command)
            case LoadModel() as command:
                return await self.model_loader.load(job, command)
            case StageModel() as command:
                return await self.model_loader.stage(job, command)
            case command:
                return await self._change_locked(job, command)

    async def _change_locked(self, job: WorkerJob, command: BackendCommand) -> dict[str, str]:
        async with self.locks.lock_change(job.backend):
            job.mark_running()
            try:
                # New starts are held back from the swap on, until the job is over.
                with ExitStack() as at_the_end:
                    return await self._change(job, command, at_the_end)
            except asyncio.CancelledError:
                if job.stop_requested.is_set() and not job.keeps_partial:
                    # Before the next job has its turn, which may fetch the same build.
                    await self.discard_downloads(job)
                raise

    async def discard_downloads(self, job: WorkerJob) -> None:
        """Delete what was downloaded for the job. Only in its turn."""
        build = job.build
        if build is None or job.has_discarded:
            return
        job.has_discarded = True
        outcome = await attempt(lambda: self.installer.discard(build))
        if isinstance(outcome, AttemptFailure):
            log.warning("the downloads of a job could not be removed", job=job.id, problem=outcome.sentence)

    def find_finished_result(self, job: WorkerJob) -> dict[str, str] | None:
        """Return the result of a change that is in place already but was not reported, because of a kill or a stop
        after the swap. Doing it twice would undo a rollback."""
        if not job.kind.is_change or job.kind is JobKind.DELETE or not job.generation:
            return None
        candidates = (each for each in self.installer.list_installed() if each.name == job.backend)
        found = next((each for each in candidates if each.generation == job.generation), None)
        return None if found is None else _make_result(found)

    async def _change(self, job: WorkerJob, command: BackendCommand, at_the_end: ExitStack) -> dict[str, str]:
        async def before_swap() -> None:
            await self._stop_processes(job, at_the_end)

        generation = command.generation
        finished = self.find_finished_result(job) if job.lives > 1 else None
        if finished is not None:
            return finished
        match job.kind:
            case JobKind.INSTALL | JobKind.UPGRADE:
                assert job.build is not None, "such a command is not accepted without a build"
                replaces = command.force or job.kind is JobKind.UPGRADE
                return _make_result(
                    await self.installer.install(
                        job.build, generation=generation, replaces=replaces, before_swap=before_swap, progress=job
                    )
                )
            case JobKind.ROLLBACK:
                return _make_result(
                    await self.installer.roll_back(
                        job.backend, generation=generation, before_swap=before_swap, progress=job
                    )
                )
            case _:
                self._refuse_system(job.backend)
                await before_swap()
                job.on_phase(JobPhase.REMOVING)
                await self.installer.remove(job.backend, generation=generation, progress=job)
                return {}

    async def _install_missing(self, job: WorkerJob) -> None:
        """Install a missing backend for a load: without an assignment, and only if no other job has done so
        meanwhile."""
        build = job.build
        assert build is not None, "there is something to install"
        async with self.locks.lock_change(job.backend):
            if self.installer.resolve(job.backend) is not None:
                return
            with ExitStack() as at_the_end:

                async def before_swap() -> None:
                    await self._stop_processes(job, at_the_end)

                await self.installer.install(build, generation=0, replaces=False, before_swap=before_swap, progress=job)

    async def _start(self, job: WorkerJob, command: StartBackend) -> dict[str, str]:
        key = ProcessKey(model=command.model or command.backend, replica=command.replica)
        async with self.model_loader.lock_process(str(key)):
            return await self._start_locked(job, command)

    async def _start_locked(self, job: WorkerJob, command: StartBackend) -> dict[str, str]:
        if self.installer.resolve(job.backend) is None:
            await self.locks.wait_for_changes(job.backend)
        await self.locks.wait_startable(job.backend)
        job.mark_running()
        job.on_phase(JobPhase.STARTING)
        # Use the resolved name: an alias may mean something else by now.
        process = await self.processes.start_backend(replace(command, backend=job.backend), job)
        return {
            "key": process.key,
            "address": process.address,
            "backend": process.backend,
            "version": process.version,
        }

    async def _stop_processes(self, job: WorkerJob, at_the_end: ExitStack) -> None:
        job.on_phase(JobPhase.STOPPING)
        at_the_end.enter_context(self.locks.block_starts(job.backend))
        stopping = self.tasks.start(self.processes.stop_backend(job.backend), name=f"stop processes of {job.backend}")
        try:
            stopped, survivors = await asyncio.shield(stopping)
        except asyncio.CancelledError:
            # The ended processes must be reported, whatever becomes of the job.
            await asyncio.wait({stopping})
            if not stopping.cancelled() and stopping.exception() is None:
                job.add_stopped_processes(stopping.result()[0])
            raise
        job.add_stopped_processes(stopped)
        if stopped:
            await self.save(job)
        if survivors:
            raise Conflict(
                f"{', '.join(survivors)} could not be ended, so {job.backend} stays as it is.",
                hint="Look at the process on the machine; end it by hand, then try again.",
                code="stop_failed",
            )

    def _refuse_system(self, backend: str) -> None:
        if any(each.name == backend and each.is_system for each in self.installer.list_installed()):
            raise Conflict(f"{backend} came with the machine; Corral does not remove it.", code="system_backend")


def make_fault(error: Exception) -> Fault:
    """Convert an exception to the fault that the control plane receives."""
    if isinstance(error, CorralError):
        return Fault(code=error.slug, text=error.message[:MAX_ERROR_CHARACTERS])
    if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS:
        return Fault(code="disk_full", text=f"The disk is full: {error.strerror}.")
    return Fault(code="internal", text=f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS])


def _make_result(installed: InstalledBackend) -> dict[str, str]:
    return {"version": installed.version, "digest": installed.digest, "uri": installed.uri}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoader:
    """Runs a worker's jobs about models: installs a missing backend, fetches the files and starts the engine process.

        the backend, if missing ──> the files ──> the previous process of the key ends ──> the process, until ready

    One job a process key at a time, in the order of arrival; different keys at the same time. A replica that runs
    already, with this revision and of this backend, is the result, untouched. One of another revision is ended at the
    last moment, when everything else is there, and named in `stopped`. A load that is stopped leaves no process; what
    it has fetched and verified stays.
    """

    installer: BackendInstaller
    files: ModelFiles
    processes: ProcessSupervisor
    # Locks of backends.
    backend_locks: KeyedLocks
    # Installs the backend of a job in its turn, unless it has come meanwhile.
    install: Callable[[WorkerJob], Awaitable[None]]
    # Writes the job to the journal.
    save: Callable[[WorkerJob], Awaitable[None]]
    _process_locks: KeyedLocks = field(default_factory=lambda: KeyedLocks(MAX_UNFINISHED))
    _model_locks: KeyedLocks = field(default_factory=lambda: KeyedLocks(MAX_UNFINISHED))

    def lock_process(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock for starting a process with this key."""
        return self._process_locks.lock_change(key)

    async def stage(self, job: WorkerJob, command: StageModel) -> dict[str, str]:
        job.mark_running()
        await self._ensure_files(job, command)
        return {}

    async def load(self, job: WorkerJob, command: LoadModel) -> dict[str, str]:
        key = _make_process_key(command)
        async with self.lock_process(key):
            job.mark_running()
            found = self._find_running(key)
            if found is not None and _is_same_replica(found, job, command) and found.state in _SERVING_STATES:
                return make_load_result(found)
            is_missing = self.installer.resolve(job.backend) is None
            windows = compute_load_windows(_get_engine_bytes(job) if is_missing else 0, _sum_file_bytes(command))
            if is_missing:
                job.window = windows.installing
                await self._install(job)
            job.window = windows.staging
            folder = await self._ensure_files(job, command)
            job.window = windows.starting
            await self._enter_phase(job, JobPhase.STARTING)
            await self.backend_locks.wait_startable(job.backend)
            await self._end_previous_process(job, command, key)
            return make_load_result(await self._start(job, command, folder))

    async def end_started_process(self, job: WorkerJob) -> None:
        """End the process of a load that was stopped, also one that an earlier worker process has started."""
        if not isinstance(job.command, LoadModel):
            return
        key = _make_process_key(job.command)
        found = self._find_running(key)
        if found is None or found.job_id != job.id:
            return
        outcome = await attempt(lambda: self.processes.stop_process(key, expected_address=found.address, force=True))
        if isinstance(outcome, AttemptFailure):
            log.warning("the process of a stopped load could not be ended", key=key, problem=outcome.sentence)

    async def _install(self, job: WorkerJob) -> None:
        if job.build is None:
            # The backend may be being installed.
            await self.backend_locks.wait_for_changes(job.backend)
            if self.installer.resolve(job.backend) is None:
                raise NotFound(f"{job.backend} is not installed on this node.", code="not_installed")
            return
        await self.install(job)

    async def _ensure_files(self, job: WorkerJob, command: LoadModel | StageModel) -> Path | None:
        """Fetch the files and return the model's folder; None if the model has no files."""
        if not command.files:
            return None
        await self._enter_phase(job, JobPhase.STAGING)
        async with self._model_locks.lock_change(command.model):
            return await self.files.ensure_files(command.model, command.revision, command.files, command.places, job)

    async def _enter_phase(self, job: WorkerJob, phase: JobPhase) -> None:
        """Enter a phase and journal it: after a restart, the progress bar must not start over."""
        job.on_phase(phase)
        await self.save(job)

    async def _end_previous_process(self, job: WorkerJob, command: LoadModel, key: str) -> None:
        """End the process under this key if it is another one; the same process that is only starting is waited for
        later."""
        found = self._find_running(key)
        if found is None or _is_same_replica(found, job, command):
            return
        job.on_phase(JobPhase.STOPPING)
        matched, _ = await self.processes.stop_process(key)
        if matched:
            job.add_stopped_processes((key,))
            await self.save(job)

    def _merge_options(self, job: WorkerJob, command: LoadModel, folder: Path | None) -> dict[str, str]:
        runnable = self.installer.find_runnable(job.backend)
        known = {} if runnable is None else runnable.manifest.options
        options = {name: value for name, value in command.defaults.items() if name in known} | dict(command.options)
        if ADAPTERS_OPTION in options and folder is not None:
            options[ADAPTERS_OPTION] = locate_adapters(options[ADAPTERS_OPTION], str(folder))
        return options

    async def _start(self, job: WorkerJob, command: LoadModel, folder: Path | None) -> RunningProcess:
        start = StartBackend(
            job_id=command.job_id,
            backend=job.backend,
            model=command.model,
            replica=command.replica,
            model_path="" if folder is None else str(folder / command.entry),
            threads=command.threads,
            options=self._merge_options(job, command, folder),
            revision=command.revision,
            operation_id=command.operation_id,
            ready_s=command.ready_s,
            ticket=command.ticket,
        )
        try:
            return await self.processes.start_backend(start, job)
        except CorralError as error:
            if error.slug != "load_timeout":
                raise
            raise _add_time_budget(error, _sum_file_bytes(command)) from error

    def _find_running(self, key: str) -> RunningProcess | None:
        return next((each for each in self.processes.list_running() if each.key == key), None)


def make_load_result(process: RunningProcess) -> dict[str, str]:
    """Return the result of a load. Values that were not measured are absent."""
    values = {
        "key": process.key,
        "address": process.address,
        "backend": process.backend,
        "version": process.version,
        "engine_key": process.engine_key,
        "threads": str(process.threads),
    }
    measured = {"vram_bytes": process.vram_bytes, "ram_bytes": process.ram_bytes}
    return values | {name: str(size) for name, size in measured.items() if size is not None}


def _make_process_key(command: LoadModel) -> str:
    return str(ProcessKey(model=command.model, replica=command.replica))


def _is_same_replica(process: RunningProcess, job: WorkerJob, command: LoadModel) -> bool:
    return process.revision == command.revision and process.backend == job.backend


def _get_engine_bytes(job: WorkerJob) -> int:
    size_bytes = job.build.source.size_bytes if job.build is not None else None
    return ASSUMED_ENGINE_BYTES if size_bytes is None else size_bytes


def _sum_file_bytes(command: LoadModel) -> int:
    """Return the bytes of all files; files of the same content count once."""
    return sum({file.sha256: file.size_bytes for file in command.files}.values())


def _add_time_budget(error: CorralError, size_bytes: int) -> Unprocessable:
    """Add the size of the model and the setting to the engine's error, which knows only how long it had."""
    sentence, _, last_words = error.message.partition("\n")
    size = f"{size_bytes / _MIB:,.0f} MiB of files"
    more = f"{sentence} That is what it was given for {size}; load_timeout of the model gives it longer."
    return Unprocessable(
        f"{more}\n{last_words}" if last_words else more,
        hint="Set load_timeout of the model, or look into the log of the process for what took so long.",
        code=error.slug,
        details=error.details,
    )
