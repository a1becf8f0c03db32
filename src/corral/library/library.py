"""The library of one frontend: files enter the cluster here, once, and nodes read them from here.

Guarantee: everything that `ensure_files` returns is held, hashed and registered, in one transaction with the model's
facts. A crash leaves nothing behind but bytes that the next attempt continues with. One content is fetched once at a
time, for all that need it. Limit: a folder is a cache of one frontend. A lost file is fetched again from its source;
other frontends that hold it are named to the reader. Slow work runs in threads.

`library_reader.py` finds and serves what is held; this module lets files in, registers them and collects garbage.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.domain.errors import Conflict
from corral.domain.model import Blob, Model, ModelFacts, ModelFile, StoredFile
from corral.library.content_store import INCOMING_LIFE_S, ContentStore, read_at
from corral.library.importer import FetchProgress, LibraryImporter, is_upload, measure, resolve_files
from corral.library.library_reader import (
    ChunkListCache,
    LibraryHolders,
    LibraryOptions,
    LibraryReader,
    make_library_sources,
    make_no_library_error,
)
from corral.models import adapters
from corral.policy.models.headers import Read, ReadableFile, read_facts
from corral.ports.files import ModelFileOrigins, ProgressCallback, SharedStorage
from corral.ports.library import FetchProgressListener, NoPeerLibraries, PeerLibraries
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import files as file_store
from corral.store import models as model_store
from corral.store import replicas as replica_store
from corral.store.database import Database
from corral.store.files import LibraryHolder
from corral.transfer.files import StopFlag, run_in_thread
from corral.transfer.inbox import Inbox

log = structlog.get_logger(__name__)
# How long a content of no model is kept when an admin collects, and how long otherwise: after an upload the model
# is created later.
GRACE_S = 3600.0
LONG_GRACE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryGarbageReport:
    """Lists the files in a frontend's library that belong to no model, and the bytes that they take."""

    files: tuple[StoredFile, ...] = ()
    is_dry_run: bool = False

    @property
    def freed_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(slots=True, kw_only=True)
class LibraryCollector:
    """Deletes files from a frontend's library that belong to no model, and keeps those that a caller has pinned."""

    database: Database
    clock: Clock
    # None: this frontend has no library of its own.
    content_store: ContentStore | None
    storage: SharedStorage | None
    holders: LibraryHolders
    chunk_lists: ChunkListCache
    # Contents that are about to be registered: not to be collected now.
    pins: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def pin_contents(self) -> Iterator[Callable[[str], None]]:
        """Yield a function that keeps a content from being collected until the block ends."""
        pins: Counter[str] = Counter()

        def pin(sha256: str) -> None:
            pins[sha256] += 1
            self.pins[sha256] += 1

        try:
            yield pin
        finally:
            self.pins -= pins

    async def collect(self, *, dry_run: bool, older_than_s: float) -> LibraryGarbageReport:
        """Delete contents that are held for no model, or only list them."""
        found: list[StoredFile] = []
        for holder in {self.holders.own, self.holders.entry}:
            async with self.database.transaction() as tx:
                unused = await file_store.list_unused(tx, holder, older_than_s)
            for sha256, size_bytes in unused:
                if dry_run or await self.forget(sha256, holder, older_than_s):
                    found.append(StoredFile(path="", sha256=sha256, size_bytes=size_bytes))
        found += await self._collect_unknown(dry_run=dry_run, older_than_s=older_than_s)
        if not dry_run:
            async with self.database.transaction() as tx:
                await file_store.prune_blobs(tx, GRACE_S)
        return LibraryGarbageReport(files=tuple(found), is_dry_run=dry_run)

    async def forget_everywhere(self, sha256: str) -> bool:
        """Delete one content from the folder and the storage if no model uses it; return whether it was deleted."""
        forgotten = [await self.forget(sha256, holder, 0.0) for holder in {self.holders.own, self.holders.entry}]
        return any(forgotten)

    async def forget(self, sha256: str, holder: LibraryHolder, older_than_s: float) -> bool:
        """Delete a content of one holder, unless it is pinned, used or fresh; return whether it was deleted."""
        if self.pins[sha256]:
            return False
        async with self.database.transaction() as tx:
            if not await file_store.release_unused(tx, sha256, holder, older_than_s):
                return False
        if holder == self.holders.storage and self.storage is not None:
            await self.storage.remove(sha256)
            return True
        if self.pins[sha256]:
            # Another caller needs the content now, and will register it.
            return False
        self.chunk_lists.lists.pop(sha256, None)
        # In the event loop, on purpose: no caller can start to need the content between the check above and this.
        if self.content_store is None:
            raise make_no_library_error()
        self.content_store.remove(sha256)
        return True

    async def _collect_unknown(self, *, dry_run: bool, older_than_s: float) -> list[StoredFile]:
        """Collect files that the registry does not know: of a model with an invalid header, or of another cluster."""
        if self.content_store is None:
            return []
        store, now_s = self.content_store, self.clock.wall().timestamp()
        present = await run_in_thread(lambda _stop: list(store.list_contents()))
        async with self.database.transaction() as tx:
            known = await file_store.list_sizes(tx)
        old = [one for one in present if one.sha256 not in known and now_s - one.changed_s >= older_than_s]
        unpinned = [one for one in old if not self.pins[one.sha256]]
        if not dry_run:
            for one in unpinned:
                store.remove(one.sha256)
        return [StoredFile(path="", sha256=one.sha256, size_bytes=one.size_bytes) for one in unpinned]


class FrontendLibrary(LibraryReader):
    """Keeps model files on one frontend by sha256: fetches, registers, serves and garbage-collects them."""

    def __init__(
        self,
        options: LibraryOptions,
        database: Database,
        origins: ModelFileOrigins,
        clock: Clock,
        storage: SharedStorage | None = None,
        peers: PeerLibraries | None = None,
    ) -> None:
        super().__init__(options, database, clock, storage)
        self._peers = peers or NoPeerLibraries()
        self._origins = origins
        self._collector = LibraryCollector(
            database=database,
            clock=clock,
            content_store=self._content_store,
            storage=storage,
            holders=self._holders,
            chunk_lists=self._chunk_lists,
        )
        self._tool_support = ToolSupportReader(database, self.filter_held, self.find_path, storage)
        self._importer = (
            LibraryImporter(
                self._content_store,
                origins,
                storage,
                find_held=self._find_held,
                fetch_from_peers=self._fetch_from_peers,
            )
            if self._content_store
            else None
        )

    @property
    def _ready_importer(self) -> LibraryImporter:
        if self._importer is None:
            raise make_no_library_error()
        return self._importer

    # --- start and stop ---

    async def start(self) -> None:
        """Register the contents of the folder, if it exists. A library that is not usable stops nothing else."""
        if self._content_store is None:
            return
        outcome = await attempt(self.tidy)
        if isinstance(outcome, AttemptFailure):
            log.warning("could not read the library", error=outcome.sentence)

    async def stop(self) -> None:
        """Stop running fetches, whose bytes stay, and unregister this library."""
        await self._inspector.close()
        if self._importer is not None:
            await self._importer.close()
        if self._content_store is not None and not self._holders.own.is_shared:
            async with self._database.transaction() as tx:
                await file_store.drop_holder(tx, self._holders.own)
        if self._storage is not None:
            await self._storage.close()

    async def tidy(self) -> int:
        """Reconcile folder and registry, and return how many contents are held here.

        A file of another size than its content has is deleted: it was damaged. One that the registry does not know
        stays, and is checked when it is needed.
        """
        store = self.content_store
        if not await run_in_thread(lambda _stop: store.folder.is_dir()):
            # The folder is created with the first file: a frontend that fetches nothing leaves no folder behind.
            async with self._database.transaction() as tx:
                await file_store.drop_absent_holders(tx)
            return 0
        await run_in_thread(lambda _stop: store.prepare())
        await run_in_thread(lambda _stop: store.tidy(self._clock.wall().timestamp()))
        found = await run_in_thread(lambda _stop: list(store.list_contents()))
        async with self._database.transaction() as tx:
            await file_store.drop_absent_holders(tx)
            sizes = await file_store.list_sizes(tx)
        damaged = [entry.sha256 for entry in found if sizes.get(entry.sha256, entry.size_bytes) != entry.size_bytes]
        for sha256 in damaged:
            log.warning("a file of the library had the wrong size and was removed", sha256=sha256)
            await run_in_thread(lambda _stop, sha256=sha256: store.remove(sha256))  # type: ignore[misc]
        held = sorted({entry.sha256 for entry in found if entry.sha256 in sizes} - set(damaged))
        async with self._database.transaction() as tx:
            # Only new contents are registered: repeating the others would make them look fresh.
            known, own = await file_store.list_holders(tx, held), self._holders.own
            await file_store.put_holder(tx, [one for one in held if own not in known.get(one, ())], own)
        await self._inspect_changed({sha256: sizes[sha256] for sha256 in held})
        return len(held)

    async def _inspect_changed(self, sizes: Mapping[str, int]) -> None:
        """Have copies hashed that were touched since their note was written. A copy of an older version is noted as
        it is."""
        store = self.content_store

        def find_changed(stop: StopFlag) -> list[str]:
            changed = []
            for sha256, size_bytes in sizes.items():
                stop.raise_if_set()
                if store.notes.exists(sha256) and not store.notes.matches(sha256, size_bytes):
                    changed.append(sha256)
                elif not store.notes.exists(sha256):
                    store.notes.write(sha256)
            return changed

        for sha256 in await run_in_thread(find_changed):
            self._inspector.inspect(sha256)

    # --- entering ---

    async def measure(self, files: Sequence[ModelFile]) -> int | None:
        """Ask the sources of these files whether they exist, and return their bytes. See `importer.measure`."""
        return await measure(self._origins, files, self._find_held)

    async def ensure_files(
        self, model: str, files: Sequence[ModelFile], report: FetchProgressListener
    ) -> tuple[StoredFile, ...]:
        """Hold all files of a model, and register its contents and the facts in their headers.

        A held file is not fetched again, if its sha256 was given. `Conflict` (model_changed) if the model was given
        other files meanwhile; fetched files are kept.
        """
        async with self._database.transaction() as tx:
            entry = (await model_store.get_model(tx, model)).config.entry
        resolved = await resolve_files(self._origins, files)
        with self._collector.pin_contents() as pin:
            blobs = (
                await self._ready_importer.import_files(resolved, FetchProgress(report, len(resolved)), pin)
                if resolved
                else []
            )
            stored = tuple(
                StoredFile(path=one.path, sha256=blob.sha256, size_bytes=blob.size_bytes)
                for one, blob in zip(resolved, blobs, strict=True)
            )
            facts = await read_stored_facts(stored, entry, self.find_path, self._storage)
            await self._register(model, files, blobs, stored, facts)
            self._forget_inspections(blobs)
            await self._leave_to_storage(blobs)
        return stored

    async def check_uploads(self, files: Sequence[ModelFile], entry: str) -> ModelFacts | None:
        """Return the facts in files that were all uploaded; None if one comes from elsewhere or is not here.

        `BadHeader` if no engine would load them. Nothing is fetched and nothing is written.
        """
        if not files or not all(is_upload(file) for file in files):
            return None
        sent = await resolve_files(self._origins, files)
        if await self.filter_held([one.sha256 for one in sent]) < {one.sha256 for one in sent}:
            return None
        blobs = [await self.get_blob(one.sha256) for one in sent]
        stored = [
            StoredFile(path=one.path, sha256=blob.sha256, size_bytes=blob.size_bytes)
            for one, blob in zip(sent, blobs, strict=True)
        ]
        return await read_stored_facts(stored, entry, self.find_path, self._storage) or ModelFacts()

    async def read_upload_facts(self, blob: Blob, path: str) -> ModelFacts | None:
        """Return the facts in the header of one uploaded file, under a name with the suffix of its format. `BadHeader`
        if no engine would load it."""
        await self._find_held(blob.sha256)
        stored = StoredFile(path=path, sha256=blob.sha256, size_bytes=blob.size_bytes)
        return await read_stored_facts([stored], path, self.find_path, self._storage)

    async def _register(
        self,
        model: str,
        files: Sequence[ModelFile],
        blobs: Sequence[Blob],
        stored: Sequence[StoredFile],
        facts: ModelFacts | None,
    ) -> None:
        async with self._database.transaction() as tx:
            locked = await model_store.lock_model(tx, model)
            if locked.config.files != tuple(files):
                raise Conflict(
                    f"{model} was given other files while these were fetched.",
                    hint="Try again; the fetched files are kept.",
                    code="model_changed",
                )
            await file_store.put_blobs(tx, blobs, self._holders.entry)
            made = await model_store.put_contents(tx, locked.name, stored, facts)
            # A source without a given sha256 may have changed: replicas with the old bytes end.
            await replica_store.mark_stale(tx, made.name, made.run_hash, "its files have changed")
            await adapters.refresh(tx, made.name)

    async def take_upload(self, path: Path, sha256: str) -> Blob:
        """Hold an uploaded file; it is moved, and registered without a model. A second upload changes nothing."""
        with self._collector.pin_contents() as pin:
            pin(sha256)
            blob = await self._find_held(sha256) or await self._ready_importer.import_upload(path, sha256)
            async with self._database.transaction() as tx:
                await file_store.put_blobs(tx, (blob,), self._holders.entry)
            self._forget_inspections((blob,))
            await self._leave_to_storage((blob,))
        if self._lost_uploads:
            await self.find_lost()
        return blob

    def _forget_inspections(self, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            self._inspector.forget(blob.sha256)

    async def _leave_to_storage(self, blobs: Sequence[Blob]) -> None:
        """Delete local copies that are in the storage: with a storage, files only pass through the folder."""
        if self._storage is not None:
            store = self.content_store
            await run_in_thread(lambda _stop: [store.remove(blob.sha256) for blob in blobs])

    async def _find_held(self, sha256: str) -> Blob | None:
        """Return the held content of a given sha256. A file that the registry does not know is hashed before it
        counts."""
        if self._holders.storage is not None:
            # Registered first, checked second: a frontend that collects leaves fresh registrations alone.
            async with self._database.transaction() as tx:
                if self._holders.storage in (await file_store.list_holders(tx, (sha256,))).get(sha256, ()):
                    await file_store.put_holder(tx, (sha256,), self._holders.storage)
        if not await self.has(sha256):
            return None
        async with self._database.transaction() as tx:
            known = await file_store.find_blob(tx, sha256)
        path = self.find_path(sha256)
        if path is None:
            return await self._check_stored(known)
        if known is not None and path.stat().st_size == known.size_bytes:
            return known
        store = self.content_store
        return await run_in_thread(lambda stop: store.hash_content(sha256, stop))

    async def _fetch_from_peers(self, sha256: str, into: Path, moved: ProgressCallback) -> Path | None:
        """Fetch a content that another frontend's library holds."""
        async with self._database.transaction() as tx:
            blob = await file_store.find_blob(tx, sha256)
            libraries = await file_store.list_libraries(tx, (sha256,))
        urls = [source.url for source in make_library_sources(libraries, frozenset((sha256,)))]
        return await self._peers.fetch(blob, urls, into, moved) if blob is not None and urls else None

    # --- unused contents ---

    async def tick(self) -> int:
        """Delete contents that have been held for no model for a long time; return how many. Models are read first."""
        if self._content_store is None:
            return 0
        await self._tool_support.tick()
        async with self._database.transaction() as tx:
            sizes = await file_store.list_sizes(tx)
        present = await run_in_thread(lambda _stop: {entry.sha256 for entry in self.content_store.list_contents()})
        await self._inspect_changed({sha256: size for sha256, size in sizes.items() if sha256 in present})
        # Parts of uploads that an admin began and never continued.
        old = await Inbox(self._content_store.uploads).collect_garbage(self._clock.wall().timestamp() - INCOMING_LIFE_S)
        return len(old) + len((await self.collect(older_than_s=LONG_GRACE_S)).files)

    async def collect(self, *, dry_run: bool = False, older_than_s: float = GRACE_S) -> LibraryGarbageReport:
        """Delete contents that are held for no model, or only list them."""
        return await self._collector.collect(dry_run=dry_run, older_than_s=older_than_s)

    async def forget_unused(self) -> None:
        """Delete the contents of a deleted model; those of others and fresh ones stay."""
        await self.collect()

    async def forget(self, sha256: str) -> bool:
        """Delete one content if no model uses it; return whether it was deleted."""
        return await self._collector.forget_everywhere(sha256)


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
    """Reads from model files in a frontend's library whether a model supports tool calls, where unknown.

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
