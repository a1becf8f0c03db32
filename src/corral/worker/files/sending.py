"""A range of a file as an answer, by the kernel where that is possible.

The bytes go from the file to the socket in a thread of their own pool, which waits for the socket itself: the event
loop has nothing to do with them, whichever loop it is. With a limit on the bandwidth, or over anything but a plain
socket, they are read and written in pieces instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from corral.ports.runtime import Clock
from corral.transfer.threads import Stop, Stopped
from corral.worker.files.throttle import Throttle

_PIECE_BYTES = 256 * 1024
# One call of the kernel's: between two of them the thread can be stopped.
_CALL_BYTES = 4 * 1024 * 1024
# Whoever takes no byte for this long is cut off.
STALL_S = 60.0
_LOOK_MS = 500
_TURN_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes of a file that is open; of how many."""

    descriptor: int
    start: int
    length: int
    total: int


class FileSender:
    def __init__(self, throttle: Throttle, clock: Clock, *, parallel: int) -> None:
        self._throttle = throttle
        self._clock = clock
        self._pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="serve")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def send(self, request: web.Request, span: Span, *, is_range: bool) -> web.StreamResponse:
        response = web.StreamResponse(status=HTTPStatus.PARTIAL_CONTENT if is_range else HTTPStatus.OK)
        response.content_type = "application/octet-stream"
        response.content_length = span.length
        response.headers["Accept-Ranges"] = "bytes"
        if is_range:
            last = span.start + span.length - 1
            response.headers["Content-Range"] = f"bytes {span.start}-{last}/{span.total}"
        writer = await response.prepare(request)
        assert writer is not None, "an answer is prepared once"
        # Headers may be kept back until there is a body.
        writer.send_headers()
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the asker has left")
        own = transport.get_extra_info("socket") if self._throttle.is_open else None
        if own is None or transport.get_extra_info("sslcontext") is not None or not hasattr(os, "sendfile"):
            await self._in_pieces(response, span)
        else:
            await self._by_kernel(transport, own, span)
        await response.write_eof()
        return response

    async def _in_pieces(self, response: web.StreamResponse, span: Span) -> None:
        offset, end = span.start, span.start + span.length
        while offset < end:
            piece = await asyncio.to_thread(os.pread, span.descriptor, min(_PIECE_BYTES, end - offset), offset)
            if not piece:
                raise ConnectionResetError("the file has become shorter")
            await self._throttle.take(len(piece))
            await response.write(piece)
            offset += len(piece)

    async def _headers_sent(self, transport: asyncio.Transport) -> None:
        pause_s = 0.0
        async with asyncio.timeout(STALL_S):
            while transport.get_write_buffer_size():
                # They are a few bytes: the next turn of the loop is enough.
                await self._clock.sleep(pause_s)
                pause_s = _TURN_S

    async def _by_kernel(self, transport: asyncio.Transport, own: socket.socket, span: Span) -> None:
        loop = asyncio.get_running_loop()
        # A descriptor of its own: the transport may close its one meanwhile, and the number be used again.
        copy = os.dup(own.fileno())
        stop = Stop()
        try:
            await self._headers_sent(transport)
            future = loop.run_in_executor(self._pool, _send, copy, span, stop)
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({future})
                future.exception()
                raise
        except BaseException:
            # Nobody knows how much has gone out: this connection is of no use any more.
            with contextlib.suppress(OSError):
                transport.abort()
            raise
        finally:
            os.close(copy)


def _send(target: int, span: Span, stop: Stop) -> None:
    offset, end, waited_ms = span.start, span.start + span.length, 0
    poll = select.poll()
    poll.register(target, select.POLLOUT)
    while offset < end:
        try:
            stop.check()
            sent = os.sendfile(target, span.descriptor, offset, min(_CALL_BYTES, end - offset))
        except BlockingIOError:
            if not poll.poll(_LOOK_MS):
                waited_ms += _LOOK_MS
                if waited_ms >= STALL_S * 1000:
                    raise ConnectionResetError("the asker takes nothing") from None
            continue
        except Stopped:
            raise ConnectionResetError("told to stop") from None
        if not sent:
            raise ConnectionResetError("the file has become shorter")
        offset, waited_ms = offset + sent, 0
