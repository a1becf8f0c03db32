"""The headers of contents, read where the contents lie: on the shelf, or in the storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from corral.domain.model import ModelFacts, StoredFile
from corral.library.serving import read_at
from corral.policy.models.headers import Read, Readable, read_facts
from corral.ports.storage import Storage
from corral.transfer.threads import in_thread


async def facts_of(
    files: Sequence[StoredFile], entry: str, path_of: Callable[[str], Path | None], storage: Storage | None
) -> ModelFacts | None:
    """None without files. `BadHeader` if a header makes no sense: no engine would load the model."""
    if not files:
        return None
    loop = asyncio.get_running_loop()

    def reader(sha256: str) -> Read:
        path = path_of(sha256)
        if path is not None:
            return lambda offset, length: read_at(path, offset, length)
        assert storage is not None, "what is not on the shelf was found in the storage"
        return lambda offset, length: asyncio.run_coroutine_threadsafe(
            _fetched(storage, sha256, offset, length), loop
        ).result()

    readable = [Readable(path=file.path, size_bytes=file.size_bytes, read=reader(file.sha256)) for file in files]
    return await in_thread(lambda _stop: read_facts(readable, entry))


async def _fetched(storage: Storage, sha256: str, offset: int, length: int) -> bytes:
    return b"".join([piece async for piece in storage.read(sha256, offset, length)])
