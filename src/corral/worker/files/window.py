"""How many chunks of one content are fetched at a time: many on a fast line, one on a slow one.

On a slow line, chunks that share it all come late, and so they do for every node that waits for this one to pass them
on; one after the other comes just as soon as all. On a fast line, what is lost between two chunks counts more.
"""

from __future__ import annotations

import asyncio

# What one chunk takes if it has the line for itself.
_FAST_S = 0.05
_SLOW_S = 0.5


class Window:
    """Begins with one chunk, since nobody knows the line yet."""

    def __init__(self, widest: int) -> None:
        self._widest = widest
        self.width = 1
        self._is_closed = False
        self._moved = asyncio.Event()

    async def lets(self, number: int) -> bool:
        """Wait until the fetcher of this number may go on; False: there is nothing more to fetch."""
        while number >= self.width and not self._is_closed:
            await self._moved.wait()
        return not self._is_closed

    def took(self, seconds: float) -> None:
        """One chunk has come, beside those that were on their way with it."""
        alone_s = seconds / self.width
        middle = min(2, self._widest)
        self._set(self._widest if alone_s < _FAST_S else middle if alone_s < _SLOW_S else 1)

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _set(self, width: int) -> None:
        self.width = width
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
