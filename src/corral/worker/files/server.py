"""Files on the worker's own port: contents for other nodes, and an inbox for files that are sent.

    GET, HEAD /v1/blobs/{sha256}       a content, or the chunks of it that are here; a range that is not complete yet is
                                       waited for, and then answered 425 with how many chunks there are
    HEAD, PUT, GET /v1/files/{key}     `transfer/inbox.py`

Nobody gets anything without a ticket of this cluster (`transfer/tickets.py`): one that reads contents, or one for just
this key or a folder above it. Only verified chunks leave this machine.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from aiohttp import hdrs, web

from corral.domain.errors import CorralError, NotFound, Unavailable
from corral.ports.credentials import READS_BLOBS, writes_file
from corral.ports.runtime import Clock
from corral.transfer.chunks import check_sha256, chunks_of
from corral.transfer.inbox import CONTENT, SIZE, TARGET, Answer, Inbox, Upload, failed_answer
from corral.transfer.tickets import verify_ticket
from corral.worker.files.pulling import HAVE_HEADER
from corral.worker.files.sending import FileSender, Span
from corral.worker.files.store import BlobStore, Opened
from corral.worker.files.throttle import Throttle

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# How long somebody may wait here for a chunk that is on its way.
WAIT_S = 5.0
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whose tickets count, and who this is. Both are known once the node has been registered."""

    ticket_key: Callable[[], str]
    node_id: Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    # Answers that are being sent at a time; whoever comes then is told to come again, or asks elsewhere.
    parallel: int = 16
    bandwidth_bytes_per_s: int | None = None
    wait_s: float = WAIT_S


class FileRoutes:
    """Handlers for an application; `close` after it has stopped."""

    def __init__(
        self, store: BlobStore, inbox: Inbox, gate: Gate, clock: Clock, options: ServeOptions | None = None
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._gate = gate
        self._clock = clock
        self._options = options or ServeOptions()
        throttle = Throttle(self._options.bandwidth_bytes_per_s, clock)
        self._sender = FileSender(throttle, clock, parallel=self._options.parallel)
        self._serving = 0

    def add_to(self, application: web.Application) -> None:
        router = application.router
        # aiohttp adds HEAD to every GET by itself.
        router.add_get("/v1/blobs/{sha256}", _told(self._blob))
        router.add_get("/v1/files/{key:.+}", _told(self._read_file), allow_head=False)
        router.add_head("/v1/files/{key:.+}", _told(self._probe_file))
        router.add_put("/v1/files/{key:.+}", _told(self._write_file))

    def close(self) -> None:
        self._sender.close()

    # --- contents ---

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        self._let_in(request, (READS_BLOBS,))
        sha256 = check_sha256(request.match_info["sha256"])
        found = self._store.find(sha256)
        if found is None:
            raise NotFound("This content is not on this node.", code="blob_not_here")
        if request.method == hdrs.METH_HEAD:
            return _described(found, sha256)
        with self._turn(), _opened(found.path) as descriptor:
            asked = _asked(request, found.size_bytes)
            start, length = asked or (0, found.size_bytes)
            if found.partial is not None:
                chunks = chunks_of(start, length)
                if not await found.partial.wait_for(chunks, self._options.wait_s):
                    headers = {"Retry-After": "1", HAVE_HEADER: str(found.partial.have_chunks)}
                    return web.Response(status=HTTPStatus.TOO_EARLY, headers=headers)
            span = Span(descriptor=descriptor, start=start, length=length, total=found.size_bytes)
            return await self._sender.send(request, span, is_range=asked is not None)

    # --- the inbox ---

    async def _probe_file(self, request: web.Request) -> web.StreamResponse:
        key = self._key(request)
        answer = await self._inbox.probe(key, request.headers.get(TARGET, ""))
        return web.Response(status=answer.status, headers=answer.headers)

    async def _write_file(self, request: web.Request) -> web.StreamResponse:
        key = self._key(request)
        with self._turn():
            upload = Upload(
                body=request.content.iter_any().__aiter__(),
                sha256=request.headers.get(CONTENT, ""),
                content_range=request.headers.get(hdrs.CONTENT_RANGE, ""),
            )
            try:
                answer = await self._inbox.receive(key, upload)
            except CorralError as error:
                answer = failed_answer(error)
        response = _rendered(answer)
        if not request.content.at_eof():
            # What was not read of the body would be taken for the next call.
            response.force_close()
        return response

    async def _read_file(self, request: web.Request) -> web.StreamResponse:
        path = self._inbox.path(self._key(request))
        with self._turn(), _opened(path) as descriptor:
            size_bytes = os.fstat(descriptor).st_size
            asked = _asked(request, size_bytes)
            start, length = asked or (0, size_bytes)
            span = Span(descriptor=descriptor, start=start, length=length, total=size_bytes)
            return await self._sender.send(request, span, is_range=asked is not None)

    def _key(self, request: web.Request) -> str:
        key = request.match_info["key"]
        folders = (key[: place + 1] for place, character in enumerate(key) if character == "/")
        self._let_in(request, tuple(map(writes_file, (key, *folders))))
        return key

    # --- who, and how many ---

    def _let_in(self, request: web.Request, scopes: tuple[str, ...]) -> None:
        shown = request.headers.get(hdrs.AUTHORIZATION, "")
        verify_ticket(
            shown.removeprefix("Bearer ").strip(),
            self._gate.ticket_key(),
            audience=self._gate.node_id() or "",
            scopes=scopes,
            now=self._clock.wall(),
        )

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if self._serving >= self._options.parallel:
            raise Unavailable("This node serves as many as it can.", code="too_many_readers")
        self._serving += 1
        try:
            yield
        finally:
            self._serving -= 1


def _told(handler: Handler) -> Handler:
    """Errors of ours as answers."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except CorralError as error:
            return _rendered(failed_answer(error))

    return handle


def _rendered(answer: Answer) -> web.Response:
    return web.json_response(answer.body, status=answer.status, headers=answer.headers)


def _described(found: Opened, sha256: str) -> web.Response:
    headers = {SIZE: str(found.size_bytes), "Accept-Ranges": "bytes"}
    if found.partial is None:
        headers[CONTENT] = sha256
    else:
        headers[TARGET] = sha256
        headers[HAVE_HEADER] = str(found.partial.have_chunks)
    return web.Response(headers=headers)


def _asked(request: web.Request, size_bytes: int) -> tuple[int, int] | None:
    """Start and length of the range that is asked for; None without one. Several ranges are answered as none."""
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
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise NotFound("This file is not here any more.", code="blob_not_here") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
