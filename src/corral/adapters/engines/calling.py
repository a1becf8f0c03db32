"""A call to wait for, on top of `Lines.send`. Goes away with the last one that waits (`ports.engines.Engines`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from corral.ports.engines import EngineAnswer, EngineCall, EngineLost, EngineRefused, Headers, Line, Lines

# What may lie here while a client is slow, and one read more.
HELD_BYTES_MAX = 64 * 1024


class _Answer:
    """A `Hearer`. Its owner reads the pieces and sets the line after `send`."""

    def __init__(self) -> None:
        self.status = 0
        self.content_type = "application/json"
        self.is_over = False
        self.line: Line
        self._error: EngineRefused | EngineLost | None = None
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._moved = asyncio.Event()

    def on_head(self, status: int, headers: Headers) -> None:
        self.status = status
        self.content_type = dict(headers).get(b"content-type", b"application/json").decode("latin-1")
        self._moved.set()

    def on_body(self, piece: bytes) -> None:
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > HELD_BYTES_MAX:
            self.line.pause()
        self._moved.set()

    def on_end(self) -> None:
        self.is_over = True
        self._moved.set()

    def on_lost(self, error: EngineRefused | EngineLost) -> None:
        self._error, self.is_over = error, True
        self._moved.set()

    def on_writable(self, is_writable: bool) -> None:  # noqa: ARG002, FBT001 - as the port says
        return

    async def begun(self) -> None:
        while not self.status and not self.is_over:
            await self._move()
        if not self.status and self._error is not None:
            raise self._error

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            while self._held:
                piece = self._held.popleft()
                self._held_bytes -= len(piece)
                yield piece
            if self.is_over:
                break
            self.line.resume()
            await self._move()
        if self._error is not None:
            raise self._error

    async def _move(self) -> None:
        await self._moved.wait()
        self._moved.clear()


@asynccontextmanager
async def called(lines: Lines, call: EngineCall) -> AsyncIterator[EngineAnswer]:
    answer = _Answer()
    answer.line = lines.send(call, answer)
    try:
        await answer.begun()
        yield answer
    finally:
        answer.line.hang_up()
