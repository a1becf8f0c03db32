"""How often a job speaks, and how far it says it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.bus.messages import BackendCommand, JobEvent
from corral.domain.operation import JobPhase, JobState
from corral.runtime.tasks import TaskSet
from corral.worker.jobs.job import DEBOUNCE_S, SEQ_STOCK, JobEventSink, WorkerJob, compute_percent
from corral.worker.jobs.journal import JobKind, JobRecord
from tests.simulation.clock import SimClock
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.worker.job_scene import CPU, JobScene, play
from tests.worker.pretend_work import MIB

# Timers of two clocks meet within a hair.
HAIR_S = 1e-6


class Listener:
    """A job alone, and when it spoke."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = SimClock(loop)
        self.events: list[tuple[float, JobEvent]] = []
        self.tasks = TaskSet("test")
        voice = JobEventSink(clock=self.clock, tasks=self.tasks, send=self._take)
        event = JobEvent(job_id="j1", seq=1, state="queued", phase="queued")
        command = BackendCommand(job_id="j1", generation=1, backend=CPU)
        record = JobRecord(kind=JobKind.INSTALL, command=command, backend=CPU, event=event, reserved_seq=1, number=1)
        self.job = WorkerJob(record, None, voice)
        self.job.mark_written(self.job.make_record())

    def _take(self, event: JobEvent) -> None:
        self.events.append((self.clock.monotonic(), event))


def listen(story: Callable[[Listener], Awaitable[None]], seed: int = 0) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        listener = Listener(loop)
        try:
            await story(listener)
        finally:
            await asyncio.shield(listener.tasks.close())

    simulate(seed, scenario)


@pytest.mark.behaviour("OPS-37")
@pytest.mark.parametrize("seed", range(3))
def test_progress_is_sent_at_once_then_every_quarter_second_and_the_newest_is_never_lost(seed: int):
    async def story(listener: Listener) -> None:
        job, clock = listener.job, listener.clock
        job.mark_running()
        job.on_phase(JobPhase.DOWNLOADING)
        await clock.sleep(1)
        began, before = clock.monotonic(), len(listener.events)
        for number in range(1, 1001):
            job.on_progress(number, 1000, "a.bin")
            await clock.sleep(0.003)
        ticks = listener.events[before:]
        assert ticks[0][0] == began
        assert ticks[0][1].current_bytes == 1
        times = [at for at, _ in ticks]
        assert all(later - earlier >= DEBOUNCE_S - HAIR_S for earlier, later in pairwise(times))
        # Three seconds: the first, and four in each.
        assert 11 <= len(ticks) <= 13
        await clock.sleep(1)
        assert listener.events[-1][1].current_bytes == 1000

    listen(story, seed)


@pytest.mark.behaviour("OPS-37")
def test_change_of_phase_is_not_held_back_and_the_last_word_is_the_last():
    async def story(listener: Listener) -> None:
        job, clock = listener.job, listener.clock
        job.mark_running()
        phases = (JobPhase.RESOLVING, JobPhase.DOWNLOADING, JobPhase.VERIFYING, JobPhase.EXTRACTING, JobPhase.CHECKING)
        for phase in phases:
            job.on_phase(phase)
            job.on_progress(1, 2, "a.bin")
            job.on_phase(phase)
        assert [event.phase for _, event in listener.events] == ["queued", *phases]
        assert {at for at, _ in listener.events} == {clock.monotonic()}
        job.end(JobState.DONE, result={"version": "1"})
        job.send_end()
        job.on_progress(2, 2, "a.bin")
        job.on_phase(JobPhase.COMMITTING)
        job.keep_alive()
        await clock.sleep(60)
        last = listener.events[-1][1]
        assert (last.state, last.percent, last.seq) == ("done", 100.0, 8)
        assert [event.seq for _, event in listener.events] == list(range(2, 9))

    listen(story)


@pytest.mark.behaviour("OPS-37")
def test_change_of_phase_tells_the_bytes_of_the_tick_that_was_held_back():
    async def story(listener: Listener) -> None:
        job = listener.job
        job.on_phase(JobPhase.DOWNLOADING)
        for number in (1, 2, 4):
            job.on_progress(number, 4, "a.bin")
        # Nothing passes between the last tick and the next phase, so the tick still waits for its turn.
        job.on_phase(JobPhase.EXTRACTING)
        last = listener.events[-1][1]
        assert (last.phase, last.current_bytes, last.total_bytes) == ("extracting", 4, 4)
        assert last.percent == 90.0, "bytes of one phase do not move the bar within the next one"

    listen(story)


@pytest.mark.behaviour("JOB-5")
def test_event_numbers_are_reserved_on_disk_before_use():
    async def story(listener: Listener) -> None:
        job = listener.job
        for number in range(2 * SEQ_STOCK):
            job.on_phase((JobPhase.DOWNLOADING, JobPhase.VERIFYING)[number % 2])
        assert listener.events[-1][1].seq == SEQ_STOCK + 1
        job.mark_written(job.make_record())
        job.on_phase(JobPhase.CHECKING)
        assert listener.events[-1][1].seq == SEQ_STOCK + 2

    listen(story)


def test_job_that_stands_still_or_waits_is_reported_every_ten_seconds():
    async def story(scene: JobScene) -> None:
        scene.installer.gates.hold(CPU, JobPhase.CHECKING)
        await scene.install("stands", 1)
        await scene.install("waits", 1)
        await scene.until(lambda: scene.installer.gates.has_reached(CPU, JobPhase.CHECKING))
        for _ in range(6):
            counts_before = len(scene.list_events("stands")), len(scene.list_events("waits"))
            # And a little for the way.
            await scene.clock.sleep(11)
            assert len(scene.list_events("stands")) > counts_before[0]
            assert len(scene.list_events("waits")) > counts_before[1]
        scene.installer.gates.open(CPU, JobPhase.CHECKING)
        await scene.end_of("waits")
        event_count = len(scene.events)
        await scene.clock.sleep(60)
        assert len(scene.events) == event_count

    play(story)


@pytest.mark.behaviour("OPS-37")
def test_job_events_include_every_phase_at_a_limited_rate():
    async def story(scene: JobScene) -> None:
        began = scene.clock.monotonic()
        await scene.install("j1", 1, size_bytes=1024 * MIB)
        await scene.end_of("j1")
        job_events = scene.list_events("j1")
        phases = list(dict.fromkeys(event.phase for event in job_events))
        assert phases[1:] == [
            "resolving",
            "downloading",
            "verifying",
            "extracting",
            "checking",
            "stopping",
            "committing",
        ]
        assert len(job_events) <= 4 * (scene.clock.monotonic() - began) + len(phases) + 2

    play(story)


@pytest.mark.behaviour("JOB-13")
@given(
    st.lists(
        st.one_of(
            st.sampled_from(JobPhase),
            st.tuples(st.integers(0, 10**12), st.one_of(st.none(), st.integers(0, 10**12))),
        ),
        max_size=30,
    )
)
def test_percentage_never_goes_back_and_is_a_hundred_only_at_the_end(reports: list[JobPhase | tuple[int, int | None]]):
    async def story(listener: Listener) -> None:
        job = listener.job
        seen = [0.0]
        for one in reports:
            if isinstance(one, JobPhase):
                job.on_phase(one)
            else:
                job.on_progress(*one)
            seen.append(job.event.percent)
        assert seen == sorted(seen)
        assert seen[-1] <= 99.0
        job.end(JobState.FAILED)
        assert job.event.percent == seen[-1]

    listen(story)


@pytest.mark.behaviour("JOB-13")
def test_bytes_are_most_of_the_way():
    assert compute_percent(JobPhase.DOWNLOADING, 50, 100) == 45.0
    assert compute_percent(JobPhase.VERIFYING, 100, 100) == 90.0
    assert compute_percent(JobPhase.DOWNLOADING, 500, 100) == 90.0
    # How much there is to fetch is not known, or nothing at all.
    assert compute_percent(JobPhase.DOWNLOADING, 50, None) == 0.0
    assert compute_percent(JobPhase.DOWNLOADING, 0, 0) == 0.0
    assert compute_percent(JobPhase.COMMITTING, None, None) == 99.0
