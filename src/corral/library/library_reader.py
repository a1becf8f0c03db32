"""What a frontend's library holds: finds contents, serves them, and says which libraries of the cluster have them.

Guarantee: a copy that is damaged or lost is no longer registered once it was noticed; other frontends that hold the
content are named to the reader. Limit: nothing enters the library here and nothing leaves it (`library.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.bus.messages import BlobSource
from corral.domain.errors import NotFound, Unavailable
from corral.domain.model import CHUNK_BYTES, Blob
from corral.library.content_store import ContentStore, measure_free_bytes, read_file
from corral.library.inspector import CopyInspector, InspectorDeps
from corral.ports.files import SharedStorage
from corral.ports.runtime import Clock
from corral.store import files as file_store
from corral.store.database import Database, is_storable
from corral.store.files import HeldContent, LibraryHolder, LostUpload

log = structlog.get_logger(__name__)
# A signed address of the storage outlives the longest transfer that uses it.
ADDRESS_LIFE_S = 24 * 3600.0
# Addresses to listen on that no client can be sent to.
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
SHARED_FOLDER = "shared folder"
# How many lists of chunks are kept in memory; one of 1 TiB takes 4 MiB.
CHUNK_LISTS_MAX = 64


@dataclass(slots=True)
class ChunkListCache:
    """Caches lists of chunk hashes of model files, and drops the list that was used longest ago."""

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
    """Tunables of a frontend's library of model files: its folder, whether workers share it, and free space."""

    frontend_id: str
    # None: this frontend has no library, and files cannot enter here.
    folder: Path | None = None
    # The folder is the same for all frontends and workers: nothing has to be copied to a node.
    is_shared: bool = False
    # Returns the free space of a folder; tests replace it.
    free_bytes: Callable[[Path], int] = measure_free_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryHolders:
    """Names the places for which one frontend registers model files: its own folder, and a shared storage."""

    own: LibraryHolder
    storage: LibraryHolder | None = None

    @property
    def entry(self) -> LibraryHolder:
        """Return the holder of contents that enter here: with a storage, files only pass through the folder."""
        return self.storage or self.own


class LibraryReader:
    """Finds and serves the model files that one frontend holds, checks its copies, and knows other holders."""

    def __init__(
        self, options: LibraryOptions, database: Database, clock: Clock, storage: SharedStorage | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._storage = storage
        self._is_shared = options.is_shared
        self._content_store = (
            ContentStore(options.folder, free_bytes=options.free_bytes, is_open_to_workers=options.is_shared)
            if options.folder is not None
            else None
        )
        self._holders = LibraryHolders(
            own=LibraryHolder(
                name=SHARED_FOLDER if options.is_shared else options.frontend_id, is_shared=options.is_shared
            ),
            storage=LibraryHolder(name=storage.name, is_shared=True) if storage else None,
        )
        self._chunk_lists = ChunkListCache()
        self._inspector = CopyInspector(
            self._content_store,
            InspectorDeps(
                clock=clock,
                find_blob=self.get_blob,
                drop_own=lambda sha256: self._drop(self._holders.own, sha256),
                drop_stored=lambda sha256: self._drop(self._holders.storage, sha256),
                storage=storage,
            ),
        )
        self._lost_uploads: tuple[LostUpload, ...] = ()

    @property
    def content_store(self) -> ContentStore:
        if self._content_store is None:
            raise make_no_library_error()
        return self._content_store

    def find_path(self, sha256: str) -> Path | None:
        """Return the file of a content on this machine; None if it is not here."""
        return self._content_store.find_path(sha256) if self._content_store is not None else None

    async def has(self, sha256: str) -> bool:
        """Return whether the content is here, or in the storage that all frontends share."""
        return sha256 in await self.filter_held((sha256,))

    async def filter_held(self, sha256s: Collection[str]) -> frozenset[str]:
        """Return those of the contents that are available here or from the storage."""
        missing = {sha256 for sha256 in sha256s if not await self._is_intact(sha256)}
        held = frozenset(sha256s) - missing
        if not missing or self._holders.storage is None:
            return held
        async with self._database.transaction() as tx:
            holders = await file_store.list_holders(tx, missing)
        return held | {sha256 for sha256, found in holders.items() if self._holders.storage in found}

    def can_serve(self, blob: Blob) -> bool:
        """Return whether a copy of this size is here. A touched copy is served and checked meanwhile: nodes verify
        it."""
        path = self.find_path(blob.sha256)
        if path is None:
            return False
        if not self._inspector.matches_note(blob):
            self._inspector.inspect(blob.sha256)
        return path.stat().st_size == blob.size_bytes

    def read(self, sha256: str, offset: int, length: int) -> AsyncIterator[memoryview]:
        """Yield these bytes of a content that is here, in large pieces; `NotFound` if it is not."""
        path = self.find_path(sha256)
        if path is None:
            raise NotFound("This frontend does not hold that content.", code="blob_not_here")
        return read_file(path, offset, length)

    async def read_chunk(self, sha256: str, index: int) -> bytes:
        """Return one chunk of a content that is here."""
        return b"".join([piece async for piece in self.read(sha256, index * CHUNK_BYTES, CHUNK_BYTES)])

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

    # --- who holds contents ---

    async def list_holders(self, sha256: str) -> tuple[LibraryHolder, ...]:
        """Return every library that is registered to hold the content."""
        async with self._database.transaction() as tx:
            return (await file_store.list_holders(tx, (sha256,))).get(sha256, ())

    async def list_blob_sources(self, sha256s: Collection[str]) -> tuple[BlobSource, ...]:
        """Return addresses of the storage, from which nodes take these directly, and of the frontends that hold
        them: a node may know only some of the frontends."""
        async with self._database.transaction() as tx:
            libraries = await file_store.list_libraries(tx, sha256s)
            holders = await file_store.list_holders(tx, sha256s) if self._holders.storage else {}
        return (
            *await self._list_storage_sources(sha256s, holders),
            *make_library_sources(libraries, frozenset(sha256s)),
        )

    async def _list_storage_sources(
        self, sha256s: Collection[str], holders: Mapping[str, tuple[LibraryHolder, ...]]
    ) -> tuple[BlobSource, ...]:
        if self._storage is None or self._holders.storage is None:
            return ()
        stored = [sha256 for sha256 in sorted(sha256s) if self._holders.storage in holders.get(sha256, ())]
        return tuple(
            [
                BlobSource(kind="storage", url=await self._storage.make_address(sha256, ADDRESS_LIFE_S), sha256=sha256)
                for sha256 in stored
            ]
        )

    async def report_missing(self, sha256: str) -> tuple[LibraryHolder, ...]:
        """Return who holds a content that is missing here, and unregister this library as a holder."""
        found = await self.list_holders(sha256)
        if self._holders.own not in found:
            return found
        log.warning("a file of the library is lost", sha256=sha256)
        await self._drop(self._holders.own, sha256)
        return tuple(holder for holder in found if holder != self._holders.own)

    async def _drop(self, holder: LibraryHolder | None, sha256: str) -> None:
        if holder is not None:
            async with self._database.transaction() as tx:
                await file_store.drop_holder(tx, holder, (sha256,))
        await self.find_lost()

    async def find_lost(self) -> int:
        """Look for uploaded files that no library holds any more, and return how many there are."""
        async with self._database.transaction() as tx:
            self._lost_uploads = tuple(await file_store.list_lost_uploads(tx, self._holders.own))
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

    # --- damaged copies ---

    def report_damage(self, sha256: str) -> bool | None:
        """Hash this frontend's copies of a content of which a node received wrong bytes, at most once in ten
        minutes. Return whether they are right; None while that is not known."""
        return self._inspector.inspect(sha256)

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        """Check this frontend's copies of these contents; damaged or missing ones are no longer held."""
        for sha256 in sha256s if self._content_store is not None else ():
            if not await self._is_intact(sha256):
                await self.report_missing(sha256)

    async def _is_intact(self, sha256: str) -> bool:
        """Return whether a right copy is in this frontend's folder. A copy that the registry does not know counts as
        right until it is needed: see `_find_held`."""
        if self.find_path(sha256) is None:
            return False
        async with self._database.transaction() as tx:
            blob = await file_store.find_blob(tx, sha256)
        return blob is None or await self._inspector.is_intact(blob)

    async def _check_stored(self, known: Blob | None) -> Blob | None:
        """Return the content if the storage still has it: another program may have emptied the bucket."""
        if known is None or self._storage is None or self._holders.storage is None:
            return None
        if await self._storage.find(known.sha256) == known.size_bytes:
            return known
        log.warning("a file of the storage is lost", sha256=known.sha256)
        async with self._database.transaction() as tx:
            await file_store.drop_holder(tx, self._holders.storage, (known.sha256,))
        return None


def make_library_sources(
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


def make_no_library_error() -> Unavailable:
    hint = "Set library_dir to a folder with room."
    return Unavailable("This frontend has no library.", hint=hint, code="no_library")
