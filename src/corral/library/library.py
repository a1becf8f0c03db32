"""The library of one frontend: files enter the cluster here, once, and nodes read them from here.

Guarantee: everything that `ensure_files` returns is held, hashed and registered, in one transaction with the model's
facts. A crash leaves nothing behind but bytes that the next attempt continues with. One content is fetched once at a
time, whoever needs it. Limit: a folder is a cache of one frontend. A lost file is fetched again from its source;
other frontends that hold it are named to the reader. Slow work runs in threads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.bus.messages import BlobSource
from corral.domain.errors import Conflict, NotFound, Unavailable
from corral.domain.model import CHUNK_BYTES, Blob, ModelFacts, ModelFile, StoredFile
from corral.library.content_store import INCOMING_LIFE_S, ContentStore, measure_free_bytes, read_file
from corral.library.facts import ToolSupportReader, read_stored_facts
from corral.library.importer import FetchProgress, LibraryImporter, is_upload, measure, resolve_files
from corral.library.inspector import CopyInspector, InspectorDeps
from corral.ports.files import ModelFileOrigins, ProgressCallback, SharedStorage
from corral.ports.library import FetchProgressListener, NoPeerLibraries, PeerLibraries
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import files as file_store
from corral.store import models as model_store
from corral.store import replicas as replica_store
from corral.store.database import Database, is_storable
from corral.store.files import HeldContent, LibraryHolder, LostUpload
from corral.transfer.files import StopFlag, run_in_thread
from corral.transfer.inbox import Inbox

log = structlog.get_logger(__name__)
# How long a content of no model is kept when an admin collects, and how long otherwise: after an upload the model
# is created later.
GRACE_S = 3600.0
LONG_GRACE_S = 24 * 3600.0
# A signed address of the storage outlives the longest transfer that uses it.
ADDRESS_LIFE_S = 24 * 3600.0
# Addresses to listen on that no client can be sent to.
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
SHARED_FOLDER = "shared folder"
# How many lists of chunks are kept in memory; one of 1 TiB takes 4 MiB.
CHUNK_LISTS_MAX = 64


@dataclass(slots=True)
class ChunkListCache:
    """Caches the newest lists of chunks, and drops the one that was used longest ago."""

    lists: OrderedDict[str, Blob] = field(default_factory=OrderedDict)

    def get(self, sha256: str) -> Blob | None:
        if sha256 in self.lists:
            self.lists.move_to_end(sha256)
        return self.lists.get(sha256)

    def put(self, blob: Blob) -> None:
        self.lists[blob.sha256] = blob
        while len(self.lists) > CHUNK_LISTS_MAX:
            self.lists.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOptions:
    """Tunables of the library: its folder, whether workers share it, and how free space is measured."""

    frontend_id: str
    # None: this frontend has no library, and files cannot enter here.
    folder: Path | None = None
    # The folder is the same for all frontends and workers: nothing has to be copied to a node.
    is_shared: bool = False
    # Returns the free space of a folder; tests replace it.
    free_bytes: Callable[[Path], int] = measure_free_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryGarbageReport:
    """Lists the files that the library held for no model, and the bytes that they take."""

    files: tuple[StoredFile, ...] = ()
    is_dry_run: bool = False

    @property
    def freed_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class FrontendLibrary:
    """Keeps the content-addressed files of models on one frontend: fetches, registers, serves and collects them."""

    def __init__(
        self,
        options: LibraryOptions,
        database: Database,
        origins: ModelFileOrigins,
        clock: Clock,
        storage: SharedStorage | None = None,
        peers: PeerLibraries | None = None,
    ) -> None:
        self._peers = peers or NoPeerLibraries()
        self._database = database
        self._origins = origins
        self._clock = clock
        self._storage = storage
        self._is_shared = options.is_shared
        self._content_store = (
            ContentStore(options.folder, free_bytes=options.free_bytes, is_open_to_workers=options.is_shared)
            if options.folder is not None
            else None
        )
        self._own_holder = LibraryHolder(
            name=SHARED_FOLDER if options.is_shared else options.frontend_id, is_shared=options.is_shared
        )
        self._storage_holder = LibraryHolder(name=storage.name, is_shared=True) if storage else None
        # Contents that are about to be registered: not to be collected now.
        self._pins: Counter[str] = Counter()
        self._chunk_lists = ChunkListCache()
        self._tool_support = ToolSupportReader(database, self.filter_held, self.find_path, storage)
        self._inspector = CopyInspector(
            self._content_store,
            InspectorDeps(
                clock=clock,
                find_blob=self.get_blob,
                drop_own=lambda sha256: self._drop(self._own_holder, sha256),
                drop_stored=lambda sha256: self._drop(self._storage_holder, sha256),
                storage=storage,
            ),
        )
        self._lost_uploads: tuple[LostUpload, ...] = ()
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
    def content_store(self) -> ContentStore:
        if self._content_store is None:
            raise _make_no_library_error()
        return self._content_store

    @property
    def _ready_importer(self) -> LibraryImporter:
        if self._importer is None:
            raise _make_no_library_error()
        return self._importer

    @property
    def is_shared_folder(self) -> bool:
        """Whether workers find the files of models in the same folder."""
        return self._is_shared

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
        if self._content_store is not None and not self._own_holder.is_shared:
            async with self._database.transaction() as tx:
                await file_store.drop_holder(tx, self._own_holder)
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
            known, own = await file_store.list_holders(tx, held), self._own_holder
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

    # --- what is held ---

    def find_path(self, sha256: str) -> Path | None:
        """Return the file of a content on this machine; None if it is not here."""
        return self._content_store.find_path(sha256) if self._content_store is not None else None

    async def has(self, sha256: str) -> bool:
        """Whether the content is here, or in the storage that all frontends share."""
        return sha256 in await self.filter_held((sha256,))

    async def filter_held(self, sha256s: Collection[str]) -> frozenset[str]:
        """Return those of the contents that are available here or from the storage."""
        missing = {sha256 for sha256 in sha256s if not await self._is_intact(sha256)}
        held = frozenset(sha256s) - missing
        if not missing or self._storage_holder is None:
            return held
        async with self._database.transaction() as tx:
            holders = await file_store.list_holders(tx, missing)
        return held | {sha256 for sha256, found in holders.items() if self._storage_holder in found}

    async def _is_intact(self, sha256: str) -> bool:
        """Whether a right copy is in this frontend's folder. A copy that the registry does not know counts as right
        until it is needed: see `_find_held`."""
        if self.find_path(sha256) is None:
            return False
        async with self._database.transaction() as tx:
            blob = await file_store.find_blob(tx, sha256)
        return blob is None or await self._inspector.is_intact(blob)

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        """Check this frontend's copies of these contents; damaged or missing ones are no longer held."""
        for sha256 in sha256s if self._content_store is not None else ():
            if not await self._is_intact(sha256):
                await self.report_missing(sha256)

    def can_serve(self, blob: Blob) -> bool:
        """Whether a copy of this size is here. A touched copy is served and checked meanwhile: nodes verify it."""
        path = self.find_path(blob.sha256)
        if path is None:
            return False
        if not self._inspector.matches_note(blob):
            self._inspector.inspect(blob.sha256)
        return path.stat().st_size == blob.size_bytes

    def report_damage(self, sha256: str) -> bool | None:
        """Hash this frontend's copies of a content of which a node received wrong bytes, at most once in ten
        minutes. Return whether they are right; None while that is not known."""
        return self._inspector.inspect(sha256)

    async def _drop(self, holder: LibraryHolder | None, sha256: str) -> None:
        if holder is not None:
            async with self._database.transaction() as tx:
                await file_store.drop_holder(tx, holder, (sha256,))
        await self.find_lost()

    async def find_lost(self) -> int:
        """Look for uploaded files that no library holds any more, and return how many there are."""
        async with self._database.transaction() as tx:
            self._lost_uploads = tuple(await file_store.list_lost_uploads(tx, self._own_holder))
        return len(self._lost_uploads)

    def describe_lost_uploads(self) -> str | None:
        """Return a sentence with the files that people have to upload again; None if there are none."""
        if not self._lost_uploads:
            return None
        first, more = self._lost_uploads[0], len(self._lost_uploads) - 1
        others = f", and {more} more such {'file' if more == 1 else 'files'}" if more else ""
        return (
            f"{first.path} of model {first.model} was uploaded and no library has it any more{others}: upload it "
            f"again with `corral models import`, or PUT /api/files/{first.sha256}."
        )

    async def list_holders(self, sha256: str) -> tuple[LibraryHolder, ...]:
        """Return every library that is registered to hold the content."""
        async with self._database.transaction() as tx:
            return (await file_store.list_holders(tx, (sha256,))).get(sha256, ())

    async def report_missing(self, sha256: str) -> tuple[LibraryHolder, ...]:
        """Return who holds a content that is missing here, and unregister this library as a holder."""
        found = await self.list_holders(sha256)
        if self._own_holder not in found:
            return found
        log.warning("a file of the library is lost", sha256=sha256)
        await self._drop(self._own_holder, sha256)
        return tuple(holder for holder in found if holder != self._own_holder)

    async def list_blob_sources(self, sha256s: Collection[str]) -> tuple[BlobSource, ...]:
        """Return addresses of the storage, from which nodes take these directly, and of the frontends that hold
        them: a node may know only some of the frontends."""
        async with self._database.transaction() as tx:
            libraries = await file_store.list_libraries(tx, sha256s)
            holders = await file_store.list_holders(tx, sha256s) if self._storage_holder else {}
        return (
            *await self._list_storage_sources(sha256s, holders),
            *_make_library_sources(libraries, frozenset(sha256s)),
        )

    async def _list_storage_sources(
        self, sha256s: Collection[str], holders: Mapping[str, tuple[LibraryHolder, ...]]
    ) -> tuple[BlobSource, ...]:
        if self._storage is None or self._storage_holder is None:
            return ()
        stored = [sha256 for sha256 in sorted(sha256s) if self._storage_holder in holders.get(sha256, ())]
        return tuple(
            [
                BlobSource(kind="storage", url=await self._storage.make_address(sha256, ADDRESS_LIFE_S), sha256=sha256)
                for sha256 in stored
            ]
        )

    async def get_blob(self, sha256: str) -> Blob:
        """Return size and chunks of a content that the cluster knows, wherever it is held."""
        known = self._chunk_lists.get(sha256)
        if known is None:
            async with self._database.transaction() as tx:
                known = await file_store.find_blob(tx, sha256)
            if known is None:
                raise NotFound("The cluster knows no such content.", code="blob_not_found")
            self._chunk_lists.put(known)
        return known

    async def list_contents(self, *, model: str | None = None, after: str = "", limit: int = 1000) -> list[HeldContent]:
        """Return a page of all contents that the cluster knows, by sha256, wherever they are held."""
        if model is not None and not is_storable(model):
            return []
        async with self._database.transaction() as tx:
            return await file_store.list_contents(tx, model=model, after=after, limit=limit)

    def read(self, sha256: str, offset: int, length: int) -> AsyncIterator[memoryview]:
        """Yield these bytes of a content that is here, in large pieces; `NotFound` if it is not."""
        path = self.find_path(sha256)
        if path is None:
            raise NotFound("This frontend does not hold that content.", code="blob_not_here")
        return read_file(path, offset, length)

    async def read_chunk(self, sha256: str, index: int) -> bytes:
        """Return one chunk of a content that is here."""
        return b"".join([piece async for piece in self.read(sha256, index * CHUNK_BYTES, CHUNK_BYTES)])

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
        with self._pin_contents() as pin:
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

    async def check_uploads(self, files: Sequence[ModelFile], entry: str) -> bool:
        """Read the headers of files that were all uploaded; False if one comes from elsewhere or is not here.

        `BadHeader` if no engine would load them. Nothing is fetched and nothing is written.
        """
        if not files or not all(is_upload(file) for file in files):
            return False
        sent = await resolve_files(self._origins, files)
        if await self.filter_held([one.sha256 for one in sent]) < {one.sha256 for one in sent}:
            return False
        blobs = [await self.get_blob(one.sha256) for one in sent]
        stored = [
            StoredFile(path=one.path, sha256=blob.sha256, size_bytes=blob.size_bytes)
            for one, blob in zip(sent, blobs, strict=True)
        ]
        await read_stored_facts(stored, entry, self.find_path, self._storage)
        return True

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
            await file_store.put_blobs(tx, blobs, self._holder)
            made = await model_store.put_contents(tx, locked.name, stored, facts)
            # A source without a given sha256 may have changed: replicas with the old bytes end.
            await replica_store.mark_stale(tx, made.name, made.run_hash, "its files have changed")

    async def take_upload(self, path: Path, sha256: str) -> Blob:
        """Hold an uploaded file; it is moved, and registered without a model. A second upload changes nothing."""
        with self._pin_contents() as pin:
            pin(sha256)
            blob = await self._find_held(sha256) or await self._ready_importer.import_upload(path, sha256)
            async with self._database.transaction() as tx:
                await file_store.put_blobs(tx, (blob,), self._holder)
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

    @property
    def _holder(self) -> LibraryHolder:
        return self._storage_holder or self._own_holder

    @contextmanager
    def _pin_contents(self) -> Iterator[Callable[[str], None]]:
        pins: Counter[str] = Counter()

        def pin(sha256: str) -> None:
            pins[sha256] += 1
            self._pins[sha256] += 1

        try:
            yield pin
        finally:
            self._pins -= pins

    async def _find_held(self, sha256: str) -> Blob | None:
        """Return the held content of a given sha256. A file that the registry does not know is hashed before it
        counts."""
        if self._storage_holder is not None:
            # Registered first, checked second: a frontend that collects leaves fresh registrations alone.
            async with self._database.transaction() as tx:
                if self._storage_holder in (await file_store.list_holders(tx, (sha256,))).get(sha256, ()):
                    await file_store.put_holder(tx, (sha256,), self._storage_holder)
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
        urls = [source.url for source in _make_library_sources(libraries, frozenset((sha256,)))]
        return await self._peers.fetch(blob, urls, into, moved) if blob is not None and urls else None

    async def _check_stored(self, known: Blob | None) -> Blob | None:
        """Return the content if the storage still has it: somebody may have emptied the bucket."""
        if known is None or self._storage is None or self._storage_holder is None:
            return None
        if await self._storage.find(known.sha256) == known.size_bytes:
            return known
        log.warning("a file of the storage is lost", sha256=known.sha256)
        async with self._database.transaction() as tx:
            await file_store.drop_holder(tx, self._storage_holder, (known.sha256,))
        return None

    # --- what nobody uses ---

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
        found: list[StoredFile] = []
        for holder in {self._own_holder, self._holder}:
            async with self._database.transaction() as tx:
                unused = await file_store.list_unused(tx, holder, older_than_s)
            for sha256, size_bytes in unused:
                if dry_run or await self._forget(sha256, holder, older_than_s):
                    found.append(StoredFile(path="", sha256=sha256, size_bytes=size_bytes))
        found += await self._collect_unknown(dry_run=dry_run, older_than_s=older_than_s)
        if not dry_run:
            async with self._database.transaction() as tx:
                await file_store.prune_blobs(tx, GRACE_S)
        return LibraryGarbageReport(files=tuple(found), is_dry_run=dry_run)

    async def _collect_unknown(self, *, dry_run: bool, older_than_s: float) -> list[StoredFile]:
        """Collect files that the registry does not know: of a model with an invalid header, or of another cluster."""
        if self._content_store is None:
            return []
        store, now_s = self._content_store, self._clock.wall().timestamp()
        present = await run_in_thread(lambda _stop: list(store.list_contents()))
        async with self._database.transaction() as tx:
            known = await file_store.list_sizes(tx)
        old = [one for one in present if one.sha256 not in known and now_s - one.changed_s >= older_than_s]
        unpinned = [one for one in old if not self._pins[one.sha256]]
        if not dry_run:
            for one in unpinned:
                store.remove(one.sha256)
        return [StoredFile(path="", sha256=one.sha256, size_bytes=one.size_bytes) for one in unpinned]

    async def forget_unused(self) -> None:
        """Delete the contents of a deleted model; those of others and fresh ones stay."""
        await self.collect()

    async def forget(self, sha256: str) -> bool:
        """Delete one content if no model uses it; return whether it was deleted."""
        forgotten = [await self._forget(sha256, holder, 0.0) for holder in {self._own_holder, self._holder}]
        return any(forgotten)

    async def _forget(self, sha256: str, holder: LibraryHolder, older_than_s: float) -> bool:
        if self._pins[sha256]:
            return False
        async with self._database.transaction() as tx:
            if not await file_store.release_unused(tx, sha256, holder, older_than_s):
                return False
        if holder == self._storage_holder and self._storage is not None:
            await self._storage.remove(sha256)
            return True
        if self._pins[sha256]:
            # Another caller needs the content now, and will register it.
            return False
        self._chunk_lists.lists.pop(sha256, None)
        # In the event loop, on purpose: no caller can start to need the content between the check above and this.
        self.content_store.remove(sha256)
        return True


def _make_library_sources(
    libraries: Mapping[tuple[str, int], Collection[str]], sha256s: frozenset[str]
) -> tuple[BlobSource, ...]:
    """Return one source for a library that has all contents; else one for each content."""
    sources: list[BlobSource] = []
    for (host, port), held in libraries.items():
        if host in _ANYWHERE:
            continue
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        whole = sha256s <= set(held)
        sources += [BlobSource(kind="library", url=url, sha256=one) for one in ([""] if whole else sorted(held))]
    return tuple(sources)


def _make_no_library_error() -> Unavailable:
    hint = "Set library_dir to a folder with room."
    return Unavailable("This frontend has no library.", hint=hint, code="no_library")
