"""Looks after the library's own copies of contents, and drops the ones that are damaged.

A copy is compared with the note that was written when it was hashed: its size and time. One that differs is hashed. A
node that was given wrong bytes reports it, and the copy is hashed whatever its note says, at most once in ten minutes.

Guarantee: a copy whose bytes were found wrong is removed and not named to anybody any more, so that whoever needs the
content fetches it again from its source. Limit: a disk that changes bytes and neither size nor time is found out by the
nodes that read from it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from corral.domain.model import Blob
from corral.library.flights import Flights
from corral.library.shelf import Shelf
from corral.ports.runtime import Clock
from corral.ports.storage import Storage
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks
from corral.transfer.threads import in_thread

log = structlog.get_logger(__name__)

# How often a report of wrong bytes makes the library read a whole copy.
INSPECT_EVERY_S = 600.0
# Copies that are read at the same time: the disk is there for others, too.
_PARALLEL = 2
# Reports that are remembered.
_REPORTS_MAX = 1000


@dataclass(slots=True)
class _Inspection:
    at: float
    # None: not done yet.
    is_right: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorDeps:
    clock: Clock
    # Size and chunks of a content that the cluster knows; raises `NotFound`.
    find_blob: Callable[[str], Awaitable[Blob]]
    # Writes down that the folder, or the storage, does not hold a content any more.
    drop_own: Callable[[str], Awaitable[None]]
    drop_stored: Callable[[str], Awaitable[None]]
    storage: Storage | None = None


class CopyInspector:
    def __init__(self, shelf: Shelf | None, deps: InspectorDeps) -> None:
        self._shelf = shelf
        self._deps = deps
        self._inspections: OrderedDict[str, _Inspection] = OrderedDict()
        self._tasks = Tasks("inspections")
        self._checks: Flights[bool] = Flights("checks")
        self._turns = asyncio.Semaphore(_PARALLEL)

    async def close(self) -> None:
        await self._tasks.close()
        await self._checks.close()

    def is_as_noted(self, blob: Blob) -> bool:
        """Whether the copy in the folder has the size and time that it had when it was hashed. Nothing is read."""
        return self._shelf is not None and self._shelf.is_as_noted(blob.sha256, blob.size_bytes)

    async def is_intact(self, blob: Blob) -> bool:
        """Whether a right copy is in the folder. It is hashed where its note does not vouch for it, and dropped if it
        is wrong."""
        if self._shelf is None or self._shelf.path(blob.sha256) is None:
            return False
        return self.is_as_noted(blob) or await self._checks.join(
            blob.sha256, lambda _: self._check_own(blob), lambda *_: None
        )

    def inspect(self, sha256: str) -> bool | None:
        """Have the copies of a content hashed, unless that was done lately. Whether they are right; None as long as
        that is not known."""
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
        """The content was entered anew: what was found before says nothing about it."""
        self._inspections.pop(sha256, None)

    async def _inspect(self, sha256: str, inspection: _Inspection) -> None:
        outcome = await attempt(lambda: self._check_all(sha256))
        if isinstance(outcome, Failed):
            log.warning("a copy could not be inspected", sha256=sha256, problem=outcome.sentence)
            self._inspections.pop(sha256, None)
        else:
            inspection.is_right = outcome.value

    async def _check_all(self, sha256: str) -> bool:
        blob = await self._deps.find_blob(sha256)
        is_right = self._shelf is None or self._shelf.path(sha256) is None or await self._check_own(blob)
        if self._deps.storage is not None:
            is_right = await self._check_stored(self._deps.storage, blob) and is_right
        return is_right

    async def _check_own(self, blob: Blob) -> bool:
        shelf = self._shelf
        assert shelf is not None, "there is a copy in its folder"
        async with self._turns:
            is_right = await in_thread(lambda stop: shelf.verify(blob, stop))
        if not is_right:
            log.warning("a file of the library was damaged and is gone", sha256=blob.sha256)
            await self._deps.drop_own(blob.sha256)
        return is_right

    async def _check_stored(self, storage: Storage, blob: Blob) -> bool:
        if await storage.find(blob.sha256) is None:
            return True
        found = hashlib.sha256()
        async with self._turns:
            async for piece in storage.read(blob.sha256, 0, blob.size_bytes):
                found.update(piece)
        if found.hexdigest() == blob.sha256:
            return True
        log.warning("a file of the storage was damaged and is gone", sha256=blob.sha256)
        await self._deps.drop_stored(blob.sha256)
        await storage.remove(blob.sha256)
        return False
