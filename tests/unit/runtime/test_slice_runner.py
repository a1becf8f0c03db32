"""Long computations give way to everybody else, and take turns with each other."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from corral.runtime.slice_runner import SLICE_COST, SliceRunner


def _steps(count: int, name: str, done: list[str]) -> Generator[int, None, str]:
    for _ in range(count):
        done.append(name)
        yield SLICE_COST
    return name


async def test_other_tasks_run_between_two_slices() -> None:
    done: list[str] = []
    running = asyncio.create_task(SliceRunner().run(_steps(10, "scan", done)))
    while not running.done():
        done.append("other")
        await asyncio.sleep(0)
    assert await running == "scan"
    assert "scan scan" not in " ".join(done)


async def test_computations_of_one_runner_share_one_slice_per_turn() -> None:
    done: list[str] = []
    runner = SliceRunner()
    running = [asyncio.create_task(runner.run(_steps(5, name, done))) for name in ("a", "b", "c")]
    turns = 0
    while not all(one.done() for one in running):
        turns += 1
        await asyncio.sleep(0)
    assert turns >= len(done) == 15
    # Nobody is served twice while another waits.
    assert sorted(done[:3]) == sorted(done[3:6]) == ["a", "b", "c"]


async def test_error_of_a_computation_is_raised_and_others_continue() -> None:
    def broken() -> Generator[int, None, None]:
        yield SLICE_COST
        raise ValueError("it broke")

    runner = SliceRunner()
    with pytest.raises(ValueError, match="it broke"):
        await runner.run(broken())
    assert await runner.run(_steps(2, "next", [])) == "next"
