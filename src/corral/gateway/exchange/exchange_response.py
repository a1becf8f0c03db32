"""Await-style wrapper around `Exchange`, for everything that is not the hot path.

    async with open_exchange(gateway, request) as response:
        async for piece in response.iter_pieces(): ...

Leaving the block early, by an error or by cancellation, aborts the engine call. The bytes that are buffered for a slow
reader are bounded: beyond the limit, the engine is paused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from corral.domain.errors import CorralError
from corral.gateway.errors import ResponseInterrupted
from corral.gateway.exchange.exchange import Exchange
from corral.gateway.exchange.exchange_state import READ_BYTES_MAX
from corral.gateway.exchange.gateway import Gateway, InferenceRequest
from corral.ports.requests import EngineLost, HeadLines
from corral.runtime.tasks import TaskSet

__all__ = ["ExchangeResponse", "ResponseInterrupted", "open_exchange"]

# How many bytes may be buffered unread.
BUFFER_BYTES = 256 * 1024


class ExchangeResponse:
    """Response of one inference request for callers that are coroutines: an await-style wrapper around `Exchange`.

    Buffers the response until it is read. Implements `gateway.exchange.gateway.ResponseSink`.
    """

    def __init__(self, gateway: Gateway, request: InferenceRequest) -> None:
        self.status = 0
        self.headers: HeadLines = ()
        self.size_bytes: int | None = None
        self.node_name = ""
        self._exchange = Exchange(gateway, request, self)
        self._pieces: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._error: CorralError | None = None
        self._has_begun = False
        self._has_ended = False
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name == b"content-type"), b"").decode("latin-1")

    async def read(self, bytes_max: int = READ_BYTES_MAX) -> bytes:
        """Return the whole response body. Raises `EngineLost` if it has more than `bytes_max` bytes."""
        pieces, size_bytes = [], 0
        async for piece in self.iter_pieces():
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > bytes_max:
                raise EngineLost("The engine's response is too large.", code="engine_answer_too_large")
        return b"".join(pieces)

    async def iter_pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the response as they come; of a stream, always whole events. Raises `ResponseInterrupted`
        if the response breaks off."""
        while True:
            for piece in self._pop_pieces():
                yield piece
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return
            await self._wait_for_change()

    def _pop_pieces(self) -> Iterator[bytes]:
        while self._pieces:
            piece = self._pieces.popleft()
            was_full = self._buffered_bytes > BUFFER_BYTES
            self._buffered_bytes -= len(piece)
            if was_full and self._buffered_bytes <= BUFFER_BYTES:
                self._exchange.resume()
            yield piece

    async def start(self) -> None:
        """Start the exchange and wait until the response head is there."""
        self._exchange.start()
        while not (self._has_begun or self._error is not None):
            await self._wait_for_change()
        if not self._has_begun and self._error is not None:
            raise self._error

    async def send_body(self, body: AsyncIterator[bytes], left_bytes: int) -> None:
        """Send the rest of a body that comes in pieces."""
        async for piece in body:
            await self._writable.wait()
            if self._exchange.is_done:
                return
            left_bytes -= len(piece)
            self._exchange.write(piece, is_last=left_bytes <= 0)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def abandon(self) -> None:
        self._exchange.abandon()

    def reject_response(self, error: CorralError, status: int | None = None) -> None:
        """Mark the response as unusable. The request is recorded with `status`, or with the response's own if its head
        was sent already."""
        self._exchange.reject_response(error, status or self.status)

    # The methods of `gateway.exchange.gateway.ResponseSink`, called by the exchange

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        self.status, self.headers, self.size_bytes = status, head, size_bytes
        self.node_name = self._exchange.node_name
        self._has_begun = True
        self._changed.set()

    def send_piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes > BUFFER_BYTES:
            self._exchange.pause()
        self._changed.set()

    def end(self) -> None:
        self._has_ended = True
        self._changed.set()

    def send_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        self.begin(status, head, len(body))
        if body:
            self.send_piece(body)
        self.end()

    def fail(self, error: CorralError) -> None:
        self._error = error
        self._changed.set()

    def cut(self, error: CorralError) -> None:
        self._error = error
        self._changed.set()

    def on_writable(self, *, is_writable: bool) -> None:
        if is_writable:
            self._writable.set()
        else:
            self._writable.clear()


@asynccontextmanager
async def open_exchange(
    gateway: Gateway, request: InferenceRequest, body: AsyncIterator[bytes] | None = None
) -> AsyncIterator[ExchangeResponse]:
    """Send a request to an engine and yield its response. Raises `CorralError` if nothing was relayed; report it to the
    client instead.

    With `request.size_bytes` set, `body` yields the bytes that follow `request.body`; it is read no faster than the
    engine takes it."""
    answer = ExchangeResponse(gateway, request)
    sending = TaskSet("upload")
    try:
        if body is not None:
            assert request.size_bytes is not None, "a body in pieces needs its size"
            sending.start(answer.send_body(body, request.size_bytes - len(request.body)), name="body")
        await answer.start()
        yield answer
    finally:
        answer.abandon()
        await sending.close()
