"""Reads the headers of contents where they are stored: in the folder, or in the storage.

Also finds out whether models that an earlier version fetched take tools, from the chat templates in their files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

import structlog

from corral.domain.model import Model, ModelFacts, StoredFile
from corral.library.content_store import read_at
from corral.policy.models.headers import Read, ReadableFile, read_facts
from corral.ports.files import SharedStorage
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import models as model_store
from corral.store.database import Database
from corral.transfer.files import run_in_thread

log = structlog.get_logger(__name__)


async def read_stored_facts(
    files: Sequence[StoredFile], entry: str, path_of: Callable[[str], Path | None], storage: SharedStorage | None
) -> ModelFacts | None:
    """Return the facts in the headers of the files; None without files. `BadHeader` if no engine would load the
    model."""
    if not files:
        return None
    loop = asyncio.get_running_loop()

    def reader(sha256: str) -> Read:
        path = path_of(sha256)
        if path is not None:
            return lambda offset, length: read_at(path, offset, length)
        assert storage is not None, "a content outside the folder was found in the storage"
        return lambda offset, length: asyncio.run_coroutine_threadsafe(
            _read_stored(storage, sha256, offset, length), loop
        ).result()

    readable = [ReadableFile(path=file.path, size_bytes=file.size_bytes, read=reader(file.sha256)) for file in files]
    return await run_in_thread(lambda _stop: read_facts(readable, entry))


async def _read_stored(storage: SharedStorage, sha256: str, offset: int, length: int) -> bytes:
    return b"".join([piece async for piece in storage.read(sha256, offset, length)])


class ToolSupportReader:
    """Reads the files of models whose tool support is not known yet. `holds` and `path_of` are the library's.

    Runs in the background, one model at a time, and reads no more of a file than its header. A file that is damaged
    or cannot be read leaves its model unknown and keeps no other model from being read. Limit: a model none of
    whose libraries hold all files stays unknown until it is fetched; requests with tools are passed on until then.
    """

    def __init__(
        self,
        database: Database,
        holds: Callable[[Collection[str]], Awaitable[frozenset[str]]],
        path_of: Callable[[str], Path | None],
        storage: SharedStorage | None,
    ) -> None:
        self._database = database
        self._holds = holds
        self._path_of = path_of
        self._storage = storage
        # Run hashes of models whose files could not be read: tried again after a restart of the process.
        self._failed: set[str] = set()

    async def tick(self) -> int:
        """Look at every unknown model whose files are held here; return how many are known now."""
        async with self._database.transaction() as tx:
            unknown = await model_store.list_without_tool_support(tx)
        self._failed &= {model.run_hash for model in unknown}
        return sum([await self._read_guarded(model) for model in unknown if model.run_hash not in self._failed])

    async def _read_guarded(self, model: Model) -> bool:
        outcome = await attempt(lambda: self._read(model))
        if not isinstance(outcome, AttemptFailure):
            return outcome.value
        self._failed.add(model.run_hash)
        log.warning("tool support of a model could not be read", model=model.name, error=outcome.sentence)
        return False

    async def _read(self, model: Model) -> bool:
        files = model.files or ()
        sha256s = {file.sha256 for file in files}
        if await self._holds(sha256s) < sha256s:
            return False
        paths = {sha256: self._path_of(sha256) for sha256 in sha256s}
        if self._storage is None and None in paths.values():
            return False
        facts = await read_stored_facts(files, model.config.entry, paths.get, self._storage)
        async with self._database.transaction() as tx:
            return await model_store.put_tool_support(tx, model, takes_tools=facts.takes_tools if facts else None)
