"""An S3-compatible storage for the contents of models, through the `obstore` library (the extra `s3`).

A content lies under `<prefix>/<ab>/<sha256>`. It is sent in parts, each with its sha256, which the storage checks; it
appears when all parts are there. Limit: a process that dies in the middle leaves parts that only the bucket's own
lifecycle rules remove.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import S3Store

from corral.adapters.storage import S3Address, S3Key
from corral.domain.errors import NotFound, Unavailable, Unprocessable

# A file may have 10,000 parts.
PART_BYTES = 16 * 1024 * 1024
PARTS_MAX = 9_000
PARALLEL = 4
# A storage that does not respond for this long is unavailable.
TIMEOUT = timedelta(seconds=60)
CONNECT_TIMEOUT = timedelta(seconds=10)


class S3Storage:
    """Stores model files in an S3-compatible bucket. Implements `ports.files.SharedStorage`."""

    def __init__(self, address: S3Address, key: S3Key | None = None) -> None:
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._name = f"s3://{address.bucket}/{address.prefix}"
        options: dict[str, Any] = {
            "region": address.region,
            "checksum_algorithm": "SHA256",
            "client_options": {
                "allow_http": address.endpoint.startswith("http://"),
                "timeout": TIMEOUT,
                "connect_timeout": CONNECT_TIMEOUT,
            },
            "retry_config": {"max_retries": 5, "retry_timeout": TIMEOUT},
        }
        if address.endpoint:
            options["endpoint"] = address.endpoint
        if key is not None:
            options |= {"access_key_id": key.name, "secret_access_key": key.secret}
        self._store = S3Store(address.bucket, **options)

    @property
    def name(self) -> str:
        return self._name

    async def find(self, sha256: str) -> int | None:
        try:
            with self._translate_errors("look for a file"):
                return int((await obstore.head_async(self._store, self._make_key(sha256)))["size"])
        except NotFound:
            return None

    async def put(self, sha256: str, path: Path, moved: Callable[[int], None]) -> None:
        size = (await asyncio.to_thread(path.stat)).st_size
        part_bytes = max(PART_BYTES, -(-size // PARTS_MAX))
        key = self._make_key(sha256)
        with self._translate_errors("send a file"):
            if size <= part_bytes:
                await obstore.put_async(self._store, key, await asyncio.to_thread(path.read_bytes))
                moved(size)
                return
            await obstore.put_async(
                self._store, key, _iter_pieces(path, moved), chunk_size=part_bytes, max_concurrency=PARALLEL
            )

    async def read(self, sha256: str, offset: int, length: int) -> AsyncIterator[bytes]:
        if length <= 0:
            return
        with self._translate_errors("read a file"):
            answer = await obstore.get_async(
                self._store, self._make_key(sha256), options={"range": (offset, offset + length)}
            )
            async for piece in answer.stream():
                yield bytes(piece)

    async def make_address(self, sha256: str, life_s: float) -> str:
        with self._translate_errors("sign an address"):
            return str(await obstore.sign_async(self._store, "GET", self._make_key(sha256), timedelta(seconds=life_s)))

    async def remove(self, sha256: str) -> None:
        with contextlib.suppress(NotFound), self._translate_errors("remove a file"):
            await obstore.delete_async(self._store, self._make_key(sha256))

    async def close(self) -> None:
        """Do nothing: the connections end with the process."""

    def _make_key(self, sha256: str) -> str:
        return f"{self._prefix}{sha256[:2]}/{sha256}"

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        """Translate the library's errors to `CorralError`s."""
        try:
            yield
        except FileNotFoundError as error:
            raise NotFound("The storage does not have that content.", code="blob_not_here") from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise Unprocessable(
                f"{self._name} refused to {action}.",
                hint="Check library_storage_key and what it may do in this bucket.",
                code="storage_refused",
            ) from error
        except (exceptions.BaseError, OSError) as error:
            raise Unavailable(
                f"{self._name} does not respond, so Corral could not {action}.",
                code="storage_unavailable",
                details={"cause": str(error).strip().splitlines()[0][:200] if str(error).strip() else ""},
            ) from error


async def _iter_pieces(path: Path, moved: Callable[[int], None]) -> AsyncIterator[bytes]:
    """Yield the file piece by piece, and report how many bytes were taken."""
    done = 0
    with await asyncio.to_thread(path.open, "rb", 0) as file:
        while piece := await asyncio.to_thread(os.read, file.fileno(), PART_BYTES):
            yield piece
            done += len(piece)
            moved(done)
