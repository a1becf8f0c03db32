"""Signals let a test wait for a thing to have happened instead of sleeping. They cost nothing in production."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Signal(Generic[T]):
    """Fires with a value; whoever is waiting at that moment gets it."""

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
