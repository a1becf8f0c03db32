"""Accepts jobs, drives them, cancels them, and resumes them after a restart.

    accepted (on disk) --its turn--> running --> done | failed | cancelled | paused (on disk, then reported)

Guarantee: one job id is one job, however often it is sent; a command older than one that was seen for the same backend
is refused, also after a restart; a newer one takes the place of an older one that has not ended. A job that a kill has
interrupted is begun again by itself, under the same id and with growing numbers. No caller waits here for the work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    CancelJobReply,
    GetJobs,
    GetJobsReply,
    JobAcceptedReply,
    JobEvent,
    LoadModel,
    StageModel,
)
from corral.bus.subjects import JOB_EVENT
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict, CorralError, Unavailable
from corral.domain.operation import Fault, JobPhase, JobState
from corral.ports.bus import Bus
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.loop import Loop, LoopOptions, ValueSignal
from corral.runtime.tasks import CANCEL_AGAIN_S, TaskSet
from corral.worker.job_ports import BackendInstaller, ModelFiles, ProcessSupervisor
from corral.worker.jobs.job import (
    MAX_UNFINISHED,
    SILENCE_S,
    JobEventSink,
    JobTable,
    KeyedLocks,
    WorkerJob,
    check_command,
    parse_build,
)
from corral.worker.jobs.job_dispatcher import JobDispatcher, JobDispatcherDeps, make_fault
from corral.worker.jobs.journal import JobCommand, JobJournal, JobKind, JobRecord, JobStopReason

log = structlog.get_logger(__name__)
# A job that was begun so often without an end takes the worker down, or never gets to an end.
MAX_LIVES = 5
# A caller gives up after two seconds; an answer with the reason is better.
START_LIMIT_S = 1.5
WorkOutcome = AttemptSuccess[dict[str, str]] | AttemptFailure | None
# Many times what a worker can have to send at once.
MAX_WAITING = 1000
# A connect and every event wake the loop; this is for a wake-up that was lost.
LOOK_S = 10.0


class JobEventOutbox:
    """Queues a worker's job events and publishes them over NATS in order.

    While NATS is away, only the newest event of each job is kept.

    Putting an event never waits. The newest event of each job leaves after the reconnect; a receiver that missed
    one requests the state of the job (`jobs.get`).
    """

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._waiting: deque[JobEvent] = deque(maxlen=MAX_WAITING)
        self._bus: Bus | None = None
        self._node_id = ""
        self.loop = Loop(LoopOptions(name="job events", interval_s=LOOK_S), self.flush, clock, rng)

    def use_bus(self, bus: Bus, node_id: str) -> None:
        self._bus = bus
        self._node_id = node_id

    def put(self, event: JobEvent) -> None:
        if not self._is_open:
            self._drop_all_but_newest(event.job_id)
        self._waiting.append(event)
        self.loop.wake()

    async def flush(self) -> None:
        """Publish waiting events, as long as the bus accepts them."""
        while self._waiting and self._is_open:
            event = self._waiting.popleft()
            sent = await attempt(lambda pending=event: self._publish(pending))  # type: ignore[misc]  # bound at once
            if not isinstance(sent, AttemptFailure):
                continue
            if isinstance(sent.error, Unavailable):
                self._put_back(event)
                return
            log.warning("a job event cannot be sent", job=event.job_id, problem=sent.sentence)

    @property
    def _is_open(self) -> bool:
        return self._bus is not None and self._bus.is_connected

    async def _publish(self, event: JobEvent) -> None:
        assert self._bus is not None, "nothing is sent before there is a bus"
        await self._bus.publish(JOB_EVENT, event, node=self._node_id)

    def _put_back(self, event: JobEvent) -> None:
        newest = {each.job_id: each for each in (event, *self._waiting)}
        self._waiting = deque(newest.values(), maxlen=MAX_WAITING)

    def _drop_all_but_newest(self, job_id: str) -> None:
        self._waiting = deque((each for each in self._waiting if each.job_id != job_id), maxlen=MAX_WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunnerDeps:
    """Dependencies of a worker's job runner: installer, model files, engine processes, journal and clock."""

    installer: BackendInstaller
    files: ModelFiles
    processes: ProcessSupervisor
    journal: JobJournal
    clock: Clock
    rng: Random
    boot_id: str
    max_parallel: int = 4
    # Called when an assertion failed: it ends the process.
    on_crash: Callable[[BaseException], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInventory:
    """The backends that a worker's node has installed, and those removed with the generation of their removal."""

    installed: tuple[InstalledBackend, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)


class JobJournalWriter:
    """Writes a worker's jobs and its command fence to the journal, one at a time.

    Each write is carried to its end: one that has begun is not cancelled with its caller.
    """

    def __init__(self, journal: JobJournal, table: JobTable) -> None:
        self._journal = journal
        self._table = table
        # Held during a write.
        self.lock = asyncio.Lock()

    async def write(self, job: WorkerJob) -> None:
        """Journal the job; raise if that is not possible."""
        await asyncio.shield(self._write_in_turn(job))

    async def checkpoint(self, job: WorkerJob) -> None:
        """Journal the job if possible: a full disk must not keep a job from its end."""
        outcome = await attempt(lambda: self.write(job))
        if isinstance(outcome, AttemptFailure):
            log.warning("a job could not be written to the journal", job=job.id, problem=outcome.sentence)

    async def save_fence(self) -> None:
        """Journal the generations that were seen, if possible."""

        async def write() -> None:
            async with self.lock:
                await self._journal.save_fence(self._table.make_fence())

        outcome = await attempt(lambda: asyncio.shield(write()))
        if isinstance(outcome, AttemptFailure):
            log.warning("the command fence could not be written to the journal", problem=outcome.sentence)

    async def forget(self, job_id: str) -> None:
        """Remove a job from the journal, if possible."""
        async with self.lock:
            outcome = await attempt(lambda: self._journal.forget(job_id))
        if isinstance(outcome, AttemptFailure):
            log.warning("an old job stays in the journal", job=job_id, problem=outcome.sentence)

    async def _write_in_turn(self, job: WorkerJob) -> None:
        async with self.lock:
            record = job.make_record()
            await self._journal.save(record)
            job.mark_written(record)


class JobFactory:
    """Makes a worker's jobs of bus commands or of journal records, and refuses a command older than one seen."""

    def __init__(self, table: JobTable, installer: BackendInstaller, event_sink: JobEventSink) -> None:
        self._table = table
        self._installer = installer
        self._event_sink = event_sink

    def make(self, kind: JobKind, command: JobCommand) -> WorkerJob:
        """Make the job of a new command. Raises Conflict (stale_generation) if a newer one was seen here."""
        build = parse_build(kind, command)
        if build is not None:
            backend = build.name
        else:
            backend = "" if isinstance(command, StageModel) else self._resolve_backend(command.backend)
        event = JobEvent(
            job_id=command.job_id,
            seq=1,
            state=str(JobState.QUEUED),
            backend=backend,
            phase=str(JobPhase.QUEUED),
        )
        if isinstance(command, BackendCommand):
            self._refuse_stale(backend, command.generation)
            event = replace(event, generation=command.generation, operation_id=command.operation_id)
        elif isinstance(command, LoadModel | StageModel):
            event = replace(event, operation_id=command.operation_id)
        record = JobRecord(
            kind=kind,
            command=command,
            backend=backend,
            event=event,
            reserved_seq=event.seq,
            number=self._table.compute_next_number(),
        )
        return WorkerJob(record, build, self._event_sink)

    def restore(self, record: JobRecord) -> WorkerJob:
        """Make the job of a record. One that has not ended is queued again, with numbers above those used before."""
        if JobState(record.event.state).is_final:
            return WorkerJob(record, parse_build(record.kind, record.command), self._event_sink)
        event = replace(
            record.event,
            seq=record.reserved_seq,
            state=str(JobState.QUEUED),
            phase=str(JobPhase.QUEUED),
            current_bytes=None,
            total_bytes=None,
            file_name="",
        )
        record = replace(record, event=event, lives=record.lives + 1)
        return WorkerJob(record, parse_build(record.kind, record.command), self._event_sink)

    def _resolve_backend(self, name: str) -> str:
        return self._installer.resolve(name) or self._table.find_concrete_name(name) or name

    def _refuse_stale(self, backend: str, generation: int) -> None:
        newest = self._table.generations.get(backend, 0)
        if generation < newest:
            raise Conflict(
                f"This command for {backend} has the generation {generation}; {newest} has been seen here.",
                hint="Something newer was decided for this node since.",
                code="stale_generation",
                details={"generation": generation, "newest": newest},
            )


class JobRunner:
    """Accepts a worker's jobs, journals and runs them, cancels them, and resumes them after a restart. A service."""

    name = "jobs"

    def __init__(self, deps: JobRunnerDeps) -> None:
        self._deps = deps
        self._table = JobTable()
        self._writer = JobJournalWriter(deps.journal, self._table)
        self._tasks = TaskSet(self.name, deps.on_crash)
        self._accept_lock = asyncio.Lock()
        self._loaded = asyncio.Event()
        self._tidy_done = asyncio.Event()
        # Set when a frontend has sent the worker its node id.
        self._node_known = asyncio.Event()
        self._is_stopping = False
        self.events = JobEventOutbox(deps.clock, deps.rng)
        self._event_sink = JobEventSink(clock=deps.clock, tasks=self._tasks, send=self.events.put)
        self._factory = JobFactory(self._table, deps.installer, self._event_sink)
        self._locks = KeyedLocks(deps.max_parallel)
        self._dispatcher = JobDispatcher(
            JobDispatcherDeps(installer=deps.installer, files=deps.files, processes=deps.processes),
            self._locks,
            self._tasks,
            self._writer.checkpoint,
        )
        self._loop = Loop(LoopOptions(name="job upkeep", interval_s=SILENCE_S), self._keep_alive, deps.clock, deps.rng)
        for loop in (self._loop, self.events.loop):
            loop.on_crash = deps.on_crash
        self.on_change: Callable[[], None] = lambda: None
        self.job_ended: ValueSignal[JobEvent] = ValueSignal()

    @property
    def backend_locks(self) -> KeyedLocks:
        """Return the locks of backends, for other parts of the worker that install some."""
        return self._locks

    async def start(self) -> None:
        await self._load()
        await self.events.loop.start()
        await self._loop.start()
        self._tasks.start(self._tidy(), name="tidy")

    async def stop(self) -> None:
        """Accept no more jobs. Running ones are stopped where they are and go on with the next start."""
        self._is_stopping = True
        await self._loop.stop()
        await self._tasks.close()
        # A write that has begun is completed.
        async with self._writer.lock:
            await self.events.loop.stop()
        await self.events.flush()

    # --- commands ---

    async def accept(self, kind: JobKind, command: JobCommand) -> JobAcceptedReply:
        """Accept a job, which is in the journal when this returns. The same id gives the same job."""
        check_command(command)
        await self.wait_loaded()
        async with self._accept_lock:
            event = self._table.find_event(command.job_id) or (await self._accept_new(kind, command)).event
        return JobAcceptedReply(boot_id=self._deps.boot_id, job=event)

    async def cancel(self, command: CancelJob) -> CancelJobReply:
        """Ask a job to end; its last event says when it has. A job that arrives later under this id is not begun."""
        await self.wait_loaded()
        async with self._accept_lock:
            job = self._table.jobs.get(command.job_id)
            if job is None:
                self._table.cancel_unknown(command.job_id, keeps_partial=command.keeps_partial)
                await self._writer.save_fence()
            elif not job.is_ended:
                job.request_stop(
                    JobStopReason.PAUSE if command.keeps_partial else JobStopReason.CANCEL,
                    keeps_partial=command.keeps_partial,
                )
                await self._writer.checkpoint(job)
            elif not command.keeps_partial:
                await self._abandon(job)
        return CancelJobReply(boot_id=self._deps.boot_id, job=job.event if job else None)

    async def serve_node(self, node_id: str) -> None:
        """Work for this node. Jobs and generations of another node, of another cluster perhaps, no longer count."""
        await self.wait_loaded()
        if node_id != self._table.node_id:
            await self._switch_node(node_id)
        self._node_known.set()

    async def _switch_node(self, node_id: str) -> None:
        async with self._accept_lock:
            if self._table.node_id is not None:
                log.info("this machine is another node now; its unfinished jobs end", was=self._table.node_id)
                await self._cancel_unfinished()
                self._table.reset_for_node(node_id)
            self._table.node_id = node_id
            await self._writer.save_fence()

    async def abandon_jobs(self) -> None:
        """Cancel every job that has not ended, because its node was removed; its downloads are deleted."""
        await self.wait_loaded()
        async with self._accept_lock:
            await self._cancel_unfinished()

    async def _cancel_unfinished(self) -> None:
        for job in self._table.list_unfinished():
            job.request_stop(JobStopReason.CANCEL, keeps_partial=False)
            await self._writer.checkpoint(job)

    async def get_inventory(self, node_id: str) -> BackendInventory:
        """Return installed and removed backends. A generation that belongs to another node is returned as 0."""
        await self.serve_node(node_id)
        installer, is_ours = self._deps.installer, self._table.is_ours
        return BackendInventory(
            installed=tuple(
                each if is_ours(each.name, each.generation) else replace(each, generation=0)
                for each in installer.list_installed()
            ),
            removed={name: number for name, number in installer.list_removed().items() if is_ours(name, number)},
        )

    async def list_jobs(self, query: GetJobs) -> GetJobsReply:
        await self.wait_loaded()
        ids = query.job_ids or tuple(self._table.jobs)
        events = (self._table.find_event(job_id) for job_id in ids)
        return GetJobsReply(boot_id=self._deps.boot_id, jobs=tuple(event for event in events if event is not None))

    # --- accepting ---

    async def _accept_new(self, kind: JobKind, command: JobCommand) -> WorkerJob:
        if self._is_stopping:
            raise Unavailable("This worker is stopping.", hint="Send it again when it is back.", code="worker_stopping")
        if len(self._table.list_unfinished()) >= MAX_UNFINISHED:
            raise Unavailable(f"{MAX_UNFINISHED} jobs are waiting here already.", code="worker_busy")
        job = self._factory.make(kind, command)
        await self._writer.write(job)
        self._table.add(job)
        if self._table.record_generation(job.backend, job.generation):
            await self._writer.save_fence()
            for older in self._table.iterate_outdated():
                await self._replace(older, job)
        log.info("job accepted", job=job.id, kind=str(kind), backend=job.backend, generation=job.generation)
        self._tasks.start(self._drive(job), name=f"drive {job.id}")
        return job

    async def _replace(self, older: WorkerJob, newer: WorkerJob) -> None:
        older.request_stop(JobStopReason.REPLACE, keeps_partial=_has_same_source(older, newer))
        await self._writer.checkpoint(older)

    async def _abandon(self, job: WorkerJob) -> None:
        """Discard the downloads of a job that has ended without success and that no later job will continue."""
        if job.event.state == JobState.PAUSED:
            job.end(JobState.CANCELLED)
            await self._writer.checkpoint(job)
            job.send_end()
        if job.event.state != JobState.DONE:
            self._discard_later(job)

    # --- driving ---

    async def _resume(self, job: WorkerJob) -> None:
        """Resume a job of an earlier process once this node is registered: it may belong to another node by now, and
        the sources of its files are not known before."""
        await self._node_known.wait()
        await self._drive(job)

    async def _drive(self, job: WorkerJob) -> None:
        await self._tidy_done.wait()
        outcome = await self._run_work(job)
        match outcome:
            case AttemptSuccess(result):
                job.end(JobState.DONE, result=result)
            case AttemptFailure(error) if job.stop_reason is None:
                job.end(JobState.FAILED, fault=make_fault(error))
                known = isinstance(error, CorralError)
                log.warning("job failed", job=job.id, problem=outcome.sentence, exc_info=None if known else error)
            case _:
                await self._dispatcher.model_loader.end_started_process(job)
                self._end_stopped(job)
                if not job.keeps_partial:
                    self._discard_later(job)
        await self._finish(job)

    async def _run_work(self, job: WorkerJob) -> WorkOutcome:
        """Run the work of a job; None if it was stopped."""
        if job.lives > MAX_LIVES:
            return AttemptFailure(
                Unavailable(f"The worker ended {MAX_LIVES} times during this job.", code="worker_restarted")
            )
        if job.stop_reason is not None:
            return None
        work = self._tasks.start(attempt(lambda: self._dispatcher.run_job(job)), name=f"do {job.id}")
        stop_request = self._tasks.start(job.stop_requested.wait(), name=f"stop of {job.id}")
        await asyncio.wait({work, stop_request}, return_when=asyncio.FIRST_COMPLETED)
        stop_request.cancel()
        while not work.done():
            work.cancel()
            # Cancel repeatedly: `asyncio.wait_for` of Python 3.11 can lose a cancellation.
            await asyncio.wait({work}, timeout=CANCEL_AGAIN_S)
        outcome: WorkOutcome = None if work.cancelled() else work.result()
        return outcome

    def _end_stopped(self, job: WorkerJob) -> None:
        finished = self._dispatcher.find_finished_result(job)
        if finished is not None:
            # The stop came after the swap, so the change is in place whatever was requested.
            job.end(JobState.DONE, result=finished)
        elif job.stop_reason is JobStopReason.REPLACE:
            fault = Fault(code="replaced", text="A newer command for this backend took its place.")
            job.end(JobState.CANCELLED, fault=fault)
        else:
            job.end(JobState.PAUSED if job.stop_reason is JobStopReason.PAUSE else JobState.CANCELLED)

    async def _finish(self, job: WorkerJob) -> None:
        await self._writer.checkpoint(job)
        job.send_end()
        log.info("job ended", job=job.id, backend=job.backend, state=job.event.state)
        if job.kind.is_change or job.kind is JobKind.LOAD:
            self.on_change()
        self.job_ended.fire(job.event)
        for surplus in self._table.remove_surplus():
            await self._writer.forget(surplus)

    def _discard_later(self, job: WorkerJob) -> None:
        if job.build is not None and not job.has_discarded:
            self._tasks.start(self._discard(job), name=f"discard {job.id}")

    async def _discard(self, job: WorkerJob) -> None:
        async with self._locks.lock_change(job.backend):
            # Unless another job goes on with them: downloads are kept by the name of the backend.
            if not any(other.build is not None for other in self._table.list_unfinished(job.backend)):
                await self._dispatcher.discard_downloads(job)

    # --- journal ---

    async def _load(self) -> None:
        contents = await self._deps.journal.load()
        self._table.load_fence(contents.fence)
        for record in contents.jobs:
            try:
                job = self._factory.restore(record)
            except CorralError as error:
                log.warning("a job of the journal is left out", job=record.job_id, problem=error.message)
                continue
            self._table.add(job)
            self._table.record_generation(job.backend, job.generation)
        for job in self._table.iterate_outdated():
            job.request_stop(JobStopReason.REPLACE, keeps_partial=True)
        for job in self._table.list_unfinished():
            log.info("job resumed", job=job.id, backend=job.backend, times=job.lives)
            await self._writer.checkpoint(job)
            self._tasks.start(self._resume(job), name=f"resume {job.id}")
        self._loaded.set()

    async def _tidy(self) -> None:
        outcome = await attempt(self._deps.installer.tidy)
        if isinstance(outcome, AttemptFailure):
            log.warning("leftovers of the last start could not be removed", problem=outcome.sentence)
        self._tidy_done.set()
        self.on_change()

    async def _keep_alive(self) -> None:
        for job in self._table.list_unfinished():
            job.keep_alive()
            if not job.is_saved:
                await self._writer.checkpoint(job)

    async def wait_loaded(self) -> None:
        """Wait until the journal is loaded: the supervisor, which starts earlier, has adopted what runs."""
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._loaded.wait()
        except TimeoutError as error:
            raise Unavailable("This worker is starting.", code="worker_starting") from error


def _has_same_source(older: WorkerJob, newer: WorkerJob) -> bool:
    return older.build is not None and newer.build is not None and older.build.source == newer.build.source
