"""Whose turn it is with a backend.

Guarantee: one change of a concrete backend at a time, in the order in which they asked; different backends in
parallel, up to a limit. Engines are started beside a change that is still fetching, but not while files are being
swapped or removed. Nothing is kept of a backend that nobody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class _Turn:
    def __init__(self) -> None:
        self.users = 0
        self.changing = asyncio.Lock()
        self.may_start = asyncio.Event()
        self.may_start.set()


class Turns:
    def __init__(self, max_parallel: int) -> None:
        self._turns: dict[str, _Turn] = {}
        self._slots = asyncio.Semaphore(max_parallel)

    def __len__(self) -> int:
        return len(self._turns)

    @asynccontextmanager
    async def change(self, backend: str) -> AsyncIterator[None]:
        """Be the only one who changes it. A slot is taken only by who may work."""
        with self._used(backend) as turn:
            async with turn.changing, self._slots:
                yield

    async def after_changes(self, backend: str) -> None:
        """When the changes that wait or run now are over; for an engine that is only just being installed."""
        with self._used(backend) as turn:
            async with turn.changing:
                return

    async def until_startable(self, backend: str) -> None:
        with self._used(backend) as turn:
            await turn.may_start.wait()

    @contextmanager
    def no_starts(self, backend: str) -> Iterator[None]:
        """Hold back new starts of it."""
        with self._used(backend) as turn:
            turn.may_start.clear()
            try:
                yield
            finally:
                turn.may_start.set()

    @contextmanager
    def _used(self, backend: str) -> Iterator[_Turn]:
        turn = self._turns.setdefault(backend, _Turn())
        turn.users += 1
        try:
            yield turn
        finally:
            turn.users -= 1
            if turn.users == 0:
                del self._turns[backend]
