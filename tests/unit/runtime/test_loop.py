"""A loop goes on after a failed pass, can be woken, gated and stopped."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from corral.adapters.system import SystemClock
from corral.runtime.loop import Loop, LoopOptions

# So long that only a wake makes the next pass happen within a test.
NEVER_S = 3600.0


class Passes:
    """A tick that does what the script says, one entry per pass; then it succeeds."""

    def __init__(self, *script: BaseException | str) -> None:
        self._script = list(script)
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        step = self._script.pop(0) if self._script else "done"
        if isinstance(step, BaseException):
            raise step
        return step


@pytest.fixture
async def loops() -> AsyncIterator[Callable[..., Loop]]:
    made: list[Loop] = []

    def make(tick: Any, *, interval_s: float = NEVER_S, first_after_s: float = 0.0, **options: Any) -> Loop:
        plan = LoopOptions(name="test", interval_s=interval_s, first_after_s=first_after_s)
        made.append(Loop(plan, tick, SystemClock(), random.Random(1), **options))
        return made[-1]

    yield make
    for loop in made:
        await loop.stop()


async def _pass(loop: Loop) -> Any:
    """Wake the loop and wait for the pass that follows."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(loop.tick_signal.wait())
        await asyncio.wait([waiting], timeout=0)
        loop.wake()
    return waiting.result()


@pytest.mark.behaviour("NODE-136")
async def test_loop_goes_on_after_a_pass_that_failed(loops: Callable[..., Loop]) -> None:
    tick = Passes(RuntimeError("away"), RuntimeError("away"), "back")
    loop = loops(tick)
    with capture_logs():
        await loop.start()
        await _pass(loop)
        while tick.count < 3:
            await _pass(loop)
    assert (loop.counts.failures, loop.counts.ticks >= 3) == (2, True)


async def test_outage_is_logged_once_per_sentence_and_its_end_once(loops: Callable[..., Loop]) -> None:
    away, other = RuntimeError("away"), RuntimeError("other")
    loop = loops(Passes(away, away, away, other, other, "back", "well", away))
    with capture_logs() as logs:
        for _ in range(8):
            await loop.run_once()
    assert [(entry["event"], entry.get("error")) for entry in logs] == [
        ("loop pass failed", "away"),
        ("loop pass failed", "other"),
        ("loop recovered", None),
        ("loop pass failed", "away"),
    ]


async def test_wake_during_a_pass_makes_another_pass(loops: Callable[..., Loop]) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    count = 0

    async def tick() -> int:
        nonlocal count
        count += 1
        entered.set()
        await leave.wait()
        return count

    loop = loops(tick)
    await loop.start()
    await entered.wait()
    loop.wake()
    loop.wake()
    entered.clear()
    leave.set()
    await entered.wait()
    assert count == 2, "what changed during the first pass may not have been seen by it"


async def test_loop_ticks_by_its_interval_without_a_wake(loops: Callable[..., Loop]) -> None:
    tick = Passes()
    loop = loops(tick, interval_s=0.001)
    await loop.start()
    for _ in range(3):
        await loop.tick_signal.wait()
    assert tick.count >= 3


async def test_pass_behind_a_closed_gate_is_skipped(loops: Callable[..., Loop]) -> None:
    is_open = False
    tick = Passes()
    loop = loops(tick, gate=lambda: is_open)
    await loop.run_once()
    assert (tick.count, loop.counts.skipped) == (0, 1)
    is_open = True
    await loop.run_once()
    assert (tick.count, loop.counts.skipped) == (1, 1)


async def test_stopping_cancels_the_pass_and_can_be_repeated(loops: Callable[..., Loop]) -> None:
    entered = asyncio.Event()
    ended: list[str] = []

    async def tick() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    loop = loops(tick)
    await loop.stop()
    await loop.start()
    await entered.wait()
    await loop.stop()
    await loop.stop()
    assert ended == ["cleaned up"]
    loop.wake()
    entered.clear()
    await loop.start()
    await entered.wait()


async def test_loop_cannot_be_started_twice(loops: Callable[..., Loop]) -> None:
    loop = loops(Passes())
    await loop.start()
    with pytest.raises(AssertionError):
        await loop.start()


async def test_broken_assert_ends_the_loop_and_is_reported(loops: Callable[..., Loop]) -> None:
    crashed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    loop = loops(Passes(AssertionError("a bug")), on_crash=crashed.set_result)
    with capture_logs() as logs:
        await loop.start()
        assert isinstance(await crashed, AssertionError)
    assert [entry["event"] for entry in logs] == ["task crashed"]


def test_interval_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        LoopOptions(name="test", interval_s=0)


async def test_loop_with_a_later_first_pass_ticks_when_it_is_woken_and_not_before(loops: Callable[..., Loop]) -> None:
    tick = Passes()
    late, prompt = loops(tick, first_after_s=NEVER_S), loops(Passes())
    await late.start()
    await prompt.start()
    await prompt.tick_signal.wait()
    assert tick.count == 0
    await _pass(late)
    assert tick.count == 1
