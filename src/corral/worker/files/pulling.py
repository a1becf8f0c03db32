"""Fetches contents to this node, chunk by chunk, from whoever has them.

Guarantee: what `pull` leaves in the store has the hashes that the control plane tells, and a chunk that was verified is
never fetched again. A place that is wrong, silent or gone costs a chunk, not the transfer; it is given up only after
`patience_s` without a new chunk, or when every place has told wrong bytes. Jobs that want the same content share one
transfer, which ends with the last of them. Limit: the list of a content's chunks is believed to whoever is named as the
library or the storage, and never to another node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256 as new_sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

import structlog

from corral.bus.messages import BlobPlace, FileItem
from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks
from corral.transfer.chunks import HASH_BYTES, chunk_count, chunk_span, fits, known_chunks
from corral.transfer.faults import SourceFailed, TransferFailed, disk_full
from corral.transfer.files import free_bytes
from corral.transfer.http import Http, refused, shown
from corral.transfer.options import Patience
from corral.transfer.threads import in_thread
from corral.worker.files.lines import Lines, Wanted
from corral.worker.files.partial import Partial
from corral.worker.files.places import Address, Library, Standing, Standings, addresses
from corral.worker.files.store import BlobStore
from corral.worker.files.throttle import Throttle
from corral.worker.files.window import Window
from corral.worker.work import Report

log = structlog.get_logger(__name__)

GIB = 1024**3
HAVE_HEADER = "X-Have-Chunks"
# A node that has not got a chunk yet makes us wait itself; this is for one that does not.
_AGAIN_S = 0.1
# A node that was told to fetch it at the same moment has begun by then.
_BEGIN_S = 3.0
# How long to wait where no place is known at all.
_NO_PLACE_S = 0.5
_ANSWER_BYTES_MAX = 64 * 1024
# So often a file is fetched that another program changes meanwhile.
_PASSES_MAX = 3
_EMPTY = new_sha256(b"").hexdigest()
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    # Chunks that are on their way at a time, over all jobs; on a slow line it is fewer.
    parallel: int = 4
    # No byte for this long: the next place is asked.
    stall_s: float = 30.0
    # Until an answer begins; a node may make us wait a few seconds for a chunk.
    header_s: float = 30.0
    # Without any new chunk of a content for this long, it is given up.
    patience_s: float = 600.0
    # Left free on the disk.
    headroom_bytes: int = GIB
    # For what is fetched, and once more for what is served.
    bandwidth_bytes_per_s: int | None = None
    # Proxies and certificates.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    free_bytes: Callable[[Path], int | None] = free_bytes


class NotYet(Exception):
    """A node is still fetching what it is asked for. It never leaves this file."""

    def __init__(self, have_chunks: int) -> None:
        self.have_chunks = have_chunks
        super().__init__(have_chunks)


class Puller:
    """A service: `start` before the first pull."""

    name = "pulling"

    def __init__(self, store: BlobStore, library: Library, clock: Clock, options: PullOptions | None = None) -> None:
        self._store = store
        self._library = library
        self._clock = clock
        self.options = options or PullOptions()
        patience = Patience(stall_s=self.options.stall_s, header_s=self.options.header_s)
        environment = self.options.environment
        direct = {name: value for name, value in environment.items() if name.lower() not in _PROXIES}
        self._direct = Http(patience, direct)
        self._outside = Http(patience, environment)
        self._lines = Lines(patience, direct, parallel=self.options.parallel)
        self._slots = asyncio.Semaphore(self.options.parallel)
        self._throttle = Throttle(self.options.bandwidth_bytes_per_s, clock)
        self._running: dict[str, _Transfer] = {}
        self._tasks = Tasks("pulling")
        self._open = contextlib.AsyncExitStack()

    async def start(self) -> None:
        await self._open.enter_async_context(self._direct)
        await self._open.enter_async_context(self._outside)

    async def stop(self) -> None:
        await self._tasks.close()
        await self._open.aclose()
        await asyncio.to_thread(self._lines.close)

    async def pull(self, files: tuple[FileItem, ...], places: tuple[BlobPlace, ...], report: Report) -> None:
        """Have all of them in the store. The caller holds them there."""
        meter = _Meter(files, report)
        missing = []
        for sha256, size_bytes in meter.sizes.items():
            if await self._store.is_right(sha256, size_bytes):
                meter.moved(sha256, size_bytes)
            else:
                missing.append(sha256)
        self._check_room(missing, meter)
        # More contents at a time than chunks would only keep more of them unfinished.
        gate = asyncio.Semaphore(self.options.parallel)
        await _all(self._gated(gate, sha256, places, meter) for sha256 in missing)

    async def _gated(self, gate: asyncio.Semaphore, sha256: str, places: tuple[BlobPlace, ...], meter: _Meter) -> None:
        async with gate:
            await self._obtain(sha256, places, meter)

    async def _obtain(self, sha256: str, places: tuple[BlobPlace, ...], meter: _Meter) -> None:
        while (leaving := self._running.get(sha256)) is not None and leaving.is_leaving:
            await asyncio.wait({leaving.task})
        transfer = self._running.get(sha256)
        if transfer is None:
            transfer = _Transfer(sha256, meter.sizes[sha256])
            self._running[sha256] = transfer
            transfer.task = self._tasks.start(self._run(transfer), name=f"pull {sha256[:12]}")
        transfer.offers.append(places)
        self._find_places(transfer)
        transfer.meters.append(meter)
        try:
            await asyncio.wait({transfer.task})
        finally:
            transfer.meters.remove(meter)
            if not transfer.meters and not transfer.task.done():
                transfer.is_leaving = True
                transfer.task.cancel()
                await asyncio.wait({transfer.task})
        if transfer.task.cancelled():
            # A cancelled child would pass for one that is done.
            raise SourceFailed("This worker stops, and fetches nothing more.", code="source_unavailable")
        outcome = transfer.task.result()
        if isinstance(outcome, Failed):
            raise outcome.error
        meter.moved(sha256, meter.sizes[sha256])

    async def _run(self, transfer: _Transfer) -> object:
        try:
            return await attempt(lambda: self._fetch(transfer))
        finally:
            self._running.pop(transfer.sha256, None)

    # --- one content ---

    async def _fetch(self, transfer: _Transfer) -> None:
        if not transfer.size_bytes and transfer.sha256 != _EMPTY:
            raise TransferFailed("An empty file was promised another sha256.", code="digest_mismatch")
        transfer.began_at = transfer.progress_at = self._clock.monotonic()
        chunks = await self._chunk_list(transfer)
        for _ in range(_PASSES_MAX):
            if await self._fetch_chunks(transfer, chunks):
                self._tasks.start(attempt(lambda: self._store.settle(transfer.sha256)), name="settle")
                return
        raise SourceFailed(
            f"Another program has changed {transfer.sha256[:12]} each of the {_PASSES_MAX} times that it was fetched.",
            hint="Find out what writes to the folder of the models on that machine.",
            code="source_unavailable",
        )

    async def _fetch_chunks(self, transfer: _Transfer, chunks: bytes) -> bool:
        """Bring the chunks that are missing, and the file to its place. False if it was changed meanwhile."""
        partial = await self._store.begin(transfer.sha256, transfer.size_bytes, chunks, transfer.verified)
        try:
            transfer.partial = partial
            # Hashing what was here may have taken long.
            transfer.progress_at = self._clock.monotonic()
            transfer.tell()
            wanted, window = iter(partial.missing()), Window(self.options.parallel)
            fetchers = range(self.options.parallel)
            await _all(self._fetcher(transfer, wanted, window, number) for number in fetchers)
            return await self._store.complete(partial)
        finally:
            transfer.partial = None
            # Writes have ended: whoever is cancelled waits for them.
            await asyncio.shield(self._store.rest(partial))

    async def _chunk_list(self, transfer: _Transfer) -> bytes:
        """The hashes of the chunks, as the control plane tells them."""
        known = known_chunks(transfer.sha256, transfer.size_bytes)
        if known is None:
            known = await self._store.known_chunks(transfer.sha256, transfer.size_bytes)
        pause_s = 1.0
        while known is None:
            self._find_places(transfer)
            trouble = "no frontend is known"
            for teller in transfer.places.tellers():
                try:
                    return await self._ask_chunks(teller, transfer.size_bytes)
                except (SourceFailed, TransferFailed) as error:
                    trouble = error.message.rstrip(".")
            self._check_patience(transfer, f"the hashes of its chunks: {trouble}")
            await self._clock.sleep(pause_s)
            pause_s = min(30.0, 2 * pause_s)
        return known

    async def _ask_chunks(self, teller: Standing, size_bytes: int) -> bytes:
        address = teller.address
        http = self._outside if address.is_outside else self._direct
        async with http.ask(address.chunks_url, headers=address.headers) as response:
            if response.status != HTTPStatus.OK:
                raise refused(address.chunks_url, response.status)
            limit = HASH_BYTES * chunk_count(size_bytes)
            chunks = await http.read(address.chunks_url, response, limit)
        if not fits(chunks, size_bytes):
            raise SourceFailed(f"{shown(address.chunks_url)} tells another size.", code="bad_answer")
        return chunks

    async def _fetcher(self, transfer: _Transfer, wanted: Iterator[int], window: Window, number: int) -> None:
        assert transfer.partial is not None, "it has begun"
        while await window.lets(number):
            index = next(wanted, None)
            if index is None:
                window.close()
                return
            began = self._clock.monotonic()
            await self._one(transfer, transfer.partial, index)
            window.took(self._clock.monotonic() - began)

    async def _one(self, transfer: _Transfer, partial: Partial, index: int) -> None:
        """One chunk, from wherever it can be had."""
        while True:
            place = await self._next_place(transfer)
            try:
                async with self._slots:
                    is_right = await self._take(transfer, place, index)
            except NotYet as error:
                place.not_yet(error.have_chunks, self._clock.monotonic(), self.options.stall_s)
                await self._clock.sleep(_AGAIN_S)
                continue
            except SourceFailed as error:
                place.failed(error.message.rstrip("."), self._clock.monotonic())
                continue
            except TransferFailed as error:
                if error.slug == "disk_full":
                    raise
                place.failed(error.message.rstrip("."), self._clock.monotonic())
                continue
            finally:
                transfer.arriving.pop(index, None)
            if is_right:
                break
            log.warning("a wrong chunk was thrown away", place=shown(place.address.url), chunk=index)
            trouble = f"{shown(place.address.url)} told wrong bytes"
            if await self._is_copy_right(place.address):
                place.strike(trouble)
            else:
                place.failed(f"{trouble}, which was reported", self._clock.monotonic())
        place.good()
        transfer.progress_at = self._clock.monotonic()
        partial.mark(index)
        transfer.tell()

    async def _is_copy_right(self, address: Address) -> bool:
        """Report wrong bytes to the frontend that they came from. False if it throws its copy away, or is still looking
        at it: the place is worth asking again."""
        if not address.damage_url:
            return True
        headers = {"Authorization": f"Bearer {self._library.credential}"}
        try:
            async with self._direct.ask(address.damage_url, method="POST", headers=headers) as response:
                if response.status != HTTPStatus.OK:
                    # An older frontend does not know this question.
                    return True
                answer = json.loads(await self._direct.read(address.damage_url, response, _ANSWER_BYTES_MAX))
        except (SourceFailed, TransferFailed):
            return False
        except ValueError:
            return True
        return isinstance(answer, dict) and answer.get("is_right") is True

    async def _next_place(self, transfer: _Transfer) -> Standing:
        while True:
            now = self._clock.monotonic()
            self._check_patience(transfer, "a chunk")
            self._find_places(transfer)
            place = transfer.places.best(now)
            if place is not None:
                return place
            rested_at = transfer.places.next_at()
            if rested_at is None and transfer.places.are_struck and self._library.node_id() is not None:
                raise _not_to_be_had(transfer, "a chunk", "digest_mismatch")
            # Without any place the worker is not registered yet, or the frontends' addresses are still to come.
            await self._clock.sleep(_NO_PLACE_S if rested_at is None else max(0.01, rested_at - now))

    def _find_places(self, transfer: _Transfer) -> None:
        """Add the addresses that are known now: those of the frontends come with the registration."""
        for places in transfer.offers:
            transfer.places.add(addresses(places, transfer.sha256, self._library))

    async def _take(self, transfer: _Transfer, place: Standing, index: int) -> bool:
        """Fetch a chunk and write it, if it is right."""
        partial, address = transfer.partial, place.address
        assert partial is not None, "it has begun"
        if address.is_outside or not self._throttle.is_open:
            data = await self._ask(transfer, place, index)
            return await in_thread(lambda _stop: partial.write(index, data))
        start, length = chunk_span(index, transfer.size_bytes)
        arriving = partial.arrives(index)
        wanted = Wanted(
            url=address.url,
            start=start,
            length=length,
            total=transfer.size_bytes,
            headers=address.headers,
            put=arriving.put,
            moved=lambda count: transfer.arrived(index, count),
        )
        transfer.arrived(index, 0)
        refused = await self._lines.fetch(wanted)
        if refused is not None:
            raise self._refusal(transfer, place, refused.status, refused.headers)
        return arriving.is_right()

    async def _ask(self, transfer: _Transfer, place: Standing, index: int) -> bytearray:
        start, length = chunk_span(index, transfer.size_bytes)
        address = place.address
        http = self._outside if address.is_outside else self._direct
        headers = {**address.headers, "Range": f"bytes={start}-{start + length - 1}"}
        async with http.ask(address.url, headers=headers) as response:
            is_all = response.status == HTTPStatus.OK and length == transfer.size_bytes
            if response.status != HTTPStatus.PARTIAL_CONTENT and not is_all:
                raise self._refusal(transfer, place, response.status, response.headers)
            data, filled = bytearray(length), 0
            transfer.arrived(index, 0)
            async for piece in http.chunks(address.url, response):
                await self._throttle.take(len(piece))
                end = filled + len(piece)
                if end > length:
                    raise SourceFailed(f"{shown(address.url)} sends more than was asked for.", code="bad_answer")
                data[filled:end] = piece
                filled = end
                transfer.arrived(index, filled)
        if filled < length:
            raise SourceFailed(f"{shown(address.url)} ended too early.", code="source_unavailable")
        return data

    def _refusal(self, transfer: _Transfer, place: Standing, status: int, headers: Mapping[str, str]) -> Exception:
        if status == HTTPStatus.TOO_EARLY:
            return NotYet(_number(headers.get(HAVE_HEADER, "")))
        is_new = self._clock.monotonic() - transfer.began_at < _BEGIN_S
        if status == HTTPStatus.NOT_FOUND and place.address.is_node and is_new:
            return NotYet(-1)
        return refused(place.address.url, status)

    # --- limits ---

    def _check_patience(self, transfer: _Transfer, what: str) -> None:
        if self._clock.monotonic() - transfer.progress_at > self.options.patience_s:
            raise _not_to_be_had(transfer, what, "source_unavailable")

    def _check_room(self, missing: list[str], meter: _Meter) -> None:
        wanted = sum(self._lacks(sha256, meter.sizes[sha256]) for sha256 in missing if sha256 not in self._running)
        promised = sum(self._lacks(each.sha256, each.size_bytes) for each in self._running.values())
        free = self.options.free_bytes(self._store.part_path("").parent)
        if not wanted or free is None or free - self.options.headroom_bytes - promised >= wanted:
            return
        raise disk_full(
            f"{_size(wanted)} are to be fetched, {_size(free)} are free, {_size(promised)} of them are promised to "
            f"other files and {_size(self.options.headroom_bytes)} are to stay free"
        )

    def _lacks(self, sha256: str, size_bytes: int) -> int:
        return max(0, size_bytes - self._store.taken_bytes(sha256))


class _Transfer:
    """One content on its way, for all jobs that want it."""

    def __init__(self, sha256: str, size_bytes: int) -> None:
        self.sha256 = sha256
        self.size_bytes = size_bytes
        self.places = Standings()
        # The places that each job has named.
        self.offers: list[tuple[BlobPlace, ...]] = []
        self.meters: list[_Meter] = []
        self.is_leaving = False
        self.began_at = self.progress_at = 0.0
        self.partial: Partial | None = None
        # Bytes of chunks that are not verified yet.
        self.arriving: dict[int, int] = {}
        self.task: asyncio.Task[object]

    def arrived(self, index: int, count: int) -> None:
        """So much of a chunk is here. Words that come after its end are of no use."""
        if count == 0 or index in self.arriving:
            self.arriving[index] = count
            self.tell()

    def verified(self, count: int) -> None:
        """So many bytes of an earlier try were found right, and the rest is still being looked at."""
        if self.partial is None:
            for meter in self.meters:
                meter.moved(self.sha256, count)

    def tell(self) -> None:
        have = self.partial.have_bytes if self.partial else 0
        current = min(self.size_bytes, have + sum(self.arriving.values()))
        for meter in self.meters:
            meter.moved(self.sha256, current)


class _Meter:
    """The bytes of all files of one job, as one number. Files of the same content count once."""

    def __init__(self, files: tuple[FileItem, ...], report: Report) -> None:
        self.sizes = {file.sha256: file.size_bytes for file in files}
        self._names = {file.sha256: file.path for file in files}
        self._current = dict.fromkeys(self.sizes, 0)
        self._total = sum(self.sizes.values())
        self._report = report

    def moved(self, sha256: str, current: int) -> None:
        self._current[sha256] = current
        self._report.moved(sum(self._current.values()), self._total, self._names[sha256])


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of them, or the first failure after the others have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


def _not_to_be_had(transfer: _Transfer, what: str, code: str) -> CorralError:
    kind = TransferFailed if code == "digest_mismatch" else SourceFailed
    return kind(
        f"{transfer.sha256[:12]} is not to be had ({what}): {transfer.places.troubles()}.",
        hint="What was fetched so far is kept.",
        code=code,
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 1024**2:.0f} MiB"
