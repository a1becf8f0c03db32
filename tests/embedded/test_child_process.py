"""One supervised process, with the smallest programs that misbehave."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from corral.embedded.child_process import (
    CHILD_BACKOFF,
    ChildDeps,
    ChildEvent,
    ChildEventKind,
    ChildLaunch,
    ChildPlan,
    ChildProcess,
)
from corral.embedded.home import BinaryNotFound, HomeLayout, open_home
from corral.embedded.owned_processes import MARKER_HOME, MARKER_NAME
from corral.embedded.supervisor_state import ChildState, SupervisorStateFile, read_snapshot
from corral.runtime.processes import RestartBackoff, RestartCount
from tests.embedded.cluster import lives

QUICK = RestartBackoff(first_s=0.01, ceiling_s=0.05)


class Stage:
    """Holds the dependencies of a child, and the events that it sent."""

    def __init__(self, root: Path) -> None:
        self.home: HomeLayout = open_home(root)
        self.events: asyncio.Queue[ChildEvent] = asyncio.Queue()
        self.hurry = asyncio.Event()
        self.around = ChildDeps(
            home=self.home,
            state=SupervisorStateFile(self.home.state),
            on_event=self.events.put_nowait,
            hurry=self.hurry,
            backoff=QUICK,
        )

    async def next(self, what: ChildEventKind) -> ChildEvent:
        async with asyncio.timeout(20):
            while True:
                event = await self.events.get()
                if event.kind is what:
                    return event

    @asynccontextmanager
    async def runs(self, plan: ChildPlan) -> AsyncIterator[ChildProcess]:
        child = ChildProcess(plan, self.around)
        async with asyncio.TaskGroup() as group:
            group.create_task(child.run())
            yield child
            await child.stop()

    def log(self) -> str:
        return self.home.get_log_path("one").read_text()


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "home")


async def at_once(_: int) -> bool:
    return True


def a_plan(
    script: str,
    *,
    is_ready: Callable[[int], Awaitable[bool]] = at_once,
    stop_signals: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 20.0),),
    start_limit_s: float = 20.0,
) -> ChildPlan:
    async def launch() -> ChildLaunch:
        return ChildLaunch(command=("/bin/sh", "-c", script), env={"PATH": os.defpath})

    return ChildPlan(
        name="one", launch=launch, is_ready=is_ready, stop_signals=stop_signals, start_limit_s=start_limit_s
    )


def says(stage: Stage, word: str) -> Callable[[int], Awaitable[bool]]:
    async def look(_: int) -> bool:
        return word in stage.log()

    return look


@pytest.mark.behaviour("UP-4")
async def test_process_that_ends_is_started_again_after_a_growing_pause(stage: Stage) -> None:
    script = "echo up; read nothing < /dev/null; exit 5"
    async with stage.runs(a_plan(script, is_ready=says(stage, "up"))):
        deaths = [await stage.next(ChildEventKind.DIED) for _ in range(3)]
    assert [one.reason for one in deaths] == ["one ended with exit code 5"] * 3
    assert [one.deaths for one in deaths] == [1, 2, 3]


def test_pause_doubles_up_to_its_ceiling() -> None:
    pauses = [RestartCount(in_a_row=deaths).compute_pause_s(CHILD_BACKOFF) for deaths in (1, 2, 3, 6, 7, 500)]
    assert pauses == [0.2, 0.4, 0.8, 6.4, 10.0, 10.0]


async def test_long_life_makes_the_pause_short_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "home")
    always = RestartBackoff(first_s=0.01, ceiling_s=0.05, reset_after_s=0.0)
    stage.around = ChildDeps(
        home=stage.home, state=stage.around.state, on_event=stage.around.on_event, hurry=stage.hurry, backoff=always
    )
    async with stage.runs(a_plan("exit 1")):
        deaths = [(await stage.next(ChildEventKind.DIED)).deaths for _ in range(3)]
    assert deaths == [1, 1, 1]


async def test_process_is_recorded_and_carries_the_marker(stage: Stage) -> None:
    async with stage.runs(a_plan(f"echo $${MARKER_HOME} ${MARKER_NAME}; exec sleep 600")) as child:
        await stage.next(ChildEventKind.READY)
        record = read_snapshot(stage.home.state).children["one"]
        assert (record.state, record.pid) == (ChildState.READY, child.pid)
        assert record.born_s is not None
        pid = child.pid
        assert pid is not None
        assert os.getsid(pid) == pid
    assert not lives(pid)
    assert read_snapshot(stage.home.state).children["one"].state is ChildState.STOPPED


@pytest.mark.behaviour("UP-1")
async def test_process_that_ignores_the_signal_is_killed_with_its_group(stage: Stage) -> None:
    script = "trap '' TERM; sleep 600 & echo $!; echo up; wait"
    plan = a_plan(script, is_ready=says(stage, "up"), stop_signals=((signal.SIGTERM, 0.05),))
    async with stage.runs(plan) as child:
        await stage.next(ChildEventKind.READY)
        pid = child.pid
        assert pid is not None
    grandchild = int(stage.log().split()[0])
    assert not lives(pid)
    assert not lives(grandchild)


async def test_hurry_cuts_the_wait_short(stage: Stage) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 600; done"
    plan = a_plan(script, is_ready=says(stage, "up"), stop_signals=((signal.SIGTERM, 3600.0),))
    async with stage.runs(plan):
        await stage.next(ChildEventKind.READY)
        stage.hurry.set()


async def test_requested_restart_of_a_child_is_not_counted_as_a_death(stage: Stage) -> None:
    async with stage.runs(a_plan("exec sleep 600")) as child:
        await stage.next(ChildEventKind.READY)
        before = child.pid
        child.restart()
        again = await stage.next(ChildEventKind.READY)
        assert child.pid != before
        assert (again.deaths, again.is_first) == (0, False)
    assert read_snapshot(stage.home.state).children["one"].restarts == 0


async def test_child_that_is_not_ready_in_time_fails_with_its_last_log_lines(stage: Stage) -> None:
    async def never(_: int) -> bool:
        return False

    async with stage.runs(a_plan("echo still thinking; exec sleep 600", is_ready=never, start_limit_s=0.05)) as child:
        failure = await asyncio.wait_for(child.failure, 20)
    assert "one was not ready after" in failure.message
    assert "still thinking" in failure.message
    assert str(stage.home.get_log_path("one")) in (failure.hint or "")


async def test_failure_that_only_a_person_can_mend_is_not_tried_again(stage: Stage) -> None:
    tries = 0

    async def launch() -> ChildLaunch:
        nonlocal tries
        tries += 1
        raise BinaryNotFound("There is no such program.", hint="Install it.")

    async with stage.runs(ChildPlan(name="one", launch=launch, is_ready=at_once)) as child:
        failure = await asyncio.wait_for(child.failure, 20)
    assert failure.message == "There is no such program."
    assert tries == 1


async def test_program_that_does_not_exist_is_a_failure_and_not_a_crash(stage: Stage) -> None:
    async def launch() -> ChildLaunch:
        return ChildLaunch(command=("/nonexistent/program",), env={})

    async with stage.runs(ChildPlan(name="one", launch=launch, is_ready=at_once)) as child:
        failure = await asyncio.wait_for(child.failure, 20)
    assert "/nonexistent/program" in failure.message


async def test_cancelling_the_supervisor_leaves_no_process(stage: Stage) -> None:
    child = ChildProcess(a_plan("exec sleep 600"), stage.around)
    task = asyncio.get_running_loop().create_task(child.run())
    await stage.next(ChildEventKind.READY)
    pid = child.pid
    assert pid is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(pid)
