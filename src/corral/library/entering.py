"""How files get onto the shelf: looked for, room made sure of, fetched side by side, hashed in one pass, stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from corral.domain.errors import NotFound, Unavailable, Unprocessable
from corral.domain.model import CHUNK_BYTES, Blob
from corral.library.flights import Flights, Heard
from corral.library.report import Sum
from corral.library.shelf import Shelf
from corral.library.wanted import Wanted
from corral.policy.placing.fit import disk_need
from corral.ports.origin import Origins
from corral.ports.storage import Storage
from corral.transfer.threads import in_thread

GIB = 1024**3
# Files that are fetched at the same time: one source seldom gives more to more connections than this.
FETCHES_MAX = 4

Pin = Callable[[str], None]
Known = Callable[[str], Awaitable[Blob | None]]
FromPeers = Callable[[str, Path, Heard], Awaitable[Path | None]]


class Entering:
    """`known` says what is held under a promised sha256, `peers` brings what another frontend's library holds."""

    def __init__(
        self, shelf: Shelf, origins: Origins, storage: Storage | None, *, known: Known, peers: FromPeers
    ) -> None:
        self._shelf = shelf
        self._origins = origins
        self._storage = storage
        self._known = known
        self._peers = peers
        self._flights: Flights[Blob] = Flights("library")
        self._turns = asyncio.Semaphore(FETCHES_MAX)

    async def close(self) -> None:
        await self._flights.close()

    async def hold(self, wanted: Sequence[Wanted], total: Sum, pin: Pin) -> list[Blob]:
        """All of these on the shelf, in their order. Each is pinned before it is relied on."""
        known: dict[str, Blob] = {}
        for one in wanted:
            total.expect(one.path, one.size_bytes)
            if one.sha256 and one.sha256 not in known:
                pin(one.sha256)
                found = await self._known(one.sha256)
                if found is not None:
                    known[one.sha256] = found
        missing = [one for one in wanted if one.sha256 not in known]
        await self._check_room(missing)
        for one in wanted:
            if one.sha256 in known:
                size = known[one.sha256].size_bytes
                total.moved(one.path, size, size)
        fetched = await self._fetch_all(missing, total, pin)
        return [known[one.sha256] if one.sha256 in known else fetched[one.path] for one in wanted]

    async def take(self, path: Path, sha256: str) -> Blob:
        """A file that somebody has sent, in the same flight as all who want its content."""
        name = f"upload-{sha256}"
        return await self._flights.join(sha256, lambda tell: self._absorb([path], name, sha256, tell), lambda *_: None)

    async def _absorb(self, sources: Sequence[Path], name: str, wanted: str, tell: Heard) -> Blob:
        """Make a content of files that are on this machine, and bring it to the storage, if there is one."""
        shelf, loop = self._shelf, asyncio.get_running_loop()
        total = await in_thread(lambda _stop: sum(source.stat().st_size for source in sources))

        def moved(current: int) -> None:
            loop.call_soon_threadsafe(tell, current, total)

        blob = await in_thread(lambda stop: shelf.take(sources, name, wanted, stop, _now_and_then(moved)))
        if self._storage is not None:
            await self._put_into(self._storage, blob, tell)
        return blob

    async def _check_room(self, missing: Sequence[Wanted]) -> None:
        """Before a byte moves. What has arrived of an earlier try takes no more room; parts are joined beside them."""
        if not missing:
            return
        shelf = self._shelf
        await in_thread(lambda _stop: shelf.prepare())
        once = {one.key: one for one in missing}
        sizes = [one.size_bytes for one in once.values()]
        arrived = await in_thread(lambda _stop: sum(shelf.arrived_bytes(key) for key in once))
        if None in sizes:
            need = disk_need(None)
        else:
            joined = sum(one.size_bytes or 0 for one in once.values() if len(one.parts) > 1)
            need = disk_need(sum(size or 0 for size in sizes), arrived) + joined
        free = await in_thread(lambda _stop: shelf.free_bytes())
        if free < need:
            raise Unprocessable(
                f"The library's disk has {free / GIB:.1f} GiB free, and {need / GIB:.1f} GiB are needed.",
                hint=f"Free some room in {shelf.folder}; POST /api/files/collect throws away what no model uses.",
                code="disk_full",
            )

    async def _fetch_all(self, missing: Sequence[Wanted], total: Sum, pin: Pin) -> dict[str, Blob]:
        fetched: dict[str, Blob] = {}

        async def fetch(one: Wanted) -> None:
            def heard(current: int, size: int | None) -> None:
                total.moved(one.path, current, size)

            blob = await self._flights.join(one.key, lambda tell: self._fetch(one, tell), heard)
            pin(blob.sha256)
            total.moved(one.path, blob.size_bytes, blob.size_bytes)
            fetched[one.path] = blob

        try:
            async with asyncio.TaskGroup() as group:
                for one in missing:
                    group.create_task(fetch(one))
        except BaseExceptionGroup as several:
            # The first is the cause; the others were ended because of it.
            raise several.exceptions[0] from several
        return fetched

    async def _fetch(self, wanted: Wanted, tell: Heard) -> Blob:
        async with self._turns:
            shelf, sources, before = self._shelf, list[Path](), 0
            folder = await in_thread(lambda _stop: shelf.incoming(wanted.key))
            # It has entered the cluster already: not once more from outside.
            taken = await self._peers(wanted.sha256, folder, tell) if wanted.sha256 else None
            if taken is not None:
                return await self._absorb([taken], wanted.key, wanted.sha256, tell)
            _check_sent(wanted)
            for number, part in enumerate(wanted.parts):

                def moved(current: int, size: int | None, before: int = before) -> None:
                    tell(before + current, size if len(wanted.parts) == 1 else wanted.size_bytes)

                into = folder / str(number)
                await in_thread(lambda _stop, into=into: into.mkdir(exist_ok=True))  # type: ignore[misc]
                source = await self._origins.fetch(part, into, moved)
                before += (await in_thread(lambda _stop, source=source: source.stat())).st_size  # type: ignore[misc]
                sources.append(source)
            return await self._absorb(sources, wanted.key, wanted.sha256, tell)

    async def _put_into(self, storage: Storage, blob: Blob, tell: Heard) -> None:
        """Whatever lies there under this sha256 is replaced: that it is there does not say that it is right."""
        path = self._shelf.path(blob.sha256)
        assert path is not None, "it was put on the shelf a moment ago"
        await storage.put(blob.sha256, path, lambda current: tell(current, blob.size_bytes))
        if await storage.find(blob.sha256) != blob.size_bytes:
            raise Unavailable("The storage has not kept all of a file.", code="storage_unavailable")


def _check_sent(wanted: Wanted) -> None:
    if not wanted.parts:
        raise NotFound(
            f"{wanted.path} was never sent here: no frontend that is there holds the sha256 {wanted.sha256}.",
            hint="Send it with PUT /api/files/{sha256}.",
            code="blob_not_here",
        )


def _now_and_then(moved: Callable[[int], None]) -> Callable[[int], None]:
    """Not with every piece: a thread that hashes would fill the event loop with calls."""
    last = 0

    def seldom(current: int) -> None:
        nonlocal last
        if current - last >= CHUNK_BYTES:
            last = current
            moved(current)

    return seldom
