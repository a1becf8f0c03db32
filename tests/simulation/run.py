"""Runs one scenario on one seed, from an empty loop to an empty loop.

Guarantee: whatever the scenario does, its tasks are ended and its loop is closed before `simulate` returns; the
first failure is the one that is raised. A task that refuses to end is named in a note on that failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.simulation.stuck import SimulationStuck, describe
from tests.simulation.virtual_loop import IO_LIMIT_S, TIME_LIMIT_S, VirtualLoop

T = TypeVar("T")


def simulate(
    seed: int,
    scenario: Callable[[VirtualLoop], Coroutine[Any, Any, T]],
    *,
    io_limit_s: float = IO_LIMIT_S,
    time_limit_s: float = TIME_LIMIT_S,
) -> T:
    """Run `scenario` to its end in virtual time."""
    loop = VirtualLoop(seed, io_limit_s=io_limit_s, time_limit_s=time_limit_s)
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(scenario(loop))
    except BaseException as failure:
        left = _end(loop)
        if left:
            failure.add_note(left)
        raise
    else:
        left = _end(loop)
        if left:
            raise SimulationStuck(left)
        return result
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _end(loop: VirtualLoop) -> str:
    """Cancel the tasks that are left, let them finish, and return a sentence about those that would not, or nothing."""
    left = loop.tasks()
    for task in left:
        task.cancel()
    try:
        if left:
            loop.run_until_complete(_wait(left))
        loop.abort_connections()
        loop.run_until_complete(loop.shutdown_asyncgens())
    except SimulationStuck:
        unwilling = loop.tasks()
        for task in unwilling:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # private: it is reported here
        return f"seed {loop.seed}: tasks did not end when they were cancelled:\n{describe(unwilling)}"
    return ""


async def _wait(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)
