"""Calls about files of models: what is held, what can go, and sending one, which goes on where it was."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import aiohttp

from corral.client.errors import error_from_answer
from corral.client.http import Call, Transport
from corral.domain.errors import CorralError, Unavailable
from corral.wire.files import FileOut, FilesCollectedOut, FilesOut

# What is sent in one request: a lost connection costs no more than this.
PIECE_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024
# Requests in a row that brought nothing new.
FAILURES_MAX = 5
PAUSE_S = 1.0
# No byte for so long ends a request. The last one waits for the whole file to be hashed.
STALL_S = 60.0
LAST_S = 3600.0

# How many bytes are there, of how many.
Moved = Callable[[int, int], None]


class FileCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, model: str | None = None) -> list[FileOut]:
        """Everything that the cluster knows, or what one model is made of."""
        found: list[FileOut] = []
        after: str | None = ""
        while after is not None:
            parameters = {"after": after} | ({"model": model} if model is not None else {})
            page = await self._transport.fetch(Call(method="GET", path="/api/files", parameters=parameters), FilesOut)
            found += page.files
            after = page.next
        return found

    async def collect(self, *, dry_run: bool = False) -> FilesCollectedOut:
        parameters = {"dry_run": str(dry_run).lower()}
        call = Call(method="POST", path="/api/files/collect", parameters=parameters)
        return await self._transport.fetch(call, FilesCollectedOut)

    async def send(self, path: Path, moved: Moved = lambda *_: None) -> str:
        """Send a file; its sha256, by which a model names it. What is there already is not sent again.

        Trouble is tried again as long as bytes move: before each piece it is asked how much is there.
        """
        sha256, size_bytes = await asyncio.to_thread(_hashed, path)
        most, failures = -1, 0
        while True:
            try:
                have = await self._there(sha256)
                if have is None:
                    moved(size_bytes, size_bytes)
                    return sha256
                most, failures = max(most, have), 0 if have > most else failures + 1
                moved(have, size_bytes)
                await self._send_piece(path, sha256, have, size_bytes)
            except CorralError as error:
                failures += 1
                if not error.retryable or failures > FAILURES_MAX:
                    raise
                await self._transport.clock.sleep(PAUSE_S)

    async def _there(self, sha256: str) -> int | None:
        """How many bytes have arrived; None: all of them."""
        transport = self._transport
        try:
            async with transport.session.head(
                f"{transport.url}/api/files/{sha256}",
                headers=transport.headers(),
                timeout=aiohttp.ClientTimeout(total=LAST_S, sock_connect=STALL_S),
                allow_redirects=False,
            ) as answer:
                if answer.status == HTTPStatus.NOT_FOUND:
                    return 0
                if answer.status != HTTPStatus.OK:
                    raise error_from_answer(answer.status, b"", origin=transport.url)
                return None if "X-Content-SHA256" in answer.headers else int(answer.headers.get("X-File-Size", "0"))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport.unreachable(error) from error

    async def _send_piece(self, path: Path, sha256: str, start: int, size_bytes: int) -> None:
        transport = self._transport
        length = min(PIECE_BYTES, size_bytes - start)
        headers = transport.headers() | {"Content-Length": str(length)}
        if size_bytes:
            headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size_bytes}"
        try:
            with path.open("rb") as file:
                async with transport.session.put(
                    f"{transport.url}/api/files/{sha256}",
                    data=_pieces(file, start, length),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=LAST_S, sock_connect=STALL_S),
                    allow_redirects=False,
                ) as answer:
                    body = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport.unreachable(error) from error
        # 308: there is more to send. 416 and 409: somebody else is sending it too; ask again how much is there.
        if answer.status in (HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.CONFLICT):
            raise Unavailable("The file is being sent from elsewhere too.", code="upload_busy")
        if answer.status not in (HTTPStatus.OK, HTTPStatus.PERMANENT_REDIRECT):
            raise error_from_answer(answer.status, body, origin=transport.url)


async def _pieces(file: BinaryIO, start: int, length: int) -> AsyncIterator[bytes]:
    end = start + length
    while start < end:
        piece = await asyncio.to_thread(os.pread, file.fileno(), min(_READ_BYTES, end - start), start)
        if not piece:
            return
        yield piece
        start += len(piece)


def _hashed(path: Path) -> tuple[str, int]:
    found = hashlib.sha256()
    size_bytes = 0
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            found.update(piece)
            size_bytes += len(piece)
    return found.hexdigest(), size_bytes
