"""Inspects the library's own copies of contents, and drops the ones that are damaged.

A copy is compared with the note that was written when it was hashed: its size and time. A copy that differs is
hashed. A node that received wrong bytes reports it, and the copy is hashed whatever its note says, at most once in
ten minutes.

Guarantee: a copy whose bytes were found wrong is removed and no longer offered, so that the next reader fetches the
content again from its source. Limit: a disk that changes bytes and neither size nor time is only found out by the
nodes that read from it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass

import structlog

from corral.domain.model import Blob
from corral.library.content_store import ContentStore, make_stopping_error
from corral.ports.files import SharedStorage
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.single_flight import SingleFlight
from corral.runtime.tasks import TaskSet
from corral.transfer.files import run_in_thread

log = structlog.get_logger(__name__)

# How often a report of wrong bytes makes the library read a whole copy.
INSPECT_EVERY_S = 600.0
# Copies that are read at the same time: others need the disk, too.
_PARALLEL = 2
# How many reports are remembered.
_REPORTS_MAX = 1000


@dataclass(slots=True)
class _Inspection:
    """Holds when a content was last hashed, and whether it was right."""

    at: float
    # None: the inspection is not done yet.
    is_right: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorDeps:
    """Dependencies of the inspector of a frontend's library: clock, storage, and how to find and drop a file."""

    clock: Clock
    # Returns size and chunks of a content that the cluster knows; raises `NotFound`.
    find_blob: Callable[[str], Awaitable[Blob]]
    # Records that the folder, or the storage, no longer holds a content.
    drop_own: Callable[[str], Awaitable[None]]
    drop_stored: Callable[[str], Awaitable[None]]
    storage: SharedStorage | None = None


class CopyInspector:
    """Hashes a frontend's copies of model files that may be damaged, and drops the wrong ones."""

    def __init__(self, content_store: ContentStore | None, deps: InspectorDeps) -> None:
        self._content_store = content_store
        self._deps = deps
        self._inspections: OrderedDict[str, _Inspection] = OrderedDict()
        self._tasks = TaskSet("inspections")
        self._checks: SingleFlight[None, bool] = SingleFlight("checks", make_stopping_error)
        self._turns = asyncio.Semaphore(_PARALLEL)

    async def close(self) -> None:
        await self._tasks.close()
        await self._checks.close()

    def matches_note(self, blob: Blob) -> bool:
        """Return whether the copy in the folder has the size and time that it had when it was hashed. Nothing is
        read."""
        return self._content_store is not None and self._content_store.notes.matches(blob.sha256, blob.size_bytes)

    async def is_intact(self, blob: Blob) -> bool:
        """Return whether a right copy is in the folder. It is hashed where its note does not vouch for it, and dropped
        if it is wrong."""
        if self._content_store is None or self._content_store.find_path(blob.sha256) is None:
            return False
        return self.matches_note(blob) or await self._checks.join(
            blob.sha256, lambda _: self._check_own(blob), make_state=lambda: None, enter=lambda _: nullcontext()
        )

    def inspect(self, sha256: str) -> bool | None:
        """Have the copies of a content hashed, unless that was done lately. Return whether they are right; None
        while that is not known."""
        now = self._deps.clock.monotonic()
        known = self._inspections.get(sha256)
        if known is None or (known.is_right is not None and now - known.at >= INSPECT_EVERY_S):
            known = self._inspections[sha256] = _Inspection(at=now)
            self._inspections.move_to_end(sha256)
            while len(self._inspections) > _REPORTS_MAX:
                self._inspections.popitem(last=False)
            self._tasks.start(self._inspect(sha256, known), name=f"inspect {sha256[:12]}")
        return known.is_right

    def forget(self, sha256: str) -> None:
        """Forget the inspection of a content that was imported again."""
        self._inspections.pop(sha256, None)

    async def _inspect(self, sha256: str, inspection: _Inspection) -> None:
        outcome = await attempt(lambda: self._check_all(sha256))
        if isinstance(outcome, AttemptFailure):
            log.warning("a copy could not be inspected", sha256=sha256, problem=outcome.sentence)
            self._inspections.pop(sha256, None)
        else:
            inspection.is_right = outcome.value

    async def _check_all(self, sha256: str) -> bool:
        blob = await self._deps.find_blob(sha256)
        is_right = (
            self._content_store is None or self._content_store.find_path(sha256) is None or await self._check_own(blob)
        )
        if self._deps.storage is not None:
            is_right = await self._check_stored(self._deps.storage, blob) and is_right
        return is_right

    async def _check_own(self, blob: Blob) -> bool:
        store = self._content_store
        assert store is not None, "there is a copy in its folder"
        async with self._turns:
            is_right = await run_in_thread(lambda stop: store.verify(blob, stop))
        if not is_right:
            log.warning("a file of the library was damaged and was removed", sha256=blob.sha256)
            await self._deps.drop_own(blob.sha256)
        return is_right

    async def _check_stored(self, storage: SharedStorage, blob: Blob) -> bool:
        if await storage.find(blob.sha256) is None:
            return True
        found = hashlib.sha256()
        async with self._turns:
            async for piece in storage.read(blob.sha256, 0, blob.size_bytes):
                found.update(piece)
        if found.hexdigest() == blob.sha256:
            return True
        log.warning("a file of the storage was damaged and was removed", sha256=blob.sha256)
        await self._deps.drop_stored(blob.sha256)
        await storage.remove(blob.sha256)
        return False
