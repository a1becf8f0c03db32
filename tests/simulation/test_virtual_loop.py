"""The loop: virtual time, seeded order, real sockets in between, and a report instead of a hang."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import asyncpg
import pytest

from tests.simulation.clock import SimClock
from tests.simulation.fingerprint import fingerprint
from tests.simulation.run import simulate
from tests.simulation.stuck import SimulationStuck
from tests.simulation.virtual_loop import VirtualLoop

ROOT = Path(__file__).parents[2]
HOUR_S = 3600.0
PRIVATE_NAMES = (
    *("_run_once", "_ready", "_scheduled", "_stopping", "_timer_cancelled_count"),
    *("_selector", "_process_events", "_write_to_self", "_transports"),
)


def test_sleep_of_ten_hours_ends_at_once_and_ten_hours_later():
    async def scenario(loop: VirtualLoop) -> float:
        for _ in range(10):
            await SimClock(loop).sleep(HOUR_S)
        return loop.time()

    assert simulate(0, scenario) == 10 * HOUR_S


def test_timeout_fires_at_its_virtual_time():
    async def scenario(loop: VirtualLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await SimClock(loop).sleep(HOUR_S)
        return loop.time()

    assert simulate(0, scenario) == 90


def test_seed_gives_the_same_trace_twice_in_one_process(seed: int):
    assert fingerprint(seed) == fingerprint(seed)


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_seed_gives_the_same_trace_in_another_process_with_other_hashes(hash_seed: str):
    command = [
        "env",
        f"PYTHONHASHSEED={hash_seed}",
        sys.executable,
        "-m",
        "tests.simulation.fingerprint",
        "0",
        "1",
        "2",
    ]
    other = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert other.stdout.split() == [fingerprint(seed) for seed in range(3)]


def test_different_seeds_give_different_orders():
    assert len({fingerprint(seed) for seed in range(20)}) == 20


def test_timers_of_one_instant_fire_in_the_order_of_the_seed_and_others_in_the_order_of_time():
    async def scenario(loop: VirtualLoop) -> str:
        fired: list[str] = []
        for name in "abc":
            loop.call_at(5, fired.append, name)
        loop.call_at(4, fired.append, "first ")
        loop.call_at(6, fired.append, " last")
        await SimClock(loop).sleep(7)
        return "".join(fired)

    orders = {simulate(seed, scenario) for seed in range(50)}
    assert orders == {f"first {order} last" for order in ("abc", "acb", "bac", "bca", "cab", "cba")}


class _Turn:
    """Gives the other tasks a turn when awaited, as a sleep of zero does."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def _count_to_two() -> int:
    """Add one in two tasks, each by reading, waiting a turn and writing.

    In the order of plain asyncio the first is done before the second begins, which hides that the number is read too
    early."""
    total = 0

    async def add_one(*, after_turns: int) -> None:
        nonlocal total
        for _ in range(after_turns):
            await _Turn()
        seen = total
        await _Turn()
        total = seen + 1

    async with asyncio.TaskGroup() as group:
        group.create_task(add_one(after_turns=0))
        group.create_task(add_one(after_turns=2))
    return total


def test_lost_update_that_plain_asyncio_never_shows_is_found_within_200_seeds():
    async def scenario(_loop: VirtualLoop) -> int:
        return await _count_to_two()

    assert {asyncio.run(_count_to_two()) for _ in range(200)} == {2}
    assert {simulate(seed, scenario) for seed in range(200)} == {1, 2}


def test_callbacks_keep_their_order_and_run_before_any_task(seed: int):
    async def scenario(loop: VirtualLoop) -> list[str]:
        ran: list[str] = []
        other = loop.create_task(_append(ran, "task"))
        for number in range(5):
            loop.call_soon(ran.append, f"callback {number}")
        await _Turn()
        await other
        return ran

    assert simulate(seed, scenario) == [*(f"callback {number}" for number in range(5)), "task"]


async def _append(ran: list[str], what: str) -> None:
    ran.append(what)


def test_virtual_time_stands_still_while_the_database_works(postgres: str):
    async def scenario(loop: VirtualLoop) -> tuple[float, bool]:
        rang = asyncio.Event()
        loop.call_later(0.000001, rang.set)
        with loop.io():
            connection = await asyncpg.connect(f"postgresql://postgres@{postgres}/postgres")
            await connection.execute("SELECT pg_sleep(0.05)")
            seen = loop.time(), rang.is_set()
            await connection.close()
        await rang.wait()
        return seen

    assert simulate(0, scenario) == (0.0, False)


def test_background_work_of_the_driver_counts_as_io(postgres: str):
    async def scenario(loop: VirtualLoop) -> tuple[int, int, float]:
        with loop.io():
            connection = await asyncpg.connect(f"postgresql://postgres@{postgres}/postgres")
        closing = loop.create_task(connection.close())
        at_work = len(loop.driver_tasks())
        async with asyncio.timeout(0.000001):
            await closing
        return at_work, len(loop.driver_tasks()), loop.time()

    assert simulate(0, scenario) == (1, 0, 0.0)


def test_answer_that_never_comes_is_reported_with_the_tasks(postgres: str):
    async def scenario(loop: VirtualLoop) -> None:
        with loop.io():
            connection = await asyncpg.connect(f"postgresql://postgres@{postgres}/postgres")
            # Waiting for the clock inside I/O cannot end: the clock waits for the I/O.
            await SimClock(loop).sleep(1)
            await connection.close()

    with pytest.raises(SimulationStuck, match=r"(?s)no socket moved for 0\.05 real seconds.*in sleep"):
        simulate(0, scenario, io_limit_s=0.05)


def test_deadlock_is_reported_with_the_line_at_which_each_task_waits():
    async def scenario(loop: VirtualLoop) -> None:
        ours, theirs = asyncio.Lock(), asyncio.Lock()

        async def take(first: asyncio.Lock, second: asyncio.Lock) -> None:
            async with first:
                await SimClock(loop).sleep(1)
                async with second:
                    pass

        async with asyncio.TaskGroup() as group:
            group.create_task(take(ours, theirs), name="left")
            group.create_task(take(theirs, ours), name="right")

    with pytest.raises(SimulationStuck, match=r"(?s)seed 3, at 1\.0.*a deadlock.*left.*in take.*right.*in take"):
        simulate(3, scenario)


def test_task_that_spins_is_reported():
    async def scenario(_loop: VirtualLoop) -> None:
        while True:
            await _Turn()

    with pytest.raises(SimulationStuck, match="a task spins instead of waiting"):
        simulate(0, scenario)


def test_run_without_an_end_is_reported():
    async def scenario(loop: VirtualLoop) -> None:
        while True:
            await SimClock(loop).sleep(60)

    with pytest.raises(SimulationStuck, match="went past 3600 virtual seconds"):
        simulate(0, scenario, time_limit_s=HOUR_S)


def test_task_that_will_not_end_is_named_and_hides_no_failure():
    async def stubborn(loop: VirtualLoop) -> None:
        while True:
            try:
                await loop.create_future()
            except asyncio.CancelledError:
                continue

    async def scenario(loop: VirtualLoop) -> None:
        loop.create_task(stubborn(loop), name="stubborn")
        await SimClock(loop).sleep(1)
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason") as failure:
        simulate(0, scenario)
    assert "stubborn" in failure.value.__notes__[0]


def test_private_names_of_asyncio_that_the_loop_stands_on_are_there():
    """When this fails on a new Python, read `asyncio/base_events.py` of it and bring `virtual_loop.py` up to date."""
    loop = asyncio.SelectorEventLoop()
    try:
        missing = [name for name in PRIVATE_NAMES if not hasattr(loop, name)]
        assert missing == [], f"asyncio of Python {sys.version} has lost {missing}; the virtual loop needs them"
        handle = asyncio.TimerHandle(0.0, print, (), loop)
        assert hasattr(handle, "_callback")
        assert hasattr(handle, "_run")
        assert hasattr(handle, "_scheduled")
        assert "_run_once" in inspect.getsource(asyncio.BaseEventLoop.run_forever) + inspect.getsource(
            getattr(asyncio.BaseEventLoop, "_run_forever_setup", asyncio.BaseEventLoop.run_forever)
        ), "run_forever no longer goes through _run_once"
    finally:
        loop.close()
