"""Sends a file to an inbox (`inbox.py`), and continues where it stopped.

Before every attempt the receiver is queried for what it has. So a lost response is noticed, a broken connection costs
only the bytes in flight, and no two attempts disagree about the offset. Temporary failures are retried as long as there
is progress; `Unavailable` after `patience_s` without any. The file must not change meanwhile.
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
from corral.transfer.chunks import compute_sha256
from corral.transfer.files import run_in_thread
from corral.transfer.http_client import redact_url
from corral.transfer.inbox import CONTENT_HEADER, SIZE_HEADER, TARGET_HEADER

SendProgressCallback = Callable[[int, int], None]

_READ_BYTES = 1024 * 1024
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
# The receiver verifies a whole file before it answers: seconds for each gigabyte on a slow disk.
_ANSWER_S = 3600.0
_PROBE_S = 600.0
_CONNECT_S = 30.0
_SHOWN_CHARACTERS = 300
_RETRYABLE_STATUSES = frozenset(
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
class InboxTarget:
    """The inbox that files are sent to: its address and the headers that authorise us."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def make_url(self, key: str) -> str:
        return f"{self.url.rstrip('/')}/{quote(key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SendJob:
    """One file that is being sent: its hash, size, address and progress callback."""

    file: Path
    sha256: str
    size_bytes: int
    url: str
    on_progress: SendProgressCallback


@dataclass(frozen=True, slots=True, kw_only=True)
class _SendState:
    """Says how much of a file the receiver has after an attempt, and why the attempt was not enough."""

    offset: int = 0
    is_complete: bool = False
    has_ranges: bool = True
    reason: str = "it was refused"


class InboxSender:
    """Sends files and folders to an inbox and resumes where an earlier attempt stopped."""

    def __init__(self, session: aiohttp.ClientSession, clock: Clock, *, patience_s: float = 300.0) -> None:
        self._session = session
        self._clock = clock
        self._patience_s = patience_s

    async def send(
        self, file: Path, receiver: InboxTarget, key: str, on_progress: SendProgressCallback = lambda _now, _all: None
    ) -> str:
        """Send a file; return the sha256 of what the receiver has now."""
        sha256 = await run_in_thread(lambda stop: compute_sha256(file, stop))
        job = _SendJob(
            file=file, sha256=sha256, size_bytes=_get_size(file), url=receiver.make_url(key), on_progress=on_progress
        )
        best, pause_s, progress_at = 0, _FIRST_PAUSE_S, self._clock.monotonic()
        while True:
            state = await self._attempt(job, receiver)
            if state.is_complete:
                on_progress(job.size_bytes, job.size_bytes)
                return sha256
            if state.offset > best:
                best, pause_s, progress_at = state.offset, _FIRST_PAUSE_S, self._clock.monotonic()
            elif self._clock.monotonic() - progress_at > self._patience_s:
                raise Unavailable(
                    f"{file.name} could not be sent: {state.reason}.", hint="What has arrived is kept there."
                )
            await self._clock.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    async def send_folder(
        self, folder: Path, receiver: InboxTarget, key: str, on_progress: SendProgressCallback = lambda _now, _all: None
    ) -> dict[str, str]:
        """Send every real file of a folder below a key; return the sha256 of each, by its path in the folder."""
        files = list_real_files(folder)
        total, sent_bytes, sent = sum(map(_get_size, files)), 0, {}
        for file in files:
            path = file.relative_to(folder).as_posix()
            sent[path] = await self.send(file, receiver, f"{key}/{path}", _add_offset(sent_bytes, total, on_progress))
            sent_bytes += _get_size(file)
        return sent

    async def _attempt(self, job: _SendJob, receiver: InboxTarget) -> _SendState:
        offset = 0
        try:
            existing = await self._probe(job, receiver)
            if existing.is_complete:
                return existing
            offset = existing.offset
            job.on_progress(offset, job.size_bytes)
            return await self._put(job, receiver, existing)
        except Unavailable as error:
            return _SendState(offset=offset, reason=error.message.rstrip("."))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return _SendState(
                offset=offset, reason=f"{redact_url(job.url)} broke off ({str(error) or type(error).__name__})"
            )

    async def _probe(self, job: _SendJob, receiver: InboxTarget) -> _SendState:
        headers = {**receiver.headers, TARGET_HEADER: job.sha256}
        async with (
            asyncio.timeout(_PROBE_S),
            self._session.head(job.url, headers=headers, allow_redirects=False) as response,
        ):
            if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
                return _SendState(has_ranges=False)
            if response.status == HTTPStatus.NOT_FOUND:
                return _SendState()
            if response.status != HTTPStatus.OK:
                raise _make_refusal(job, response.status, "")
            if response.headers.get(CONTENT_HEADER) == job.sha256:
                return _SendState(is_complete=True)
            size = response.headers.get(SIZE_HEADER, "")
            is_ours = response.headers.get(TARGET_HEADER) == job.sha256 and size.isdecimal()
            return _SendState(offset=int(size) if is_ours and 0 < int(size) < job.size_bytes else 0)

    async def _put(self, job: _SendJob, receiver: InboxTarget, existing: _SendState) -> _SendState:
        headers = {**receiver.headers, CONTENT_HEADER: job.sha256}
        headers["Content-Length"] = str(job.size_bytes - existing.offset)
        if existing.has_ranges and job.size_bytes:
            headers["Content-Range"] = f"bytes {existing.offset}-{job.size_bytes - 1}/{job.size_bytes}"
        # The size of a file has no limit, so the whole request has none; silence has.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
        # Opened and closed here: the reader of the pieces is left where it is when the connection breaks.
        with job.file.open("rb") as file:
            body = _iterate_pieces(job, file, existing.offset)
            async with self._session.put(
                job.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return await _interpret_response(job, existing, response)


async def _interpret_response(job: _SendJob, existing: _SendState, response: aiohttp.ClientResponse) -> _SendState:
    if response.status < HTTPStatus.MULTIPLE_CHOICES:
        return _SendState(is_complete=True)
    if response.status in _RETRYABLE_STATUSES or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _SendState(offset=existing.offset, reason=f"{redact_url(job.url)} returned {response.status}")
    raise _make_refusal(job, response.status, await response.text())


def list_real_files(folder: Path) -> list[Path]:
    """Return the files of a folder, without the notes about hashes beside a file of the same name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = set(files)
    return [path for path in files if not any(_strip_ending(path, ending) in names for ending in _SIDECARS)]


def _get_size(path: Path) -> int:
    return path.stat().st_size


def _add_offset(sent_bytes: int, total: int, on_progress: SendProgressCallback) -> SendProgressCallback:
    return lambda now, _all: on_progress(sent_bytes + now, total)


def _strip_ending(path: Path, ending: str) -> Path | None:
    return path.with_name(path.name.removesuffix(ending)) if path.name.endswith(ending) else None


async def _iterate_pieces(job: _SendJob, file: BinaryIO, offset: int) -> AsyncIterator[bytes]:
    file.seek(offset)
    while piece := await asyncio.to_thread(file.read, _READ_BYTES):
        yield piece
        offset += len(piece)
        job.on_progress(min(offset, job.size_bytes), job.size_bytes)


def _make_refusal(job: _SendJob, status: int, text: str) -> CorralError:
    kind = Unavailable if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE_STATUSES else Unprocessable
    answer = f": {text[:_SHOWN_CHARACTERS]}" if text else ""
    return kind(f"{redact_url(job.url)} returned {status}{answer}.", code="upload_refused")
