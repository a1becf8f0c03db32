"""A file server on the loopback that can misbehave in every way that servers do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.polling import pause_traffic

Fault = Callable[[web.Request, "File"], Awaitable[web.StreamResponse]]
PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"


@dataclass
class File:
    body: bytes
    etag: str = ""
    content_type: str = "application/octet-stream"
    has_ranges: bool = True
    # One for each request, in order; afterwards the file is served as it should be.
    faults: list[Fault] = field(default_factory=list)
    # The last fault stays.
    is_always_faulty: bool = False
    ranges: list[str | None] = field(default_factory=list)
    sent: int = 0


class FileServer:
    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.requests: list[tuple[str, str]] = []
        self._server: TestServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://{self._server.host}:{self._server.port}"

    def put(self, path: str, body: bytes, **more: object) -> File:
        self.files[path] = File(body=body, **more)  # type: ignore[arg-type]
        return self.files[path]

    def gets(self, path: str) -> int:
        return self.requests.count(("GET", path))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FileServer]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._server = TestServer(application)
        async with self._server:
            yield self

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        file = self.files.get(request.path)
        if file is None:
            return web.Response(status=404)
        if request.method == "HEAD":
            return await _serve(request, file)
        file.ranges.append(request.headers.get("Range"))
        if file.faults:
            fault = file.faults[0] if file.is_always_faulty else file.faults.pop(0)
            return await fault(request, file)
        return await _serve(request, file)


def _begin(request: web.Request, file: File) -> tuple[web.StreamResponse, bytes]:
    headers = {"Content-Type": file.content_type}
    if file.etag:
        headers["ETag"] = file.etag
    requested_range = request.headers.get("Range", "")
    fits = not request.headers.get("If-Range") or request.headers["If-Range"] == file.etag
    if requested_range and file.has_ranges and fits:
        first, _, last = requested_range.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(file.body) - int(last))
        if start >= len(file.body):
            return web.Response(status=416, headers={"Content-Range": f"bytes */{len(file.body)}"}), b""
        headers["Content-Range"] = f"bytes {start}-{len(file.body) - 1}/{len(file.body)}"
        response = web.StreamResponse(status=206, headers=headers)
        rest = file.body[start:]
    else:
        response, rest = web.StreamResponse(headers=headers), file.body
    response.content_length = len(rest)
    return response, rest


async def _serve(request: web.Request, file: File) -> web.StreamResponse:
    response, rest = _begin(request, file)
    if isinstance(response, web.Response):
        return response
    await response.prepare(request)
    if request.method != "HEAD":
        await response.write(rest)
        file.sent += len(rest)
    return response


# --- faults ---


def status(code: int) -> Fault:
    async def answer(_request: web.Request, _file: File) -> web.StreamResponse:
        return web.Response(status=code)

    return answer


def page(content_type: str = "text/html") -> Fault:
    async def answer(_request: web.Request, _file: File) -> web.StreamResponse:
        return web.Response(body=PAGE, content_type=content_type)

    return answer


def cut_after(count: int) -> Fault:
    """Promise everything, send `count` bytes, and hang up."""

    async def answer(request: web.Request, file: File) -> web.StreamResponse:
        response, rest = _begin(request, file)
        await response.prepare(request)
        await response.write(rest[:count])
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def silent_after(count: int | None, until: asyncio.Event) -> Fault:
    """Send `count` bytes and then nothing; with None not even headers."""

    async def answer(request: web.Request, file: File) -> web.StreamResponse:
        response, rest = _begin(request, file)
        if count is not None:
            await response.prepare(request)
            await response.write(rest[:count])
        await until.wait()
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def held_after(count: int, until: asyncio.Event) -> Fault:
    """Send up to this place of the file, and the rest when it is time. Whoever has left meanwhile gets nothing."""

    async def answer(request: web.Request, file: File) -> web.StreamResponse:
        response, rest = _begin(request, file)
        first = max(0, len(rest) - (len(file.body) - count))
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await response.write(rest[:first])
            await until.wait()
            await response.write(rest[first:])
        return response

    return answer


def trickle(count: int, pause_s: float) -> Fault:
    """All of it, in `count` pieces with a pause before each."""

    async def answer(request: web.Request, file: File) -> web.StreamResponse:
        response, rest = _begin(request, file)
        await response.prepare(request)
        size = max(1, -(-len(rest) // count))
        for start in range(0, len(rest), size):
            await pause_traffic(pause_s)
            await response.write(rest[start : start + size])
        return response

    return answer


def redirect(to: str) -> Fault:
    async def answer(_request: web.Request, _file: File) -> web.StreamResponse:
        raise web.HTTPFound(to)

    return answer
