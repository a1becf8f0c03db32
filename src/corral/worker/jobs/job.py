"""One job, with its events at a bounded rate, and the state of the job runner: jobs, newest generations, early
cancellations and locks.

Guarantee: the first progress event goes out at once, then the newest one every 250 ms at most; a change of phase goes
out undelayed with the bytes of the event that waited, and the last event always. Numbers only grow, over restarts too:
each process takes them from a stock that was written to the journal before. The percentage never goes back. All state
is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, TypeVar

from corral.bus.messages import BackendCommand, JobEvent, LoadModel, StageModel
from corral.domain.backend import Build
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import Fault, JobPhase, JobState
from corral.policy.gallery import build_from_json
from corral.ports.runtime import Clock
from corral.runtime.tasks import TaskSet
from corral.worker.jobs.journal import CommandFence, JobCommand, JobKind, JobRecord, JobStopReason
from corral.worker.processes.journal import ProcessKey

DEBOUNCE_S = 0.25
# Every job sends a sign of life this often, moving or not; a receiver that gets nothing for longer asks.
SILENCE_S = 5.0
# How many numbers one write to the journal reserves: far more than a job uses until the next write.
SEQ_STOCK = 1000
# From where to where the bytes of a phase move the bar. Fetching and verifying take turns, file by file.
_BYTE_WINDOWS: Mapping[JobPhase, tuple[float, float]] = MappingProxyType(
    {
        JobPhase.DOWNLOADING: (0.0, 90.0),
        JobPhase.VERIFYING: (0.0, 90.0),
        JobPhase.EXTRACTING: (90.0, 95.0),
        JobPhase.REMOVING: (10.0, 99.0),
        JobPhase.STAGING: (0.0, 99.0),
    }
)
_PHASE_STARTS: Mapping[JobPhase, float] = MappingProxyType(
    {
        JobPhase.EXTRACTING: 90.0,
        JobPhase.CHECKING: 96.0,
        JobPhase.STOPPING: 0.0,
        JobPhase.COMMITTING: 99.0,
        JobPhase.REMOVING: 10.0,
        JobPhase.STARTING: 10.0,
        JobPhase.LOADING: 20.0,
    }
)
PercentWindow = tuple[float, float]
WHOLE_WINDOW: PercentWindow = (0.0, 100.0)
# The share of the process start in a load that has to fetch something.
START_SHARE = 10.0
# Assumed for an engine of unknown size.
ASSUMED_ENGINE_BYTES = 200 * 1024 * 1024


def compute_percent(phase: JobPhase, current_bytes: int | None, total_bytes: int | None) -> float:
    """Return the least percentage that this progress means; the bar itself never goes back."""
    if phase in _BYTE_WINDOWS and current_bytes is not None and total_bytes:
        return scale_to_window(_BYTE_WINDOWS[phase], 100.0 * min(1.0, max(0.0, current_bytes / total_bytes)))
    return _PHASE_STARTS.get(phase, 0.0)


def scale_to_window(window: PercentWindow, percent: float) -> float:
    low, high = window
    return low + (high - low) * percent / 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPercentWindows:
    """Ranges of the progress bar for the steps of loading a model: installing a backend, fetching, starting."""

    installing: PercentWindow
    staging: PercentWindow
    starting: PercentWindow


def compute_load_windows(engine_bytes: int, files_bytes: int) -> LoadPercentWindows:
    """Return the windows of a load; pass 0 for a part that is present already or not needed.

    A load has three parts: an engine to fetch perhaps, files to fetch perhaps, a process to start. Each moves the
    bar within a window of its own, as wide as its share of the bytes.
    """
    total = engine_bytes + files_bytes
    fetched = 100.0 - START_SHARE if total else 0.0
    engine = fetched * engine_bytes / total if total else 0.0
    return LoadPercentWindows(installing=(0.0, engine), staging=(engine, fetched), starting=(fetched, 100.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEventSink:
    """What a worker's jobs use to send progress events over NATS: clock, background tasks and outbox."""

    clock: Clock
    tasks: TaskSet
    send: Callable[[JobEvent], None]


class WorkerJob:
    """State of one job of a worker, such as loading a model; sends its progress as numbered events.

    Implements `JobProgressListener`.
    """

    def __init__(self, record: JobRecord, build: Build | None, event_sink: JobEventSink) -> None:
        self.id = record.job_id
        self.kind = record.kind
        self.command = record.command
        self.backend = record.backend
        self.build = build
        self.number = record.number
        self.lives = record.lives
        self.event = record.event
        self.stop_reason: JobStopReason | None = record.stop
        self.keeps_partial = record.keeps_partial
        self.stop_requested = asyncio.Event()
        self.has_discarded = False
        # The part of the progress bar that the present step moves.
        self.window: PercentWindow = WHOLE_WINDOW
        self._saved: JobEvent | None = None
        self._reserved_seq = record.reserved_seq
        self._event_sink = event_sink
        self._phase = JobPhase(record.event.phase) if record.event.phase else JobPhase.QUEUED
        # Whether the bytes of the event were counted in the present phase.
        self._has_counted = False
        self._sent_at: float | None = None
        self._delayed_send: asyncio.Task[Any] | None = None
        if self.stop_reason is not None:
            self.stop_requested.set()

    @property
    def is_ended(self) -> bool:
        return JobState(self.event.state).is_final

    @property
    def is_saved(self) -> bool:
        return self._saved is self.event

    @property
    def generation(self) -> int:
        return self.event.generation

    def make_record(self) -> JobRecord:
        """Return the record to write now, with numbers reserved for the events until the next write."""
        seq = self.event.seq
        return JobRecord(
            kind=self.kind,
            command=self.command,
            backend=self.backend,
            event=self.event,
            reserved_seq=seq if self.is_ended else seq + SEQ_STOCK,
            number=self.number,
            stop=self.stop_reason,
            keeps_partial=self.keeps_partial,
            lives=self.lives,
        )

    def mark_written(self, record: JobRecord) -> None:
        """Note that this record is on the disk: its numbers may be used."""
        self._saved = record.event
        self._reserved_seq = max(self._reserved_seq, record.reserved_seq)

    def request_stop(self, reason: JobStopReason, *, keeps_partial: bool) -> None:
        """Ask the job to end. A pause can become a cancellation; nothing takes back a cancellation."""
        if self.stop_reason in (None, JobStopReason.PAUSE):
            self.stop_reason = reason
            self.keeps_partial = keeps_partial
        self.stop_requested.set()

    # --- for the work: JobProgressListener ---

    def on_phase(self, phase: JobPhase) -> None:
        if phase is self._phase or self.is_ended:
            return
        self._phase, self._has_counted = phase, False
        # The bytes stay until the next phase counts its own: an event that was held back would be lost otherwise, here
        # or wherever only the newest event of a job is kept.
        self._update_event(phase=str(phase))
        self._send_event()

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        if self.is_ended:
            return
        self._has_counted = True
        self._update_event(current_bytes=current_bytes, total_bytes=total_bytes, file_name=file_name)
        wait_s = self._compute_wait_s()
        if wait_s <= 0:
            self._send_event()
        elif self._delayed_send is None:
            self._delayed_send = self._event_sink.tasks.start(self._send_later(wait_s), name=f"tell {self.id}")

    # --- for the runner ---

    def mark_running(self) -> None:
        self._update_event(state=str(JobState.RUNNING))
        self._send_event()

    def add_stopped_processes(self, keys: tuple[str, ...]) -> None:
        """Add processes that this job has ended; every later event lists them, an error too."""
        known = self.event.stopped
        self._update_event(stopped=(*known, *(key for key in keys if key not in known)))

    def keep_alive(self) -> None:
        is_silent = self._sent_at is None or self._event_sink.clock.monotonic() - self._sent_at >= SILENCE_S
        if not self.is_ended and is_silent:
            self._send_event()

    def end(self, state: JobState, *, fault: Fault | None = None, result: Mapping[str, str] | None = None) -> None:
        """Set the final state; `send_end` sends it when it is on the disk."""
        assert state.is_final, f"{state} is no end"
        if self._delayed_send is not None:
            self._delayed_send.cancel()
        self.event = replace(
            self.event,
            seq=self.event.seq + 1,
            state=str(state),
            percent=100.0 if state is JobState.DONE else self.event.percent,
            error_code=fault.code if fault else "",
            error_text=fault.text if fault else "",
            result=dict(result or {}),
        )

    def send_end(self) -> None:
        self._event_sink.send(self.event)

    def _update_event(self, **changes: Any) -> None:
        self.event = replace(self.event, **changes)
        counted = (self.event.current_bytes, self.event.total_bytes) if self._has_counted else (None, None)
        percent = compute_percent(self._phase, *counted)
        at_least = scale_to_window(self.window, percent)
        if at_least > self.event.percent:
            self.event = replace(self.event, percent=round(at_least, 1))

    def _send_event(self) -> None:
        if self.event.seq >= self._reserved_seq:
            # Send nothing until the journal has been written again: a number that is not reserved might be used twice.
            return
        self._sent_at = self._event_sink.clock.monotonic()
        self.event = replace(self.event, seq=self.event.seq + 1)
        self._event_sink.send(self.event)

    def _compute_wait_s(self) -> float:
        if self._sent_at is None:
            return 0.0
        return self._sent_at + DEBOUNCE_S - self._event_sink.clock.monotonic()

    async def _send_later(self, wait_s: float) -> None:
        await self._event_sink.clock.sleep(wait_s)
        self._delayed_send = None
        # A change of phase in the meantime has sent the newest state already.
        remaining_s = self._compute_wait_s()
        if self.is_ended:
            return
        if remaining_s > 0:
            self._delayed_send = self._event_sink.tasks.start(self._send_later(remaining_s), name=f"tell {self.id}")
            return
        self._send_event()


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
    """Locks for a worker's jobs, one for each key such as an engine backend; limits how many run at once.

    One change of a concrete backend at a time, in the order of the requests; different backends in parallel, up to
    a limit. Engines are started beside a change that is still fetching, but not while files are being swapped or
    removed. Nothing is kept of a backend that no job waits for.
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
    """Indexes a worker's jobs, newest generations and early cancellations in memory, all of them bounded."""

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
        """Return whether this generation was sent to the node that this machine is now."""
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
