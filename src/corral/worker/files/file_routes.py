"""Serves files on the worker's own port: contents for other nodes, and an inbox for files that are sent.

    GET, HEAD /v1/blobs/{sha256}       a content, or its chunks that are here; a request for a range that is not
                                       complete yet waits, and is then answered 425 with the number of chunks
    HEAD, PUT, GET /v1/files/{key}     `transfer/inbox.py`

Every request needs a ticket of this cluster (`transfer/tickets.py`): one that reads contents, or one for exactly this
key or a folder above it. Only verified chunks leave this machine.

Ranges are sent by the kernel where that is possible: the bytes go from the file to the socket in a thread of their own
pool, which waits for the socket itself, and the event loop has nothing to do with them. With a limit on bandwidth, or
over anything but a plain socket, they are read and written in pieces instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from aiohttp import hdrs, web

from corral.domain.errors import CorralError, NotFound, Unavailable
from corral.ports.credentials import BLOB_READ_SCOPE, make_file_write_scope
from corral.ports.runtime import Clock
from corral.transfer.chunks import check_sha256, list_chunks
from corral.transfer.files import StopFlag, WorkStopped
from corral.transfer.inbox import (
    CONTENT_HEADER,
    SIZE_HEADER,
    TARGET_HEADER,
    Inbox,
    InboxResponse,
    InboxUpload,
    make_failure_response,
)
from corral.transfer.tickets import verify_ticket
from corral.worker.files.blob_store import BlobStore, ReadableContent
from corral.worker.files.content_puller import HAVE_HEADER, BandwidthThrottle

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# How long a request may wait here for a chunk that is being fetched.
WAIT_S = 5.0
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")
_PIECE_BYTES = 256 * 1024
# Bytes of one system call: between two of them the thread can be stopped.
_CALL_BYTES = 4 * 1024 * 1024
# A client that takes no byte for this long is cut off.
STALL_S = 60.0
_LOOK_MS = 500
_TURN_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpan:
    """A range of bytes of an open model file that a worker sends, and the size of the whole file."""

    descriptor: int
    start: int
    length: int
    total: int


class FileSender:
    """Sends a range of a model file as an HTTP response, by the kernel where that is possible."""

    def __init__(self, throttle: BandwidthThrottle, clock: Clock, *, parallel: int) -> None:
        self._throttle = throttle
        self._clock = clock
        self._pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="serve")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def send(self, request: web.Request, span: FileSpan, *, is_range: bool) -> web.StreamResponse:
        response = web.StreamResponse(status=HTTPStatus.PARTIAL_CONTENT if is_range else HTTPStatus.OK)
        response.content_type = "application/octet-stream"
        response.content_length = span.length
        response.headers["Accept-Ranges"] = "bytes"
        if is_range:
            last = span.start + span.length - 1
            response.headers["Content-Range"] = f"bytes {span.start}-{last}/{span.total}"
        writer = await response.prepare(request)
        assert writer is not None, "an answer is prepared once"
        # Headers may be held back until there is a body.
        writer.send_headers()
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client has disconnected")
        own = transport.get_extra_info("socket") if self._throttle.is_unlimited else None
        if own is None or transport.get_extra_info("sslcontext") is not None or not hasattr(os, "sendfile"):
            await self._send_pieces(response, span)
        else:
            await self._send_by_kernel(transport, own, span)
        await response.write_eof()
        return response

    async def _send_pieces(self, response: web.StreamResponse, span: FileSpan) -> None:
        offset, end = span.start, span.start + span.length
        while offset < end:
            piece = await asyncio.to_thread(os.pread, span.descriptor, min(_PIECE_BYTES, end - offset), offset)
            if not piece:
                raise ConnectionResetError("the file has become shorter")
            await self._throttle.take(len(piece))
            await response.write(piece)
            offset += len(piece)

    async def _wait_headers_sent(self, transport: asyncio.Transport) -> None:
        pause_s = 0.0
        async with asyncio.timeout(STALL_S):
            while transport.get_write_buffer_size():
                # The headers are a few bytes: the next turn of the loop is enough.
                await self._clock.sleep(pause_s)
                pause_s = _TURN_S

    async def _send_by_kernel(self, transport: asyncio.Transport, target: socket.socket, span: FileSpan) -> None:
        loop = asyncio.get_running_loop()
        # Use a duplicate descriptor: the transport may close its own meanwhile, and the number may be reused.
        copy = os.dup(target.fileno())
        stop = StopFlag()
        try:
            await self._wait_headers_sent(transport)
            future = loop.run_in_executor(self._pool, _send_span, copy, span, stop)
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({future})
                future.exception()
                raise
        except BaseException:
            # It is unknown how much has been sent, so this connection cannot be used any more.
            with contextlib.suppress(OSError):
                transport.abort()
            raise
        finally:
            os.close(copy)


def _send_span(target: int, span: FileSpan, stop: StopFlag) -> None:
    offset, end, waited_ms = span.start, span.start + span.length, 0
    poll = select.poll()
    poll.register(target, select.POLLOUT)
    while offset < end:
        try:
            stop.raise_if_set()
            sent = os.sendfile(target, span.descriptor, offset, min(_CALL_BYTES, end - offset))
        except BlockingIOError:
            if not poll.poll(_LOOK_MS):
                waited_ms += _LOOK_MS
                if waited_ms >= STALL_S * 1000:
                    raise ConnectionResetError("the client reads nothing") from None
            continue
        except WorkStopped:
            raise ConnectionResetError("the transfer was stopped") from None
        if not sent:
            raise ConnectionResetError("the file has become shorter")
        offset, waited_ms = offset + sent, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketContext:
    """What a worker checks the tickets of file requests against: the cluster's public key and its own node id."""

    get_ticket_key: Callable[[], str]
    get_node_id: Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRoutesOptions:
    """Tunables of a worker's file routes: responses at a time, bandwidth, and how long a reader waits for a chunk."""

    # Responses in flight at a time; further requests get an error and retry later or elsewhere.
    parallel: int = 16
    bandwidth_bytes_per_s: int | None = None
    wait_s: float = WAIT_S


class FileRoutes:
    """Serves a worker's model files to other nodes and receives uploads, for ticket holders.

    Implements `HttpRoutes`.
    """

    def __init__(
        self,
        store: BlobStore,
        inbox: Inbox,
        tickets: TicketContext,
        clock: Clock,
        options: FileRoutesOptions | None = None,
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._tickets = tickets
        self._clock = clock
        self._options = options or FileRoutesOptions()
        throttle = BandwidthThrottle(self._options.bandwidth_bytes_per_s, clock)
        self._sender = FileSender(throttle, clock, parallel=self._options.parallel)
        self._serving_count = 0

    def add_to(self, application: web.Application) -> None:
        router = application.router
        # aiohttp adds HEAD to every GET by itself.
        router.add_get("/v1/blobs/{sha256}", _render_errors(self._serve_blob))
        router.add_get("/v1/files/{key:.+}", _render_errors(self._read_file), allow_head=False)
        router.add_head("/v1/files/{key:.+}", _render_errors(self._probe_file))
        router.add_put("/v1/files/{key:.+}", _render_errors(self._write_file))

    def close(self) -> None:
        self._sender.close()

    # --- contents ---

    async def _serve_blob(self, request: web.Request) -> web.StreamResponse:
        self._check_ticket(request, (BLOB_READ_SCOPE,))
        sha256 = check_sha256(request.match_info["sha256"])
        found = self._store.find(sha256)
        if found is None:
            raise NotFound("This content is not on this node.", code="blob_not_here")
        if request.method == hdrs.METH_HEAD:
            return _make_head_response(found, sha256)
        with self._take_slot(), _open_file(found.path) as descriptor:
            requested_range = _parse_range(request, found.size_bytes)
            start, length = requested_range or (0, found.size_bytes)
            if found.partial is not None:
                chunks = list_chunks(start, length)
                if not await found.partial.wait_for(chunks, self._options.wait_s):
                    headers = {"Retry-After": "1", HAVE_HEADER: str(found.partial.verified_chunks)}
                    return web.Response(status=HTTPStatus.TOO_EARLY, headers=headers)
            span = FileSpan(descriptor=descriptor, start=start, length=length, total=found.size_bytes)
            return await self._sender.send(request, span, is_range=requested_range is not None)

    # --- the inbox ---

    async def _probe_file(self, request: web.Request) -> web.StreamResponse:
        key = self._authorise_key(request)
        answer = await self._inbox.probe(key, request.headers.get(TARGET_HEADER, ""))
        return web.Response(status=answer.status, headers=answer.headers)

    async def _write_file(self, request: web.Request) -> web.StreamResponse:
        key = self._authorise_key(request)
        with self._take_slot():
            upload = InboxUpload(
                body=request.content.iter_any().__aiter__(),
                sha256=request.headers.get(CONTENT_HEADER, ""),
                content_range=request.headers.get(hdrs.CONTENT_RANGE, ""),
            )
            try:
                answer = await self._inbox.receive(key, upload)
            except CorralError as error:
                answer = make_failure_response(error)
        response = _render(answer)
        if not request.content.at_eof():
            # The unread rest of the body would be taken for the next request.
            response.force_close()
        return response

    async def _read_file(self, request: web.Request) -> web.StreamResponse:
        path = self._inbox.find_file(self._authorise_key(request))
        with self._take_slot(), _open_file(path) as descriptor:
            size_bytes = os.fstat(descriptor).st_size
            requested_range = _parse_range(request, size_bytes)
            start, length = requested_range or (0, size_bytes)
            span = FileSpan(descriptor=descriptor, start=start, length=length, total=size_bytes)
            return await self._sender.send(request, span, is_range=requested_range is not None)

    def _authorise_key(self, request: web.Request) -> str:
        key = request.match_info["key"]
        folders = (key[: place + 1] for place, character in enumerate(key) if character == "/")
        self._check_ticket(request, tuple(map(make_file_write_scope, (key, *folders))))
        return key

    # --- who, and how many ---

    def _check_ticket(self, request: web.Request, scopes: tuple[str, ...]) -> None:
        header = request.headers.get(hdrs.AUTHORIZATION, "")
        verify_ticket(
            header.removeprefix("Bearer ").strip(),
            self._tickets.get_ticket_key(),
            audience=self._tickets.get_node_id() or "",
            scopes=scopes,
            now=self._clock.wall(),
        )

    @contextlib.contextmanager
    def _take_slot(self) -> Iterator[None]:
        if self._serving_count >= self._options.parallel:
            raise Unavailable("This node is serving as many files as it can.", code="too_many_readers")
        self._serving_count += 1
        try:
            yield
        finally:
            self._serving_count -= 1


def _render_errors(handler: Handler) -> Handler:
    """Wrap a handler so that Corral's errors become HTTP responses."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except CorralError as error:
            return _render(make_failure_response(error))

    return handle


def _render(answer: InboxResponse) -> web.Response:
    return web.json_response(answer.body, status=answer.status, headers=answer.headers)


def _make_head_response(found: ReadableContent, sha256: str) -> web.Response:
    headers = {SIZE_HEADER: str(found.size_bytes), "Accept-Ranges": "bytes"}
    if found.partial is None:
        headers[CONTENT_HEADER] = sha256
    else:
        headers[TARGET_HEADER] = sha256
        headers[HAVE_HEADER] = str(found.partial.verified_chunks)
    return web.Response(headers=headers)


def _parse_range(request: web.Request, size_bytes: int) -> tuple[int, int] | None:
    """Return start and length of the requested range; None without one. Several ranges are treated as none."""
    text = request.headers.get(hdrs.RANGE, "")
    found = _RANGE.fullmatch(text)
    if not text or found is None or found.groups() == (None, None):
        return None
    first, last = found.groups()
    if first is None:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), min(size_bytes, int(last) + 1 if last else size_bytes)
    if start >= end:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size_bytes}"})
    return start, end - start


@contextlib.contextmanager
def _open_file(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise NotFound("This file is not here any more.", code="blob_not_here") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
