"""Runs long computations on the event loop in slices, so that other tasks run between two slices.

A computation is a generator that yields the cost of its last step, in units of about 50 ns. All computations of one
`SliceRunner` share one slice per turn of the loop, each in its turn: many of them take longer and block nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

# The cost of one slice: about a millisecond or two, and five at most.
SLICE_COST = 32 * 1024

T = TypeVar("T")


class SliceRunner:
    """Runs long computations on the event loop in short slices, so that other tasks run in between."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, computation: Generator[int, None, T]) -> T:
        """Return the result of a computation, or raise what it raises."""
        while True:
            async with self._turn:
                cost = 0
                try:
                    while cost < SLICE_COST:
                        cost += next(computation)
                except StopIteration as end:
                    found: T = end.value
                    return found
                # Yield with the lock held, so that the next computation gets its slice in another turn of the loop.
                await asyncio.sleep(0)
