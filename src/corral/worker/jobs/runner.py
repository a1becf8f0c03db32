"""Accepts jobs, drives them, cancels them, and takes them up again after a restart.

    accepted (on disk) --its turn--> running --> done | failed | cancelled | paused (on disk, then told)

Guarantee: one job id is one job, however often it is sent; a command older than one that was seen for the same backend
is refused, also after a restart; a newer one takes the place of an older one that has not ended. What a kill has
interrupted is begun again by itself, under the same id and with growing numbers. Nobody waits here for the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import (
    BackendCommand,
    CancelJob,
    GetJobs,
    JobAccepted,
    JobCancelled,
    JobEvent,
    Jobs,
    LoadModel,
    StageModel,
)
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict, CorralError, Unavailable
from corral.domain.operation import Fault, JobState, Phase
from corral.ports.runtime import Clock
from corral.runtime.guard import Done, Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.signals import Signal
from corral.runtime.tasks import CANCEL_AGAIN_S, Tasks
from corral.worker.jobs.doing import Doing, Tools, fault_of
from corral.worker.jobs.events import EventOutbox
from corral.worker.jobs.journal import Journal
from corral.worker.jobs.memory import MAX_UNFINISHED, Memory, build_of, check_command
from corral.worker.jobs.record import Command, JobKind, JobRecord, Stop
from corral.worker.jobs.telling import SILENCE_S, Job, Voice
from corral.worker.jobs.turns import Turns
from corral.worker.work import Files, Installer, Processes

log = structlog.get_logger(__name__)

# A job that was begun so often without an end takes the worker down, or never gets to one.
MAX_LIVES = 5
# A caller gives up after two seconds; better to be told why.
START_LIMIT_S = 1.5

Outcome = Done[dict[str, str]] | Failed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """What the runner is given from outside."""

    installer: Installer
    files: Files
    processes: Processes
    journal: Journal
    clock: Clock
    rng: Random
    boot_id: str
    max_parallel: int = 4
    # A broken assert ends the process.
    on_crash: Callable[[BaseException], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a node has, and what it has not any more with the generation of the removal."""

    installed: tuple[InstalledBackend, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)


class JobRunner:
    """A service. `changed` is called after every job that may have changed what is installed."""

    name = "jobs"

    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts
        self._memory = Memory()
        self._tasks = Tasks(self.name, parts.on_crash)
        self._accepting = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._loaded = asyncio.Event()
        self._tidied = asyncio.Event()
        # A frontend has said which node this machine is.
        self._served = asyncio.Event()
        self._is_stopping = False
        self.events = EventOutbox(parts.clock, parts.rng)
        self._voice = Voice(clock=parts.clock, tasks=self._tasks, send=self.events.put)
        self._turns = Turns(parts.max_parallel)
        self._doing = Doing(
            Tools(installer=parts.installer, files=parts.files, processes=parts.processes),
            self._turns,
            self._tasks,
            self._checkpoint,
        )
        self._loop = Loop(LoopPlan(name="job upkeep", interval_s=SILENCE_S), self._upkeep, parts.clock, parts.rng)
        for loop in (self._loop, self.events.loop):
            loop.on_crash = parts.on_crash
        self.changed: Callable[[], None] = lambda: None
        self.ended: Signal[JobEvent] = Signal()

    async def start(self) -> None:
        await self._load()
        await self.events.loop.start()
        await self._loop.start()
        self._tasks.start(self._tidy(), name="tidy")

    async def stop(self) -> None:
        """Take no more. What runs is stopped where it is and goes on with the next start."""
        self._is_stopping = True
        await self._loop.stop()
        await self._tasks.close()
        # A write that has begun comes to its end.
        async with self._writing:
            await self.events.loop.stop()
        await self.events.flush()

    # --- commands ---

    async def accept(self, kind: JobKind, command: Command) -> JobAccepted:
        """The job, which is in the journal when this returns. The same id gives the same job."""
        check_command(command)
        await self.until_loaded()
        async with self._accepting:
            event = self._memory.event(command.job_id) or (await self._take(kind, command)).event
        return JobAccepted(boot_id=self._parts.boot_id, job=event)

    async def cancel(self, wish: CancelJob) -> JobCancelled:
        """Ask a job to end; its last event tells when it has. One that comes later is not begun."""
        await self.until_loaded()
        async with self._accepting:
            job = self._memory.jobs.get(wish.job_id)
            if job is None:
                self._memory.cancel_unknown(wish.job_id, keeps_partial=wish.keeps_partial)
                await self._remember()
            elif not job.is_ended:
                job.ask_to_stop(Stop.PAUSE if wish.keeps_partial else Stop.CANCEL, keeps_partial=wish.keeps_partial)
                await self._checkpoint(job)
            elif not wish.keeps_partial:
                await self._give_up(job)
        return JobCancelled(boot_id=self._parts.boot_id, job=job.event if job else None)

    async def serve(self, node_id: str) -> None:
        """Work for this node. Jobs and generations of another one, of another cluster perhaps, count no more."""
        await self.until_loaded()
        if node_id != self._memory.node_id:
            await self._become(node_id)
        self._served.set()

    async def _become(self, node_id: str) -> None:
        async with self._accepting:
            if self._memory.node_id is not None:
                log.info("this machine is another node now; its unfinished jobs end", was=self._memory.node_id)
                await self._cancel_unfinished()
                self._memory.become(node_id)
            self._memory.node_id = node_id
            await self._remember()

    async def abandon_jobs(self) -> None:
        """Cancel every job that has not ended, because nobody wants it any more; what it has fetched goes."""
        await self.until_loaded()
        async with self._accepting:
            await self._cancel_unfinished()

    async def _cancel_unfinished(self) -> None:
        for job in self._memory.unfinished():
            job.ask_to_stop(Stop.CANCEL, keeps_partial=False)
            await self._checkpoint(job)

    async def holdings(self, node_id: str) -> Holdings:
        """What is installed and what was removed. A generation that was told to another node is told as none."""
        await self.serve(node_id)
        installer, is_ours = self._parts.installer, self._memory.is_ours
        return Holdings(
            installed=tuple(
                each if is_ours(each.name, each.generation) else replace(each, generation=0)
                for each in installer.installed()
            ),
            removed={name: number for name, number in installer.removed().items() if is_ours(name, number)},
        )

    async def get(self, wish: GetJobs) -> Jobs:
        await self.until_loaded()
        ids = wish.job_ids or tuple(self._memory.jobs)
        events = (self._memory.event(job_id) for job_id in ids)
        return Jobs(boot_id=self._parts.boot_id, jobs=tuple(event for event in events if event is not None))

    # --- accepting ---

    async def _take(self, kind: JobKind, command: Command) -> Job:
        if self._is_stopping:
            raise Unavailable("This worker is stopping.", hint="Send it again when it is back.", code="worker_stopping")
        if len(self._memory.unfinished()) >= MAX_UNFINISHED:
            raise Unavailable(f"{MAX_UNFINISHED} jobs are waiting here already.", code="worker_busy")
        job = self._made(kind, command)
        await self._write(job)
        self._memory.add(job)
        if self._memory.see(job.backend, job.generation):
            await self._remember()
            for older in self._memory.outdated():
                await self._replace(older, job)
        log.info("job accepted", job=job.id, kind=str(kind), backend=job.backend, generation=job.generation)
        self._tasks.start(self._drive(job), name=f"drive {job.id}")
        return job

    def _made(self, kind: JobKind, command: Command) -> Job:
        build = build_of(kind, command)
        if build is not None:
            backend = build.name
        else:
            backend = "" if isinstance(command, StageModel) else self._concrete(command.backend)
        event = JobEvent(
            job_id=command.job_id,
            seq=1,
            state=str(JobState.QUEUED),
            backend=backend,
            phase=str(Phase.QUEUED),
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
            number=self._memory.next_number(),
        )
        return Job(record, build, self._voice)

    def _concrete(self, name: str) -> str:
        return self._parts.installer.resolve(name) or self._memory.name_of(name) or name

    def _refuse_stale(self, backend: str, generation: int) -> None:
        newest = self._memory.generations.get(backend, 0)
        if generation < newest:
            raise Conflict(
                f"This command for {backend} has the generation {generation}; {newest} has been seen here.",
                hint="Something newer was decided for this node since.",
                code="stale_generation",
                details={"generation": generation, "newest": newest},
            )

    async def _replace(self, older: Job, newer: Job) -> None:
        older.ask_to_stop(Stop.REPLACE, keeps_partial=_fetch_the_same(older, newer))
        await self._checkpoint(older)

    async def _give_up(self, job: Job) -> None:
        """Nobody will go on with a job that has ended without success: what it fetched goes."""
        if job.event.state == JobState.PAUSED:
            job.end(JobState.CANCELLED)
            await self._checkpoint(job)
            job.tell_end()
        if job.event.state != JobState.DONE:
            self._discard_later(job)

    # --- driving ---

    async def _resume(self, job: Job) -> None:
        """Go on with a job of an earlier process once this node is registered: it may belong to another node by now,
        and the places of its files are not known before."""
        await self._served.wait()
        await self._drive(job)

    async def _drive(self, job: Job) -> None:
        await self._tidied.wait()
        outcome = await self._outcome(job)
        match outcome:
            case Done(result):
                job.end(JobState.DONE, result=result)
            case Failed(error) if job.stop is None:
                job.end(JobState.FAILED, fault=fault_of(error))
                known = isinstance(error, CorralError)
                log.warning("job failed", job=job.id, problem=outcome.sentence, exc_info=None if known else error)
            case _:
                await self._doing.loading.end_started(job)
                self._end_stopped(job)
                if not job.keeps_partial:
                    self._discard_later(job)
        await self._ended(job)

    async def _outcome(self, job: Job) -> Outcome:
        """None: it was stopped."""
        if job.lives > MAX_LIVES:
            return Failed(Unavailable(f"The worker ended {MAX_LIVES} times during this job.", code="worker_restarted"))
        if job.stop is not None:
            return None
        work = self._tasks.start(attempt(lambda: self._doing.do(job)), name=f"do {job.id}")
        asked = self._tasks.start(job.stop_asked.wait(), name=f"stop of {job.id}")
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        while not work.done():
            work.cancel()
            # Asked again and again: `asyncio.wait_for` of Python 3.11 can lose a cancellation.
            await asyncio.wait({work}, timeout=CANCEL_AGAIN_S)
        outcome: Outcome = None if work.cancelled() else work.result()
        return outcome

    def _end_stopped(self, job: Job) -> None:
        done = self._doing.done(job)
        if done is not None:
            # The stop came after the swap: whatever anybody wanted, this is what there is.
            job.end(JobState.DONE, result=done)
        elif job.stop is Stop.REPLACE:
            fault = Fault(code="replaced", text="A newer command for this backend took its place.")
            job.end(JobState.CANCELLED, fault=fault)
        else:
            job.end(JobState.PAUSED if job.stop is Stop.PAUSE else JobState.CANCELLED)

    async def _ended(self, job: Job) -> None:
        await self._checkpoint(job)
        job.tell_end()
        log.info("job ended", job=job.id, backend=job.backend, state=job.event.state)
        if job.kind.is_change or job.kind is JobKind.LOAD:
            self.changed()
        self.ended.fire(job.event)
        for surplus in self._memory.take_surplus():
            await self._forget(surplus)

    def _discard_later(self, job: Job) -> None:
        if job.build is not None and not job.has_discarded:
            self._tasks.start(self._discard(job), name=f"discard {job.id}")

    async def _discard(self, job: Job) -> None:
        async with self._turns.change(job.backend):
            # Unless somebody goes on with it: what is fetched is kept by the name of the backend.
            if not any(other.build is not None for other in self._memory.unfinished(job.backend)):
                await self._doing.discard(job)

    # --- what outlives the process ---

    async def _load(self) -> None:
        remembered = await self._parts.journal.load()
        self._memory.load(remembered.seen)
        for record in remembered.jobs:
            try:
                job = self._taken_up(record)
            except CorralError as error:
                log.warning("a job of the journal is left out", job=record.job_id, problem=error.message)
                continue
            self._memory.add(job)
            self._memory.see(job.backend, job.generation)
        for job in self._memory.outdated():
            job.ask_to_stop(Stop.REPLACE, keeps_partial=True)
        for job in self._memory.unfinished():
            log.info("job is taken up again", job=job.id, backend=job.backend, times=job.lives)
            await self._checkpoint(job)
            self._tasks.start(self._resume(job), name=f"resume {job.id}")
        self._loaded.set()

    def _taken_up(self, record: JobRecord) -> Job:
        if JobState(record.event.state).is_final:
            return Job(record, build_of(record.kind, record.command), self._voice)
        event = replace(
            record.event,
            seq=record.reserved_seq,
            state=str(JobState.QUEUED),
            phase=str(Phase.QUEUED),
            current_bytes=None,
            total_bytes=None,
            file_name="",
        )
        record = replace(record, event=event, lives=record.lives + 1)
        return Job(record, build_of(record.kind, record.command), self._voice)

    async def _tidy(self) -> None:
        outcome = await attempt(self._parts.installer.tidy)
        if isinstance(outcome, Failed):
            log.warning("what the last start left behind could not be tidied", problem=outcome.sentence)
        self._tidied.set()
        self.changed()

    async def _upkeep(self) -> None:
        for job in self._memory.unfinished():
            job.keep_alive()
            if not job.is_saved:
                await self._checkpoint(job)

    async def until_loaded(self) -> None:
        """What was here before is known: the supervisor, which starts earlier, has adopted what runs."""
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._loaded.wait()
        except TimeoutError as error:
            raise Unavailable("This worker is starting.", code="worker_starting") from error

    async def _write(self, job: Job) -> None:
        await asyncio.shield(self._write_in_turn(job))

    async def _write_in_turn(self, job: Job) -> None:
        async with self._writing:
            record = job.record()
            await self._parts.journal.save(record)
            job.written(record)

    async def _checkpoint(self, job: Job) -> None:
        """As good as it goes: a full disk must not keep a job from its end."""
        outcome = await attempt(lambda: self._write(job))
        if isinstance(outcome, Failed):
            log.warning("a job is not in the journal as it is", job=job.id, problem=outcome.sentence)

    async def _remember(self) -> None:
        async def write() -> None:
            async with self._writing:
                await self._parts.journal.remember(self._memory.seen())

        outcome = await attempt(lambda: asyncio.shield(write()))
        if isinstance(outcome, Failed):
            log.warning("what was seen is not in the journal", problem=outcome.sentence)

    async def _forget(self, job_id: str) -> None:
        async with self._writing:
            outcome = await attempt(lambda: self._parts.journal.forget(job_id))
        if isinstance(outcome, Failed):
            log.warning("an old job stays in the journal", job=job_id, problem=outcome.sentence)


def _fetch_the_same(one: Job, other: Job) -> bool:
    return one.build is not None and other.build is not None and one.build.source == other.build.source
