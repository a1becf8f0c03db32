"""The state of the job runner: jobs, newest generations, early cancellations and locks. All of it is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from corral.bus.messages import BackendCommand, JobEvent, LoadModel, StageModel
from corral.domain.backend import Build
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import JobState
from corral.policy.gallery import build_from_json
from corral.worker.jobs.job import WorkerJob
from corral.worker.jobs.journal import CommandFence, JobCommand, JobKind
from corral.worker.processes.process_key import ProcessKey

V = TypeVar("V")
# Ended jobs that are kept to answer queries.
MAX_ENDED = 50
# More unfinished jobs than this are a mistake; each has a task and a file.
MAX_UNFINISHED = 200
MAX_GENERATIONS = 2000
MAX_CANCELLED = 500
# Longer than any id or name of ours.
MAX_TEXT = 255


class _KeyedLock:
    """Holds the lock of one key, and whether engines may be started under it."""

    def __init__(self) -> None:
        self.users = 0
        self.change_lock = asyncio.Lock()
        self.start_allowed = asyncio.Event()
        self.start_allowed.set()


class KeyedLocks:
    """Holds one lock for each key, such as a backend, and limits how many keys are worked on at once.

    One change of a concrete backend at a time, in the order of the requests; different backends in parallel, up to
    a limit. Engines are started beside a change that is still fetching, but not while files are being swapped or
    removed. Nothing is kept of a backend that nobody waits for.
    """

    def __init__(self, max_parallel: int) -> None:
        self._locks: dict[str, _KeyedLock] = {}
        self._slots = asyncio.Semaphore(max_parallel)

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def lock_change(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of this key. One of the limited slots is taken only after the lock."""
        with self._use(key) as lock:
            async with lock.change_lock, self._slots:
                yield

    async def wait_for_changes(self, key: str) -> None:
        """Wait until the changes that wait or run now are over; for an engine whose backend is being installed."""
        with self._use(key) as lock:
            async with lock.change_lock:
                return

    async def wait_startable(self, key: str) -> None:
        with self._use(key) as lock:
            await lock.start_allowed.wait()

    @contextmanager
    def block_starts(self, key: str) -> Iterator[None]:
        """Hold back new starts under this key until the block ends."""
        with self._use(key) as lock:
            lock.start_allowed.clear()
            try:
                yield
            finally:
                lock.start_allowed.set()

    @contextmanager
    def _use(self, key: str) -> Iterator[_KeyedLock]:
        lock = self._locks.setdefault(key, _KeyedLock())
        lock.users += 1
        try:
            yield lock
        finally:
            lock.users -= 1
            if lock.users == 0:
                del self._locks[key]


@dataclass(slots=True)
class JobTable:
    """Holds the jobs, newest generations and early cancellations that the job runner knows, all of them bounded."""

    node_id: str | None = None
    # In the order in which they were accepted.
    jobs: dict[str, WorkerJob] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    cancelled: dict[str, bool] = field(default_factory=dict)
    _number: int = 0

    def load_fence(self, fence: CommandFence) -> None:
        self.node_id = fence.node_id
        self.generations.update(fence.generations)
        self.cancelled.update(fence.cancelled)

    def add(self, job: WorkerJob) -> None:
        self.jobs[job.id] = job
        self._number = max(self._number, job.number)

    def compute_next_number(self) -> int:
        return self._number + 1

    def make_fence(self) -> CommandFence:
        return CommandFence(node_id=self.node_id, generations=dict(self.generations), cancelled=dict(self.cancelled))

    def reset_for_node(self, node_id: str) -> None:
        self.node_id = node_id
        self.generations.clear()
        self.cancelled.clear()

    def is_ours(self, backend: str, generation: int) -> bool:
        """Whether this generation was sent to the node that this machine is now."""
        return generation <= self.generations.get(backend, 0)

    def find_event(self, job_id: str) -> JobEvent | None:
        """Return the latest event of a job; one that was cancelled before it came is at its end."""
        job = self.jobs.get(job_id)
        if job is not None:
            return job.event
        if job_id in self.cancelled:
            state = JobState.PAUSED if self.cancelled[job_id] else JobState.CANCELLED
            return JobEvent(job_id=job_id, seq=1, state=str(state))
        return None

    def list_unfinished(self, backend: str | None = None) -> list[WorkerJob]:
        jobs = (job for job in self.jobs.values() if not job.is_ended)
        return [job for job in jobs if backend is None or job.backend == backend]

    def iterate_outdated(self) -> Iterator[WorkerJob]:
        """Yield unfinished changes for which a newer command has been seen."""
        for job in self.list_unfinished():
            if job.kind.is_change and job.generation < self.generations.get(job.backend, 0):
                yield job

    def record_generation(self, backend: str, generation: int) -> bool:
        """Record a generation; return whether it is newer than all before."""
        if generation <= self.generations.get(backend, 0):
            return False
        self.generations.pop(backend, None)
        self.generations[backend] = generation
        _keep_last(self.generations, MAX_GENERATIONS)
        return True

    def cancel_unknown(self, job_id: str, *, keeps_partial: bool) -> None:
        self.cancelled.pop(job_id, None)
        self.cancelled[job_id] = keeps_partial
        _keep_last(self.cancelled, MAX_CANCELLED)

    def remove_surplus(self) -> list[str]:
        """Forget ended jobs that are too many, oldest first, and return their ids."""
        ended = [job.id for job in self.jobs.values() if job.is_ended]
        surplus = ended[: max(0, len(ended) - MAX_ENDED)]
        for job_id in surplus:
            del self.jobs[job_id]
        return surplus

    def find_concrete_name(self, name: str) -> str | None:
        """Return the concrete name of a backend that is being installed under this name, if there is exactly one."""
        builds = (job.build for job in self.list_unfinished() if job.build is not None)
        names = {build.name for build in builds if name in (build.name, build.meta, build.alias)}
        return names.pop() if len(names) == 1 else None


def parse_build(kind: JobKind, command: JobCommand) -> Build | None:
    """Return the build to install; a command that needs one and has none that can be read is refused."""
    if isinstance(command, LoadModel):
        if command.build is None:
            return None
    elif not isinstance(command, BackendCommand) or not kind.needs_build:
        return None
    if command.build is None:
        raise Unprocessable(
            f"The command to {kind} {command.backend} does not say what to install.", code="bad_manifest"
        )
    try:
        return build_from_json(command.build)
    except InvalidRequest as error:
        raise Unprocessable(error.message, hint=error.hint, code="bad_manifest") from error


def check_command(command: JobCommand) -> None:
    texts = {"job_id": command.job_id}
    if not isinstance(command, StageModel):
        texts["backend"] = command.backend
    if isinstance(command, LoadModel | StageModel):
        texts["revision"] = command.revision
        # Its error says what is wrong with the model's name.
        ProcessKey(model=command.model, replica=command.replica if isinstance(command, LoadModel) else 0)
    for name, text in texts.items():
        if not text or len(text) > MAX_TEXT:
            raise InvalidRequest(f"{name} has {len(text)} characters; it needs 1 to {MAX_TEXT}.")
    if isinstance(command, LoadModel):
        _check_entry(command.entry)


def _check_entry(entry: str) -> None:
    path = PurePosixPath(entry)
    if path.is_absolute() or ".." in path.parts or "\0" in entry:
        raise InvalidRequest(f"{entry[:80]!r} does not lie in the model's folder.", code="bad_entry")


def _keep_last(values: dict[str, V], count: int) -> None:
    while len(values) > count:
        del values[next(iter(values))]
