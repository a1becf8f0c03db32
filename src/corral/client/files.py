"""Calls about model files: listing, deleting, and resumable uploads."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import aiohttp

from corral.client.transport import ApiRequest, ApiTransport, make_error_from_response
from corral.domain.errors import CorralError, Unavailable
from corral.wire.files import FileGarbageOut, FileOut, FilesOut

# Bytes per request; a lost connection costs at most this much.
PIECE_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024
# Maximum number of consecutive requests without progress.
FAILURES_MAX = 5
PAUSE_S = 1.0
# A request ends if no byte moves for this long. The last request waits until the whole file is hashed.
STALL_S = 60.0
FINISH_LIMIT_S = 3600.0

# Called with the number of bytes that have arrived and the total.
UploadProgressCallback = Callable[[int, int], None]


class FileCalls:
    """Client-side calls of the HTTP API about model files; uploads files piece by piece."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, model: str | None = None) -> list[FileOut]:
        """List all files that the cluster knows, or the files of one model."""
        found: list[FileOut] = []
        after: str | None = ""
        while after is not None:
            parameters = {"after": after} | ({"model": model} if model is not None else {})
            page = await self._transport.fetch(
                ApiRequest(method="GET", path="/api/files", parameters=parameters), FilesOut
            )
            found += page.files
            after = page.next
        return found

    async def collect_garbage(self, *, dry_run: bool = False) -> FileGarbageOut:
        parameters = {"dry_run": str(dry_run).lower()}
        call = ApiRequest(method="POST", path="/api/files/collect", parameters=parameters)
        return await self._transport.fetch(call, FileGarbageOut)

    async def send_file(self, path: Path, on_progress: UploadProgressCallback = lambda *_: None) -> str:
        """Upload a file and return its sha256, which names it in a model's configuration. Bytes that have arrived
        before are not sent again."""
        return await FileUploader(self._transport, "/api/files").send_file(path, on_progress)


class FileUploader:
    """Sends files piece by piece to one frontend, below a path that takes uploads by their sha256."""

    def __init__(self, transport: ApiTransport, folder: str, query: str = "") -> None:
        self._transport = transport
        self._folder = folder
        self._query = query

    def _make_url(self, sha256: str) -> str:
        return f"{self._transport.url}{self._folder}/{sha256}{self._query}"

    async def send_file(self, path: Path, on_progress: UploadProgressCallback = lambda *_: None) -> str:
        """Send a file and return its sha256. Bytes that have arrived before are not sent again.

        Failures are retried as long as bytes move: before each piece the server reports how much has arrived.
        """
        sha256, size_bytes = await asyncio.to_thread(_hash_file, path)
        most, failures = -1, 0
        while True:
            try:
                have = await self._measure_arrived(sha256)
                if have is None:
                    on_progress(size_bytes, size_bytes)
                    return sha256
                most, failures = max(most, have), 0 if have > most else failures + 1
                on_progress(have, size_bytes)
                await self._send_piece(path, sha256, have, size_bytes)
            except CorralError as error:
                failures += 1
                if not error.retryable or failures > FAILURES_MAX:
                    raise
                await self._transport.clock.sleep(PAUSE_S)

    async def _measure_arrived(self, sha256: str) -> int | None:
        """Return how many bytes have arrived, or None if the file is complete."""
        transport = self._transport
        try:
            async with transport.session.head(
                self._make_url(sha256),
                headers=transport.make_headers(),
                timeout=aiohttp.ClientTimeout(total=FINISH_LIMIT_S, sock_connect=STALL_S),
                allow_redirects=False,
            ) as answer:
                if answer.status == HTTPStatus.NOT_FOUND:
                    return 0
                if answer.status != HTTPStatus.OK:
                    raise make_error_from_response(answer.status, b"", origin=transport.url)
                return None if "X-Content-SHA256" in answer.headers else int(answer.headers.get("X-File-Size", "0"))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport.make_unreachable_error(error) from error

    async def _send_piece(self, path: Path, sha256: str, start: int, size_bytes: int) -> None:
        transport = self._transport
        length = min(PIECE_BYTES, size_bytes - start)
        headers = transport.make_headers() | {"Content-Length": str(length)}
        if size_bytes:
            headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size_bytes}"
        try:
            with path.open("rb") as file:
                async with transport.session.put(
                    self._make_url(sha256),
                    data=_iter_pieces(file, start, length),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=FINISH_LIMIT_S, sock_connect=STALL_S),
                    allow_redirects=False,
                ) as answer:
                    body = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport.make_unreachable_error(error) from error
        # 308: more bytes are expected. 416 and 409: another client uploads the same file; read again how much has
        # arrived.
        if answer.status in (HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.CONFLICT):
            raise Unavailable("Another client is uploading the same file.", code="upload_busy")
        if answer.status not in (HTTPStatus.OK, HTTPStatus.PERMANENT_REDIRECT):
            raise make_error_from_response(answer.status, body, origin=transport.url)


async def download_file(transport: ApiTransport, path: str, target: BinaryIO) -> int:
    """Write the bytes of a response to an open file, and return how many there were."""
    size_bytes = 0
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=STALL_S, sock_read=STALL_S)
    try:
        async with transport.session.get(
            f"{transport.url}{path}", headers=transport.make_headers(), timeout=timeout, allow_redirects=False
        ) as response:
            if response.status != HTTPStatus.OK:
                raise make_error_from_response(response.status, await response.read(), origin=transport.url)
            async for chunk in response.content.iter_any():
                size_bytes += target.write(chunk)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise transport.make_unreachable_error(error) from error
    return size_bytes


async def _iter_pieces(file: BinaryIO, start: int, length: int) -> AsyncIterator[bytes]:
    end = start + length
    while start < end:
        piece = await asyncio.to_thread(os.pread, file.fileno(), min(_READ_BYTES, end - start), start)
        if not piece:
            return
        yield piece
        start += len(piece)


def _hash_file(path: Path) -> tuple[str, int]:
    found = hashlib.sha256()
    size_bytes = 0
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            found.update(piece)
            size_bytes += len(piece)
    return found.hexdigest(), size_bytes
