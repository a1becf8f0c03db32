"""Several waits at the same time, a few at once. The first failure is raised when all of them have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from corral.runtime.guard import Done, Failed, attempt

T = TypeVar("T")


async def at_once(works: Sequence[Callable[[], Awaitable[T]]], limit: int) -> tuple[T, ...]:
    """The results, in the order of the works."""
    places = asyncio.Semaphore(limit)

    async def one(work: Callable[[], Awaitable[T]]) -> Done[T] | Failed:
        async with places:
            return await attempt(work)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(work)) for work in works]
    results: list[T] = []
    for task in running:
        outcome = task.result()
        if isinstance(outcome, Failed):
            raise outcome.error
        results.append(outcome.value)
    return tuple(results)
