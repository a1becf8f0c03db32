"""A call and its answer for code that awaits: everything that is not the hot path.

    async with asking(gateway, wish) as answer:
        async for piece in answer.pieces(): ...

Leaving the block early, by an error or by cancellation, hangs up on the engine. What lies here while its reader is slow
is bounded: beyond that the engine waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from corral.domain.errors import CorralError
from corral.ports.engines import HeadLines
from corral.runtime.tasks import Tasks
from corral.serving.errors import AnswerCut
from corral.serving.exchange import Exchange
from corral.serving.gateway import Gateway, Wish

__all__ = ["Answer", "AnswerCut", "asking"]

# How much may lie here unread.
BUFFER_BYTES = 256 * 1024


class Answer:
    """A `serving.gateway.Client`. Its head is there when `asking` hands it over."""

    def __init__(self, gateway: Gateway, wish: Wish) -> None:
        self.status = 0
        self.headers: HeadLines = ()
        self.size_bytes: int | None = None
        self.node_name = ""
        self._exchange = Exchange(gateway, wish, self)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._error: CorralError | None = None
        self._has_begun = False
        self._has_ended = False
        self._moved = asyncio.Event()
        self._may_write = asyncio.Event()

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name == b"content-type"), b"").decode("latin-1")

    async def read(self) -> bytes:
        """All of it."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """As they come; of a stream, always whole events. `AnswerCut` if it breaks off."""
        while True:
            for piece in self._taken():
                yield piece
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return
            await self._wait()

    def _taken(self) -> Iterator[bytes]:
        while self._waiting:
            piece = self._waiting.popleft()
            was_full = self._waiting_bytes > BUFFER_BYTES
            self._waiting_bytes -= len(piece)
            if was_full and self._waiting_bytes <= BUFFER_BYTES:
                self._exchange.resume()
            yield piece

    async def start(self) -> None:
        """Until its head is there."""
        self._exchange.start()
        while not (self._has_begun or self._error is not None):
            await self._wait()
        if not self._has_begun and self._error is not None:
            raise self._error

    async def send(self, body: AsyncIterator[bytes], left_bytes: int) -> None:
        """The rest of a body that comes in pieces."""
        async for piece in body:
            await self._may_write.wait()
            if self._exchange.is_over:
                return
            left_bytes -= len(piece)
            self._exchange.write(piece, is_last=left_bytes <= 0)

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def leave(self) -> None:
        self._exchange.abandon()

    def disown(self, error: CorralError, status: int | None = None) -> None:
        """It makes no sense: the client gets this status, or the answer's own if it has that already."""
        self._exchange.disown(error, status or self.status)

    # What the exchange says.

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        self.status, self.headers, self.size_bytes = status, head, size_bytes
        self.node_name = self._exchange.node_name
        self._has_begun = True
        self._moved.set()

    def piece(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > BUFFER_BYTES:
            self._exchange.pause()
        self._moved.set()

    def end(self) -> None:
        self._has_ended = True
        self._moved.set()

    def whole(self, status: int, head: HeadLines, body: bytes) -> None:
        self.begin(status, head, len(body))
        if body:
            self.piece(body)
        self.end()

    def fail(self, error: CorralError) -> None:
        self._error = error
        self._moved.set()

    def cut(self, error: CorralError) -> None:
        self._error = error
        self._moved.set()

    def wants_more(self, *, is_wanted: bool) -> None:
        if is_wanted:
            self._may_write.set()
        else:
            self._may_write.clear()


@asynccontextmanager
async def asking(gateway: Gateway, wish: Wish, body: AsyncIterator[bytes] | None = None) -> AsyncIterator[Answer]:
    """Have a call answered. `CorralError`: nothing has been passed on, and this is what to say instead.

    With `wish.size_bytes` set, `body` gives what follows `wish.body`; it is read no faster than the engine takes it.
    """
    answer = Answer(gateway, wish)
    sending = Tasks("upload")
    try:
        if body is not None:
            assert wish.size_bytes is not None, "a body in pieces says how long it is"
            sending.start(answer.send(body, wish.size_bytes - len(wish.body)), name="body")
        await answer.start()
        yield answer
    finally:
        answer.leave()
        await sending.close()
