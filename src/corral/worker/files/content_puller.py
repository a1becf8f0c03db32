"""Fetches contents to this node, chunk by chunk, from other nodes, the library or storage.

Guarantee: what `pull` leaves in the store has the hashes that the control plane gave, and a chunk that was verified is
never fetched again. A source that is wrong, silent or gone costs a chunk, not the transfer; a content is given up only
after `patience_s` without a new chunk, or when every source has sent wrong bytes. Jobs that need the same content share
one transfer, which ends with the last of them. Limit: the list of a content's chunks is trusted from the library or the
storage, and never from another node.
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

from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runtime.attempt import attempt
from corral.runtime.single_flight import SingleFlight
from corral.runtime.tasks import TaskSet
from corral.transfer.chunks import HASH_BYTES, compute_chunk_span, count_chunks, derive_chunk_list, is_chunk_list_for
from corral.transfer.faults import SourceFailed, TransferFailed, make_disk_full_error
from corral.transfer.files import free_bytes, run_in_thread
from corral.transfer.http_client import TransferHttpClient, TransferOptions, make_refusal, redact_url
from corral.worker.files.blob_store import BlobStore
from corral.worker.files.chunk_client import (
    BlobAddress,
    ChunkClient,
    ChunkRequest,
    ChunkSource,
    ChunkSources,
    LibraryAccess,
    list_addresses,
)
from corral.worker.files.partial_content import PartialContent
from corral.worker.job_ports import JobProgressListener

log = structlog.get_logger(__name__)
GIB = 1024**3
HAVE_HEADER = "X-Have-Chunks"
# A node that does not have a chunk yet delays its answer itself; this pause is for one that does not.
_RETRY_S = 0.1
# A node that was commanded to fetch the content at the same moment has begun by then.
_BEGIN_S = 3.0
# How long to wait where no source is known at all.
_NO_SOURCE_S = 0.5
_ANSWER_BYTES_MAX = 64 * 1024
# How often a file is fetched that another program changes meanwhile.
_PASSES_MAX = 3
_EMPTY = new_sha256(b"").hexdigest()
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
# How long one chunk may take on an otherwise idle connection.
_FAST_S = 0.05
_SLOW_S = 0.5
_BURST_S = 0.25


class BandwidthThrottle:
    """Limits the bytes per second of all file transfers of a worker that share it; without a limit it never waits.

    A quarter of a second's worth may go at once.
    """

    def __init__(self, bytes_per_s: int | None, clock: Clock) -> None:
        assert bytes_per_s is None or bytes_per_s > 0, "a limit is more than nothing"
        self._rate = bytes_per_s
        self._clock = clock
        # The moment at which the bytes let through so far are due.
        self._due = 0.0

    @property
    def is_unlimited(self) -> bool:
        return self._rate is None

    async def take(self, count: int) -> None:
        """Wait until `count` more bytes may move."""
        if self._rate is None:
            return
        now = self._clock.monotonic()
        self._due = max(self._due, now - _BURST_S) + count / self._rate
        if self._due > now:
            await self._clock.sleep(self._due - now)


class FetchWindow:
    """Decides how many chunks of one model file a worker fetches at a time: many on a fast connection, one on a slow.

    On a slow connection, chunks that share it all come late, also for every node that waits for this one to pass
    them on; one after the other arrives just as soon as all together. On a fast connection, the time lost between
    two chunks counts more.
    """

    def __init__(self, max_width: int) -> None:
        self._max_width = max_width
        self.width = 1
        self._is_closed = False
        self._changed = asyncio.Event()

    async def wait_for_turn(self, number: int) -> bool:
        """Wait until the fetcher of this number may go on; False if there is nothing more to fetch."""
        while number >= self.width and not self._is_closed:
            await self._changed.wait()
        return not self._is_closed

    def record_duration(self, seconds: float) -> None:
        """Record how long one chunk took beside those that were fetched with it."""
        alone_s = seconds / self.width
        middle = min(2, self._max_width)
        self._set_width(self._max_width if alone_s < _FAST_S else middle if alone_s < _SLOW_S else 1)

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _set_width(self, width: int) -> None:
        self.width = width
        self._wake()

    def _wake(self) -> None:
        moved, self._changed = self._changed, asyncio.Event()
        moved.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """Tunables of a worker that fetches model files: parallel chunks, time limits, spare disk space and bandwidth."""

    # Chunks in flight at a time, over all jobs; fewer on a slow connection.
    parallel: int = 4
    # Without a byte for this long, the next source is tried.
    stall_s: float = 30.0
    # Time limit until a response begins; a node may delay it a few seconds for a chunk.
    header_s: float = 30.0
    # Without a new chunk for this long, a content is given up.
    patience_s: float = 600.0
    # Kept free on the disk.
    headroom_bytes: int = GIB
    # Applied to what is fetched, and separately to what is served.
    bandwidth_bytes_per_s: int | None = None
    # Used for proxies and certificates.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    free_bytes: Callable[[Path], int | None] = free_bytes


class ChunkNotYetFetched(Exception):
    """Raised when another node is itself still fetching the requested chunk. Never leaves this module."""

    def __init__(self, have_chunks: int) -> None:
        self.have_chunks = have_chunks
        super().__init__(have_chunks)


class ContentPuller:
    """Fetches model files chunk by chunk to a worker, from other nodes, frontends or storage. A service.

    Jobs that need the same file share its transfer.
    """

    name = "pulling"

    def __init__(
        self, store: BlobStore, library: LibraryAccess, clock: Clock, options: PullOptions | None = None
    ) -> None:
        self._store = store
        self._library = library
        self._clock = clock
        self.options = options or PullOptions()
        transfer_options = TransferOptions(stall_s=self.options.stall_s, header_s=self.options.header_s)
        environment = self.options.environment
        direct = {name: value for name, value in environment.items() if name.lower() not in _PROXIES}
        self._direct = TransferHttpClient(transfer_options, direct)
        self._external = TransferHttpClient(transfer_options, environment)
        self._chunk_client = ChunkClient(transfer_options, direct, parallel=self.options.parallel)
        self._slots = asyncio.Semaphore(self.options.parallel)
        self._throttle = BandwidthThrottle(self.options.bandwidth_bytes_per_s, clock)
        self._transfers: SingleFlight[_ContentTransfer, None] = SingleFlight("pulls", _make_stopping_error)
        self._tasks = TaskSet("pulling")
        self._open = contextlib.AsyncExitStack()

    async def start(self) -> None:
        await self._open.enter_async_context(self._direct)
        await self._open.enter_async_context(self._external)

    async def stop(self) -> None:
        await self._transfers.close()
        await self._tasks.close()
        await self._open.aclose()
        await asyncio.to_thread(self._chunk_client.close)

    async def pull(
        self, files: tuple[ModelFileItem, ...], sources: tuple[BlobSource, ...], progress: JobProgressListener
    ) -> None:
        """Bring all contents into the store. The caller holds them there."""
        meter = _PullMeter(files, progress)
        missing = []
        for sha256, size_bytes in meter.sizes.items():
            if await self._store.ensure_valid(sha256, size_bytes):
                meter.set_current(sha256, size_bytes)
            else:
                missing.append(sha256)
        self._check_room(missing, meter)
        # More contents than chunks at a time would only keep more of them unfinished.
        gate = asyncio.Semaphore(self.options.parallel)
        await _run_all(self._obtain_gated(gate, sha256, sources, meter) for sha256 in missing)

    async def _obtain_gated(
        self, gate: asyncio.Semaphore, sha256: str, sources: tuple[BlobSource, ...], meter: _PullMeter
    ) -> None:
        async with gate:
            await self._obtain(sha256, sources, meter)

    async def _obtain(self, sha256: str, sources: tuple[BlobSource, ...], meter: _PullMeter) -> None:
        @contextlib.contextmanager
        def enter(transfer: _ContentTransfer) -> Iterator[None]:
            transfer.offered_sources.append(sources)
            self._add_sources(transfer)
            transfer.meters.append(meter)
            try:
                yield
            finally:
                transfer.meters.remove(meter)

        size_bytes = meter.sizes[sha256]
        await self._transfers.join(
            sha256, self._fetch, make_state=lambda: _ContentTransfer(sha256, size_bytes), enter=enter
        )
        meter.set_current(sha256, size_bytes)

    # --- one content ---

    async def _fetch(self, transfer: _ContentTransfer) -> None:
        if not transfer.size_bytes and transfer.sha256 != _EMPTY:
            raise TransferFailed("An empty file was promised another sha256.", code="digest_mismatch")
        transfer.began_at = transfer.progress_at = self._clock.monotonic()
        chunks = await self._get_chunk_list(transfer)
        for _ in range(_PASSES_MAX):
            if await self._fetch_chunks(transfer, chunks):
                self._tasks.start(attempt(lambda: self._store.flush_to_disk(transfer.sha256)), name="settle")
                return
        raise SourceFailed(
            f"Another program has changed {transfer.sha256[:12]} each of the {_PASSES_MAX} times that it was fetched.",
            hint="Find out what writes to the folder of the models on that machine.",
            code="source_unavailable",
        )

    async def _fetch_chunks(self, transfer: _ContentTransfer, chunks: bytes) -> bool:
        """Fetch the missing chunks and move the file to its place. False if the file was changed meanwhile."""
        partial = await self._store.open_partial(transfer.sha256, transfer.size_bytes, chunks, transfer.record_verified)
        try:
            transfer.partial = partial
            # Hashing the existing bytes may have taken long.
            transfer.progress_at = self._clock.monotonic()
            transfer.report_progress()
            indexes, window = iter(partial.list_missing()), FetchWindow(self.options.parallel)
            fetchers = range(self.options.parallel)
            await _run_all(self._run_fetcher(transfer, indexes, window, number) for number in fetchers)
            return await self._store.complete(partial)
        finally:
            transfer.partial = None
            # Writes have ended by now: a cancelled task waits for them.
            await asyncio.shield(self._store.pause(partial))

    async def _get_chunk_list(self, transfer: _ContentTransfer) -> bytes:
        """Return the hashes of the chunks, as the control plane gives them."""
        known = derive_chunk_list(transfer.sha256, transfer.size_bytes)
        if known is None:
            known = await self._store.read_known_chunks(transfer.sha256, transfer.size_bytes)
        pause_s = 1.0
        while known is None:
            self._add_sources(transfer)
            reason = "no frontend is known"
            for source in transfer.sources.list_chunk_list_sources():
                try:
                    return await self._fetch_chunk_list(source, transfer.size_bytes)
                except (SourceFailed, TransferFailed) as error:
                    reason = error.message.rstrip(".")
            self._check_stalled(transfer, f"the hashes of its chunks: {reason}")
            await self._clock.sleep(pause_s)
            pause_s = min(30.0, 2 * pause_s)
        return known

    async def _fetch_chunk_list(self, source: ChunkSource, size_bytes: int) -> bytes:
        address = source.address
        http = self._external if address.is_external else self._direct
        async with http.request(address.chunks_url, headers=address.headers) as response:
            if response.status != HTTPStatus.OK:
                raise make_refusal(address.chunks_url, response.status)
            limit = HASH_BYTES * count_chunks(size_bytes)
            chunks = await http.read_body(address.chunks_url, response, limit)
        if not is_chunk_list_for(chunks, size_bytes):
            raise SourceFailed(f"{redact_url(address.chunks_url)} gives another size.", code="bad_answer")
        return chunks

    async def _run_fetcher(
        self, transfer: _ContentTransfer, indexes: Iterator[int], window: FetchWindow, number: int
    ) -> None:
        assert transfer.partial is not None, "it has begun"
        while await window.wait_for_turn(number):
            index = next(indexes, None)
            if index is None:
                window.close()
                return
            began = self._clock.monotonic()
            await self._fetch_chunk(transfer, transfer.partial, index)
            window.record_duration(self._clock.monotonic() - began)

    async def _fetch_chunk(self, transfer: _ContentTransfer, partial: PartialContent, index: int) -> None:
        """Fetch one chunk from whichever source delivers it."""
        while True:
            source = await self._wait_for_source(transfer)
            try:
                async with self._slots:
                    is_right = await self._fetch_and_write(transfer, source, index)
            except ChunkNotYetFetched as error:
                source.record_not_yet(error.have_chunks, self._clock.monotonic(), self.options.stall_s)
                await self._clock.sleep(_RETRY_S)
                continue
            except SourceFailed as error:
                source.record_failure(error.message.rstrip("."), self._clock.monotonic())
                continue
            except TransferFailed as error:
                if error.slug == "disk_full":
                    raise
                source.record_failure(error.message.rstrip("."), self._clock.monotonic())
                continue
            finally:
                transfer.arriving_bytes.pop(index, None)
            if is_right:
                break
            log.warning("a wrong chunk was discarded", place=redact_url(source.address.url), chunk=index)
            reason = f"{redact_url(source.address.url)} sent wrong bytes"
            if await self._report_damage(source.address):
                source.exclude(reason)
            else:
                source.record_failure(f"{reason}, which was reported", self._clock.monotonic())
        source.record_success()
        transfer.progress_at = self._clock.monotonic()
        partial.mark_verified(index)
        transfer.report_progress()

    async def _report_damage(self, address: BlobAddress) -> bool:
        """Report wrong bytes to the frontend that sent them. False if the frontend discards its copy or still checks
        it: the source is worth another request then."""
        if not address.damage_url:
            return True
        headers = {"Authorization": f"Bearer {self._library.credential}"}
        try:
            async with self._direct.request(address.damage_url, method="POST", headers=headers) as response:
                if response.status != HTTPStatus.OK:
                    # An older frontend does not know this route.
                    return True
                answer = json.loads(await self._direct.read_body(address.damage_url, response, _ANSWER_BYTES_MAX))
        except (SourceFailed, TransferFailed):
            return False
        except ValueError:
            return True
        return isinstance(answer, dict) and answer.get("is_right") is True

    async def _wait_for_source(self, transfer: _ContentTransfer) -> ChunkSource:
        while True:
            now = self._clock.monotonic()
            self._check_stalled(transfer, "a chunk")
            self._add_sources(transfer)
            source = transfer.sources.find_best(now)
            if source is not None:
                return source
            next_time = transfer.sources.find_next_time()
            if next_time is None and transfer.sources.are_all_excluded and self._library.get_node_id() is not None:
                raise _make_unobtainable_error(transfer, "a chunk", "digest_mismatch")
            # Without any source, the worker is not registered yet, or the frontends' addresses have not arrived.
            await self._clock.sleep(_NO_SOURCE_S if next_time is None else max(0.01, next_time - now))

    def _add_sources(self, transfer: _ContentTransfer) -> None:
        """Add the addresses that are known now: those of the frontends come with the registration."""
        for sources in transfer.offered_sources:
            transfer.sources.add(list_addresses(sources, transfer.sha256, self._library))

    async def _fetch_and_write(self, transfer: _ContentTransfer, source: ChunkSource, index: int) -> bool:
        """Fetch a chunk and write it; return whether it is right."""
        partial, address = transfer.partial, source.address
        assert partial is not None, "it has begun"
        if address.is_external or not self._throttle.is_unlimited:
            data = await self._download_chunk(transfer, source, index)
            return await run_in_thread(lambda _stop: partial.write(index, data))
        start, length = compute_chunk_span(index, transfer.size_bytes)
        writer = partial.open_chunk(index)
        request = ChunkRequest(
            url=address.url,
            start=start,
            length=length,
            total=transfer.size_bytes,
            headers=address.headers,
            put=writer.write,
            on_progress=lambda count: transfer.record_arrived(index, count),
        )
        transfer.record_arrived(index, 0)
        refusal = await self._chunk_client.fetch(request)
        if refusal is not None:
            raise self._make_refusal(transfer, source, refusal.status, refusal.headers)
        return writer.is_valid()

    async def _download_chunk(self, transfer: _ContentTransfer, source: ChunkSource, index: int) -> bytearray:
        start, length = compute_chunk_span(index, transfer.size_bytes)
        address = source.address
        http = self._external if address.is_external else self._direct
        headers = {**address.headers, "Range": f"bytes={start}-{start + length - 1}"}
        async with http.request(address.url, headers=headers) as response:
            is_all = response.status == HTTPStatus.OK and length == transfer.size_bytes
            if response.status != HTTPStatus.PARTIAL_CONTENT and not is_all:
                raise self._make_refusal(transfer, source, response.status, response.headers)
            data, filled = bytearray(length), 0
            transfer.record_arrived(index, 0)
            async for piece in http.iterate_chunks(address.url, response):
                await self._throttle.take(len(piece))
                end = filled + len(piece)
                if end > length:
                    raise SourceFailed(
                        f"{redact_url(address.url)} sent more than the requested range.", code="bad_answer"
                    )
                data[filled:end] = piece
                filled = end
                transfer.record_arrived(index, filled)
        if filled < length:
            raise SourceFailed(f"{redact_url(address.url)} ended the response too early.", code="source_unavailable")
        return data

    def _make_refusal(
        self, transfer: _ContentTransfer, source: ChunkSource, status: int, headers: Mapping[str, str]
    ) -> Exception:
        if status == HTTPStatus.TOO_EARLY:
            return ChunkNotYetFetched(_parse_count(headers.get(HAVE_HEADER, "")))
        is_new = self._clock.monotonic() - transfer.began_at < _BEGIN_S
        if status == HTTPStatus.NOT_FOUND and source.address.is_node and is_new:
            return ChunkNotYetFetched(-1)
        return make_refusal(source.address.url, status)

    # --- limits ---

    def _check_stalled(self, transfer: _ContentTransfer, what: str) -> None:
        if self._clock.monotonic() - transfer.progress_at > self.options.patience_s:
            raise _make_unobtainable_error(transfer, what, "source_unavailable")

    def _check_room(self, missing: list[str], meter: _PullMeter) -> None:
        needed = sum(
            self._count_missing_bytes(sha256, meter.sizes[sha256])
            for sha256 in missing
            if not self._transfers.has_call(sha256)
        )
        promised = sum(
            self._count_missing_bytes(each.sha256, each.size_bytes) for each in self._transfers.list_states()
        )
        free = self.options.free_bytes(self._store.get_part_path("").parent)
        if not needed or free is None or free - self.options.headroom_bytes - promised >= needed:
            return
        raise make_disk_full_error(
            f"{_format_size(needed)} are to be fetched, {_format_size(free)} are free,"
            f" {_format_size(promised)} of them are promised to other files"
            f" and {_format_size(self.options.headroom_bytes)} are to stay free"
        )

    def _count_missing_bytes(self, sha256: str, size_bytes: int) -> int:
        return max(0, size_bytes - self._store.measure_part_bytes(sha256))


class _ContentTransfer:
    """One content that is being fetched, for all jobs that need it."""

    def __init__(self, sha256: str, size_bytes: int) -> None:
        self.sha256 = sha256
        self.size_bytes = size_bytes
        self.sources = ChunkSources()
        # The sources that each job has named.
        self.offered_sources: list[tuple[BlobSource, ...]] = []
        self.meters: list[_PullMeter] = []
        self.began_at = self.progress_at = 0.0
        self.partial: PartialContent | None = None
        # Bytes of chunks that are not verified yet.
        self.arriving_bytes: dict[int, int] = {}

    def record_arrived(self, index: int, count: int) -> None:
        """Record how many bytes of a chunk have arrived. Calls after the end of the chunk are ignored."""
        if count == 0 or index in self.arriving_bytes:
            self.arriving_bytes[index] = count
            self.report_progress()

    def record_verified(self, count: int) -> None:
        """Record how many bytes of an earlier attempt were verified so far, while the rest is still being hashed."""
        if self.partial is None:
            for meter in self.meters:
                meter.set_current(self.sha256, count)

    def report_progress(self) -> None:
        have = self.partial.verified_bytes if self.partial else 0
        current = min(self.size_bytes, have + sum(self.arriving_bytes.values()))
        for meter in self.meters:
            meter.set_current(self.sha256, current)


class _PullMeter:
    """Sums up the bytes of all files of one job; files of the same content count once."""

    def __init__(self, files: tuple[ModelFileItem, ...], progress: JobProgressListener) -> None:
        self.sizes = {file.sha256: file.size_bytes for file in files}
        self._names = {file.sha256: file.path for file in files}
        self._current = dict.fromkeys(self.sizes, 0)
        self._total = sum(self.sizes.values())
        self._report = progress

    def set_current(self, sha256: str, current: int) -> None:
        self._current[sha256] = current
        self._report.on_progress(sum(self._current.values()), self._total, self._names[sha256])


async def _run_all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of them; raise the first failure after the others have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


def _make_unobtainable_error(transfer: _ContentTransfer, what: str, code: str) -> CorralError:
    kind = TransferFailed if code == "digest_mismatch" else SourceFailed
    return kind(
        f"{transfer.sha256[:12]} could not be fetched ({what}): {transfer.sources.describe_failures()}.",
        hint="What was fetched so far is kept.",
        code=code,
    )


def _make_stopping_error() -> SourceFailed:
    return SourceFailed("This worker stops, and fetches nothing more.", code="source_unavailable")


def _parse_count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _format_size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 1024**2:.0f} MiB"
