"""Sends a file to an inbox (`inbox.py`), and goes on where it stopped.

Before every attempt the receiver is asked what it has. So a lost answer is found out, a broken connection costs what
was on the way, and no two attempts disagree about the offset. Trouble of the moment is tried again as long as there is
progress; `Unavailable` after `patience_s` without any. The file must not change meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import aiohttp

from corral.domain.errors import CorralError, Unavailable, Unprocessable
from corral.ports.runtime import Clock
from corral.transfer.chunks import sha256_of
from corral.transfer.http import shown
from corral.transfer.inbox import CONTENT, SIZE, TARGET
from corral.transfer.threads import in_thread

Moved = Callable[[int, int], None]

_READ_BYTES = 1024 * 1024
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
# The receiver verifies a whole file before it answers: seconds for each gigabyte on a slow disk.
_ANSWER_S = 3600.0
_PROBE_S = 600.0
_CONNECT_S = 30.0
_SAID_CHARACTERS = 300
_AGAIN = frozenset(
    {
        HTTPStatus.PERMANENT_REDIRECT,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
_SIDECARS = (".sha256", ".sha256.target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """An inbox: where keys are below, and what lets us in."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def address(self, key: str) -> str:
        return f"{self.url.rstrip('/')}/{quote(key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    file: Path
    sha256: str
    size_bytes: int
    url: str
    moved: Moved


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What the receiver has of it. Without ranges, everything is sent each time."""

    offset: int = 0
    is_complete: bool = False
    has_ranges: bool = True
    trouble: str = "it was refused"


class Sender:
    def __init__(self, session: aiohttp.ClientSession, clock: Clock, *, patience_s: float = 300.0) -> None:
        self._session = session
        self._clock = clock
        self._patience_s = patience_s

    async def send(self, file: Path, receiver: Receiver, key: str, moved: Moved = lambda _now, _all: None) -> str:
        """The sha256 of what is there now."""
        sha256 = await in_thread(lambda stop: sha256_of(file, stop))
        job = _Job(file=file, sha256=sha256, size_bytes=_size(file), url=receiver.address(key), moved=moved)
        best, pause_s, progress_at = 0, _FIRST_PAUSE_S, self._clock.monotonic()
        while True:
            tried = await self._attempt(job, receiver)
            if tried.is_complete:
                moved(job.size_bytes, job.size_bytes)
                return sha256
            if tried.offset > best:
                best, pause_s, progress_at = tried.offset, _FIRST_PAUSE_S, self._clock.monotonic()
            elif self._clock.monotonic() - progress_at > self._patience_s:
                raise Unavailable(
                    f"{file.name} could not be sent: {tried.trouble}.", hint="What has arrived is kept there."
                )
            await self._clock.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    async def send_folder(
        self, folder: Path, receiver: Receiver, key: str, moved: Moved = lambda _now, _all: None
    ) -> dict[str, str]:
        """Every real file of a folder below a key: the sha256 of each, by its path in the folder."""
        files = real_files(folder)
        total, before, sent = sum(map(_size, files)), 0, {}
        for file in files:
            path = file.relative_to(folder).as_posix()
            sent[path] = await self.send(file, receiver, f"{key}/{path}", _behind(before, total, moved))
            before += _size(file)
        return sent

    async def _attempt(self, job: _Job, receiver: Receiver) -> _Tried:
        offset = 0
        try:
            there = await self._probe(job, receiver)
            if there.is_complete:
                return there
            offset = there.offset
            job.moved(offset, job.size_bytes)
            return await self._put(job, receiver, there)
        except Unavailable as error:
            return _Tried(offset=offset, trouble=error.message.rstrip("."))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return _Tried(offset=offset, trouble=f"{shown(job.url)} broke off ({str(error) or type(error).__name__})")

    async def _probe(self, job: _Job, receiver: Receiver) -> _Tried:
        headers = {**receiver.headers, TARGET: job.sha256}
        async with (
            asyncio.timeout(_PROBE_S),
            self._session.head(job.url, headers=headers, allow_redirects=False) as response,
        ):
            if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
                return _Tried(has_ranges=False)
            if response.status == HTTPStatus.NOT_FOUND:
                return _Tried()
            if response.status != HTTPStatus.OK:
                raise _refusal(job, response.status, "")
            if response.headers.get(CONTENT) == job.sha256:
                return _Tried(is_complete=True)
            size = response.headers.get(SIZE, "")
            is_ours = response.headers.get(TARGET) == job.sha256 and size.isdecimal()
            return _Tried(offset=int(size) if is_ours and 0 < int(size) < job.size_bytes else 0)

    async def _put(self, job: _Job, receiver: Receiver, there: _Tried) -> _Tried:
        headers = {**receiver.headers, CONTENT: job.sha256}
        headers["Content-Length"] = str(job.size_bytes - there.offset)
        if there.has_ranges and job.size_bytes:
            headers["Content-Range"] = f"bytes {there.offset}-{job.size_bytes - 1}/{job.size_bytes}"
        # The size of a file has no limit, so the whole has none; silence has.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
        # Opened and closed here: who reads the pieces is left where it is when the connection breaks.
        with job.file.open("rb") as file:
            body = _pieces(job, file, there.offset)
            async with self._session.put(
                job.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return await _heard(job, there, response)


async def _heard(job: _Job, there: _Tried, response: aiohttp.ClientResponse) -> _Tried:
    if response.status < HTTPStatus.MULTIPLE_CHOICES:
        return _Tried(is_complete=True)
    if response.status in _AGAIN or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _Tried(offset=there.offset, trouble=f"{shown(job.url)} answers {response.status}")
    raise _refusal(job, response.status, await response.text())


def real_files(folder: Path) -> list[Path]:
    """The files of a folder, without the notes about hashes that stand beside a file of the same name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = set(files)
    return [path for path in files if not any(_base(path, ending) in names for ending in _SIDECARS)]


def _size(path: Path) -> int:
    return path.stat().st_size


def _behind(before: int, total: int, moved: Moved) -> Moved:
    return lambda now, _all: moved(before + now, total)


def _base(path: Path, ending: str) -> Path | None:
    return path.with_name(path.name.removesuffix(ending)) if path.name.endswith(ending) else None


async def _pieces(job: _Job, file: BinaryIO, offset: int) -> AsyncIterator[bytes]:
    file.seek(offset)
    while piece := await asyncio.to_thread(file.read, _READ_BYTES):
        yield piece
        offset += len(piece)
        job.moved(min(offset, job.size_bytes), job.size_bytes)


def _refusal(job: _Job, status: int, text: str) -> CorralError:
    kind = Unavailable if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _AGAIN else Unprocessable
    said = f": {text[:_SAID_CHARACTERS]}" if text else ""
    return kind(f"{shown(job.url)} answers {status}{said}.", code="upload_refused")
