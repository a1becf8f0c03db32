"""Runs long computations on the event loop in slices, so that everybody else has a turn between two of them.

A computation is a generator that yields what its last step cost, in units of about 50 ns. All computations of one
`SliceRunner` share one slice per turn of the loop, each in its turn: many of them take longer and stall nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

# About a millisecond or two, and five at most.
SLICE_COST = 32 * 1024

T = TypeVar("T")


class SliceRunner:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, computation: Generator[int, None, T]) -> T:
        """The result of a computation. What it raises is raised."""
        while True:
            async with self._turn:
                cost = 0
                try:
                    while cost < SLICE_COST:
                        cost += next(computation)
                except StopIteration as end:
                    found: T = end.value
                    return found
                # With the lock: the slice of the next one is for another turn of the loop.
                await asyncio.sleep(0)
