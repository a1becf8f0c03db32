"""Signals let a test wait for an event instead of sleeping. They cost nothing in production."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class ValueSignal(Generic[T]):
    """Hands a value to everybody who waits for it at the moment when it is fired. Lets tests wait for an event instead
    of sleeping."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[T]] = []

    def fire(self, value: T) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(value)

    async def wait(self, timeout_s: float = 30.0) -> T:
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        async with asyncio.timeout(timeout_s):
            return await waiter
