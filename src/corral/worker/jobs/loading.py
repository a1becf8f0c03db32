"""Jobs about models: have the files, and run a replica.

    the backend, if it is missing ──> the files ──> what ran under this key ends ──> the process, until it is ready

Guarantee: one job a process key at a time, in the order in which they came; different keys at the same time. A replica
that runs already, with this revision and of this backend, is the result, untouched. One of another revision is ended at
the last moment, when everything else is there, and named in `stopped`. A load that is stopped leaves no process; what
it has fetched and verified stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.bus.messages import LoadModel, RunningProcess, StageModel, StartBackend
from corral.domain.errors import CorralError, NotFound, Unprocessable
from corral.domain.operation import Phase
from corral.runtime.guard import Failed, attempt
from corral.worker.jobs.memory import MAX_UNFINISHED
from corral.worker.jobs.percent import SOME_BYTES, load_windows
from corral.worker.jobs.telling import Job
from corral.worker.jobs.turns import Turns
from corral.worker.processes.keys import ProcessKey
from corral.worker.work import Files, Installer, Processes

log = structlog.get_logger(__name__)

# An engine in these states is there for requests, or would be if it answered; whoever wants it gone says so.
_STANDS = ("ready", "unhealthy")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    installer: Installer
    files: Files
    processes: Processes
    # Of backends.
    turns: Turns
    # Installs the backend of a job in its turn, unless it has come meanwhile.
    install: Callable[[Job], Awaitable[None]]
    # Writes the job to the journal.
    save: Callable[[Job], Awaitable[None]]
    _keys: Turns = field(default_factory=lambda: Turns(MAX_UNFINISHED))
    _models: Turns = field(default_factory=lambda: Turns(MAX_UNFINISHED))

    def turn(self, key: str) -> AbstractAsyncContextManager[None]:
        """Be the only one who starts a process with this key."""
        return self._keys.change(key)

    async def stage(self, job: Job, wish: StageModel) -> dict[str, str]:
        job.running()
        await self._have(job, wish)
        return {}

    async def load(self, job: Job, wish: LoadModel) -> dict[str, str]:
        key = _key_of(wish)
        async with self.turn(key):
            job.running()
            found = self._running(key)
            if found is not None and _is_it(found, job, wish) and found.state in _STANDS:
                return told(found)
            is_missing = self.installer.resolve(job.backend) is None
            windows = load_windows(_engine_bytes(job) if is_missing else 0, _files_bytes(wish))
            if is_missing:
                job.window = windows.installing
                await self._install(job)
            job.window = windows.staging
            folder = await self._have(job, wish)
            job.window = windows.starting
            await self._begin(job, Phase.STARTING)
            await self.turns.until_startable(job.backend)
            await self._end_other(job, wish, key)
            return told(await self._start(job, wish, folder))

    async def end_started(self, job: Job) -> None:
        """A load that was stopped: its process ends, also one that an earlier life of this worker has started."""
        if not isinstance(job.command, LoadModel):
            return
        key = _key_of(job.command)
        found = self._running(key)
        if found is None or found.job_id != job.id:
            return
        outcome = await attempt(lambda: self.processes.stop_exactly(key, expected_address=found.address, force=True))
        if isinstance(outcome, Failed):
            log.warning("the process of a load that was stopped goes on", key=key, problem=outcome.sentence)

    async def _install(self, job: Job) -> None:
        if job.build is None:
            # It may be on its way.
            await self.turns.after_changes(job.backend)
            if self.installer.resolve(job.backend) is None:
                raise NotFound(f"{job.backend} is not installed on this node.", code="not_installed")
            return
        await self.install(job)

    async def _have(self, job: Job, wish: LoadModel | StageModel) -> Path | None:
        """The model's folder; None if it has no files."""
        if not wish.files:
            return None
        await self._begin(job, Phase.STAGING)
        async with self._models.change(wish.model):
            return await self.files.have(wish.model, wish.revision, wish.files, wish.places, job)

    async def _begin(self, job: Job, phase: Phase) -> None:
        """The next life finds what was done before it there; its bar must not begin anew."""
        job.phase(phase)
        await self.save(job)

    async def _end_other(self, job: Job, wish: LoadModel, key: str) -> None:
        """What runs there and is something else; one that only just starts, and is the same, is waited for later."""
        found = self._running(key)
        if found is None or _is_it(found, job, wish):
            return
        job.phase(Phase.STOPPING)
        matched, _ = await self.processes.stop_exactly(key)
        if matched:
            job.has_stopped((key,))
            await self.save(job)

    def _options(self, job: Job, wish: LoadModel) -> dict[str, str]:
        runnable = self.installer.runnable(job.backend)
        known = {} if runnable is None else runnable.manifest.options
        return {name: value for name, value in wish.defaults.items() if name in known} | dict(wish.options)

    async def _start(self, job: Job, wish: LoadModel, folder: Path | None) -> RunningProcess:
        start = StartBackend(
            job_id=wish.job_id,
            backend=job.backend,
            model=wish.model,
            replica=wish.replica,
            model_path="" if folder is None else str(folder / wish.entry),
            threads=wish.threads,
            options=self._options(job, wish),
            revision=wish.revision,
            operation_id=wish.operation_id,
            ready_s=wish.ready_s,
            ticket=wish.ticket,
        )
        try:
            return await self.processes.start_backend(start, job)
        except CorralError as error:
            if error.slug != "load_timeout":
                raise
            raise _with_budget(error, _files_bytes(wish)) from error

    def _running(self, key: str) -> RunningProcess | None:
        return next((each for each in self.processes.running() if each.key == key), None)


def told(process: RunningProcess) -> dict[str, str]:
    """The result of a load. What nobody has measured is absent."""
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


def _key_of(wish: LoadModel) -> str:
    return str(ProcessKey(model=wish.model, replica=wish.replica))


def _is_it(process: RunningProcess, job: Job, wish: LoadModel) -> bool:
    return process.revision == wish.revision and process.backend == job.backend


def _engine_bytes(job: Job) -> int:
    size_bytes = job.build.source.size_bytes if job.build is not None else None
    return SOME_BYTES if size_bytes is None else size_bytes


def _files_bytes(wish: LoadModel) -> int:
    """Files of the same content count once."""
    return sum({file.sha256: file.size_bytes for file in wish.files}.values())


def _with_budget(error: CorralError, size_bytes: int) -> Unprocessable:
    """The engine knows how long it had; how large the model is, and what can be set, is added here."""
    sentence, _, last_words = error.message.partition("\n")
    size = f"{size_bytes / _MIB:,.0f} MiB of files"
    more = f"{sentence} That is what it was given for {size}; load_timeout of the model gives it longer."
    return Unprocessable(
        f"{more}\n{last_words}" if last_words else more,
        hint="Set load_timeout of the model, or look into the log of the process for what took so long.",
        code=error.slug,
        details=error.details,
    )
