"""The library of one frontend: what enters the cluster enters here, once, and nodes read it from here.

Guarantee: what `enter` returns is held, hashed and registered, in one transaction with the model's facts. A crash
leaves nothing behind but bytes that the next try goes on with. One content is fetched once at a time, whoever wants it.
Limit: a folder is a cache of one frontend. What is lost from it is fetched again from where it came from; other
frontends that hold it are named to whoever asks. Slow work runs in threads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.bus.messages import BlobPlace
from corral.domain.errors import Conflict, NotFound, Unavailable
from corral.domain.model import CHUNK_BYTES, Blob, ModelFacts, ModelFile, StoredFile
from corral.library.entering import Entering
from corral.library.facts import facts_of
from corral.library.inspector import CopyInspector, InspectorDeps
from corral.library.report import Sum
from corral.library.serving import read_file
from corral.library.shelf import INCOMING_LIFE_S, Shelf, disk_free
from corral.library.wanted import is_upload, measure, resolve
from corral.ports.library import FetchReport, NoPeers, Peers
from corral.ports.origin import Moved, Origins
from corral.ports.runtime import Clock
from corral.ports.storage import Storage
from corral.runtime.guard import Failed, attempt
from corral.store import files as file_store
from corral.store import models as model_store
from corral.store import replicas as replica_store
from corral.store.database import Database, is_storable
from corral.store.files import Held, Holder, LostUpload
from corral.transfer.inbox import Inbox
from corral.transfer.threads import Stop, in_thread

log = structlog.get_logger(__name__)

# Lists of chunks that are kept in memory; one of 1 TiB takes 4 MiB.
CHUNK_LISTS_MAX = 64
# What is held for no model is kept so long when somebody asks to collect, and so long when nobody does: whoever sends a
# file makes a model of it afterwards.
GRACE_S = 3600.0
LONG_GRACE_S = 24 * 3600.0
# An address of the storage outlives the longest transfer that is given it.
ADDRESS_LIFE_S = 24 * 3600.0
# What is listened on, and nobody can be sent to.
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
SHARED_FOLDER = "shared folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOptions:
    frontend_id: str
    # None: this frontend has no library; nothing can enter here.
    folder: Path | None = None
    # The folder is the same for all frontends and workers: nothing has to be moved to a node.
    is_shared: bool = False
    # How much room there is in a folder; tests have their own.
    free_bytes: Callable[[Path], int] = disk_free


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a library holds, or held, for no model."""

    files: tuple[StoredFile, ...] = ()
    is_dry_run: bool = False

    @property
    def freed_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(slots=True)
class _Memory:
    """Lists of chunks that were asked for lately."""

    lists: OrderedDict[str, Blob] = field(default_factory=OrderedDict)

    def get(self, sha256: str) -> Blob | None:
        if sha256 in self.lists:
            self.lists.move_to_end(sha256)
        return self.lists.get(sha256)

    def put(self, blob: Blob) -> None:
        self.lists[blob.sha256] = blob
        while len(self.lists) > CHUNK_LISTS_MAX:
            self.lists.popitem(last=False)


class Library:
    def __init__(
        self,
        options: LibraryOptions,
        database: Database,
        origins: Origins,
        clock: Clock,
        storage: Storage | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers or NoPeers()
        self._database = database
        self._origins = origins
        self._clock = clock
        self._storage = storage
        self._is_shared = options.is_shared
        self._shelf = _shelf(options)
        self._own = Holder(
            name=SHARED_FOLDER if options.is_shared else options.frontend_id, is_shared=options.is_shared
        )
        self._stored = Holder(name=storage.name, is_shared=True) if storage else None
        # Contents that somebody is about to register: not to be collected now.
        self._pins: Counter[str] = Counter()
        self._memory = _Memory()
        self._inspector = CopyInspector(
            self._shelf,
            InspectorDeps(
                clock=clock,
                find_blob=self.blob,
                drop_own=lambda sha256: self._drop(self._own, sha256),
                drop_stored=lambda sha256: self._drop(self._stored, sha256),
                storage=storage,
            ),
        )
        self._lost: tuple[LostUpload, ...] = ()
        self._entering = (
            Entering(self._shelf, origins, storage, known=self._known, peers=self._from_peers) if self._shelf else None
        )

    @property
    def shelf(self) -> Shelf:
        if self._shelf is None:
            raise _no_library()
        return self._shelf

    @property
    def _door(self) -> Entering:
        if self._entering is None:
            raise _no_library()
        return self._entering

    @property
    def is_shared_folder(self) -> bool:
        """Workers find the files of models in the same folder."""
        return self._is_shared

    # --- start and stop ---

    async def start(self) -> None:
        """Register what is in the folder, if there is one yet. A library that is not usable stops nobody else."""
        if self._shelf is None:
            return
        outcome = await attempt(self.tidy)
        if isinstance(outcome, Failed):
            log.warning("the library could not be looked through", error=outcome.sentence)

    async def stop(self) -> None:
        """End what is being fetched; its bytes stay. Others do not look here any more."""
        await self._inspector.close()
        if self._entering is not None:
            await self._entering.close()
        if self._shelf is not None and not self._own.is_shared:
            async with self._database.transaction() as tx:
                await file_store.drop_holder(tx, self._own)
        if self._storage is not None:
            await self._storage.close()

    async def tidy(self) -> int:
        """Bring folder and registry together; how many contents are held here.

        A file of another size than its content has is thrown away: it was damaged. One that the registry does not know
        stays, and is looked at when somebody wants it.
        """
        shelf = self.shelf
        if not await in_thread(lambda _stop: shelf.folder.is_dir()):
            # Made with the first file: a frontend that fetches nothing leaves no folder behind.
            async with self._database.transaction() as tx:
                await file_store.drop_absent_holders(tx)
            return 0
        await in_thread(lambda _stop: shelf.prepare())
        await in_thread(lambda _stop: shelf.tidy(self._clock.wall().timestamp()))
        found = await in_thread(lambda _stop: list(shelf.contents()))
        async with self._database.transaction() as tx:
            await file_store.drop_absent_holders(tx)
            sizes = await file_store.list_sizes(tx)
        damaged = [entry.sha256 for entry in found if sizes.get(entry.sha256, entry.size_bytes) != entry.size_bytes]
        for sha256 in damaged:
            log.warning("a file of the library had the wrong size and is gone", sha256=sha256)
            await in_thread(lambda _stop, sha256=sha256: shelf.remove(sha256))  # type: ignore[misc]
        held = sorted({entry.sha256 for entry in found if entry.sha256 in sizes} - set(damaged))
        async with self._database.transaction() as tx:
            # Only what is new to it: saying it again would make it look fresh.
            known = await file_store.list_holders(tx, held)
            await file_store.put_holder(tx, [one for one in held if self._own not in known.get(one, ())], self._own)
        await self._look_through({sha256: sizes[sha256] for sha256 in held})
        return len(held)

    async def _look_through(self, sizes: Mapping[str, int]) -> None:
        """Have copies hashed that were touched since they were noted. One of an older version is noted as it is."""
        shelf = self.shelf

        def find_changed(stop: Stop) -> list[str]:
            changed = []
            for sha256, size_bytes in sizes.items():
                stop.check()
                if shelf.has_note(sha256) and not shelf.is_as_noted(sha256, size_bytes):
                    changed.append(sha256)
                elif not shelf.has_note(sha256):
                    shelf.note(sha256)
            return changed

        for sha256 in await in_thread(find_changed):
            self._inspector.inspect(sha256)

    # --- what is held ---

    def path(self, sha256: str) -> Path | None:
        """The file of a content on this machine; None if it is not here."""
        return self._shelf.path(sha256) if self._shelf is not None else None

    async def has(self, sha256: str) -> bool:
        """Here, or in the storage that all frontends share."""
        return sha256 in await self.holds((sha256,))

    async def holds(self, sha256s: Collection[str]) -> frozenset[str]:
        """Which of these can be had from here or from the storage."""
        missing = {sha256 for sha256 in sha256s if not await self._is_intact(sha256)}
        held = frozenset(sha256s) - missing
        if not missing or self._stored is None:
            return held
        async with self._database.transaction() as tx:
            holders = await file_store.list_holders(tx, missing)
        return held | {sha256 for sha256, those in holders.items() if self._stored in those}

    async def _is_intact(self, sha256: str) -> bool:
        """Whether a right copy is in this frontend's folder. One that the registry does not know is taken for right
        until somebody wants it: see `_known`."""
        if self.path(sha256) is None:
            return False
        async with self._database.transaction() as tx:
            blob = await file_store.find_blob(tx, sha256)
        return blob is None or await self._inspector.is_intact(blob)

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        """Look at this frontend's copies of these contents; those that are damaged or gone are not held any more."""
        for sha256 in sha256s if self._shelf is not None else ():
            if not await self._is_intact(sha256):
                await self.missed(sha256)

    def can_serve(self, blob: Blob) -> bool:
        """Whether a copy of this size is here. One that was touched is served, as nodes verify what they get, and is
        looked at meanwhile."""
        path = self.path(blob.sha256)
        if path is None:
            return False
        if not self._inspector.is_as_noted(blob):
            self._inspector.inspect(blob.sha256)
        return path.stat().st_size == blob.size_bytes

    def report_damage(self, sha256: str) -> bool | None:
        """A node was given wrong bytes of a content: hash this frontend's copies, at most once in ten minutes. Whether
        they are right; None as long as that is not known."""
        return self._inspector.inspect(sha256)

    async def _drop(self, holder: Holder | None, sha256: str) -> None:
        if holder is not None:
            async with self._database.transaction() as tx:
                await file_store.drop_holder(tx, holder, (sha256,))
        await self.find_lost()

    async def find_lost(self) -> int:
        """Look for files that were sent by hand and that no library holds any more; how many there are."""
        async with self._database.transaction() as tx:
            self._lost = tuple(await file_store.list_lost_uploads(tx, self._own))
        return len(self._lost)

    def trouble(self) -> str | None:
        """What people have to send again, as a sentence."""
        if not self._lost:
            return None
        first, more = self._lost[0], len(self._lost) - 1
        others = f", and {more} more such {'file' if more == 1 else 'files'}" if more else ""
        return (
            f"{first.path} of model {first.model} was sent by hand and no library has it any more{others}: send it "
            f"again with `corral models import`, or PUT /api/files/{first.sha256}."
        )

    async def holders(self, sha256: str) -> tuple[Holder, ...]:
        """Everybody who is registered to hold it."""
        async with self._database.transaction() as tx:
            return (await file_store.list_holders(tx, (sha256,))).get(sha256, ())

    async def missed(self, sha256: str) -> tuple[Holder, ...]:
        """Somebody wants what is not here: who holds it. If that was said of this library it is taken back, so that
        whoever asks next fetches it again."""
        found = await self.holders(sha256)
        if self._own not in found:
            return found
        log.warning("a file of the library is lost", sha256=sha256)
        await self._drop(self._own, sha256)
        return tuple(holder for holder in found if holder != self._own)

    async def places_for(self, sha256s: Collection[str]) -> tuple[BlobPlace, ...]:
        """Addresses of the storage, from which nodes take these directly, and of the frontends that hold them: a node
        may know only some of the frontends."""
        async with self._database.transaction() as tx:
            libraries = await file_store.list_libraries(tx, sha256s)
            holders = await file_store.list_holders(tx, sha256s) if self._stored else {}
        return (*await self._stored_at(sha256s, holders), *_library_places(libraries, frozenset(sha256s)))

    async def _stored_at(
        self, sha256s: Collection[str], holders: Mapping[str, tuple[Holder, ...]]
    ) -> tuple[BlobPlace, ...]:
        if self._storage is None or self._stored is None:
            return ()
        stored = [sha256 for sha256 in sorted(sha256s) if self._stored in holders.get(sha256, ())]
        return tuple(
            [
                BlobPlace(kind="storage", url=await self._storage.address(sha256, ADDRESS_LIFE_S), sha256=sha256)
                for sha256 in stored
            ]
        )

    async def blob(self, sha256: str) -> Blob:
        """Size and chunks of a content that the cluster knows, wherever it is held."""
        known = self._memory.get(sha256)
        if known is None:
            async with self._database.transaction() as tx:
                known = await file_store.find_blob(tx, sha256)
            if known is None:
                raise NotFound("The cluster knows no such content.", code="blob_not_found")
            self._memory.put(known)
        return known

    async def list_held(self, *, model: str | None = None, after: str = "", limit: int = 1000) -> list[Held]:
        """A page of everything that the cluster knows, by sha256, wherever it is held."""
        if model is not None and not is_storable(model):
            return []
        async with self._database.transaction() as tx:
            return await file_store.list_held(tx, model=model, after=after, limit=limit)

    def read(self, sha256: str, offset: int, length: int) -> AsyncIterator[memoryview]:
        """These bytes of a content that is here, in large pieces; `NotFound` if it is not."""
        path = self.path(sha256)
        if path is None:
            raise NotFound("This frontend does not hold that content.", code="blob_not_here")
        return read_file(path, offset, length)

    async def chunk(self, sha256: str, index: int) -> bytes:
        """One chunk of a content that is here."""
        return b"".join([piece async for piece in self.read(sha256, index * CHUNK_BYTES, CHUNK_BYTES)])

    # --- entering ---

    async def measure(self, files: Sequence[ModelFile]) -> int | None:
        """Ask the sources of these files whether they are there, and return their bytes. See `wanted.measure`."""
        return await measure(self._origins, files, self._known)

    async def enter(self, model: str, files: Sequence[ModelFile], report: FetchReport) -> tuple[StoredFile, ...]:
        """Hold all files of a model, and register what it is made of and what its headers say.

        What is held already is not fetched again, if its sha256 was promised. `Conflict` (model_changed) if the model
        was given other files meanwhile; what was fetched is kept.
        """
        async with self._database.transaction() as tx:
            entry = (await model_store.get_model(tx, model)).config.entry
        wanted = await resolve(self._origins, files)
        with self._pinned() as pin:
            blobs = await self._door.hold(wanted, Sum(report, len(wanted)), pin) if wanted else []
            stored = tuple(
                StoredFile(path=one.path, sha256=blob.sha256, size_bytes=blob.size_bytes)
                for one, blob in zip(wanted, blobs, strict=True)
            )
            facts = await facts_of(stored, entry, self.path, self._storage)
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
        sent = await resolve(self._origins, files)
        if await self.holds([one.sha256 for one in sent]) < {one.sha256 for one in sent}:
            return False
        blobs = [await self.blob(one.sha256) for one in sent]
        stored = [
            StoredFile(path=one.path, sha256=blob.sha256, size_bytes=blob.size_bytes)
            for one, blob in zip(sent, blobs, strict=True)
        ]
        await facts_of(stored, entry, self.path, self._storage)
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
                    hint="Ask again; what was fetched is kept.",
                    code="model_changed",
                )
            await file_store.put_blobs(tx, blobs, self._holder)
            made = await model_store.put_contents(tx, locked.name, stored, facts)
            # A source that nobody had promised a sha256 of may have changed: what runs with the old bytes ends.
            await replica_store.mark_stale(tx, made.name, made.run_hash, "its files have changed")

    async def take(self, path: Path, sha256: str) -> Blob:
        """Hold a file that somebody has sent; it is moved, and registered without a model. Twice is once."""
        with self._pinned() as pin:
            pin(sha256)
            blob = await self._known(sha256) or await self._door.take(path, sha256)
            async with self._database.transaction() as tx:
                await file_store.put_blobs(tx, (blob,), self._holder)
            self._forget_inspections((blob,))
            await self._leave_to_storage((blob,))
        if self._lost:
            await self.find_lost()
        return blob

    def _forget_inspections(self, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            self._inspector.forget(blob.sha256)

    async def _leave_to_storage(self, blobs: Sequence[Blob]) -> None:
        """With a storage, the folder is only where files pass through."""
        if self._storage is not None:
            shelf = self.shelf
            await in_thread(lambda _stop: [shelf.remove(blob.sha256) for blob in blobs])

    @property
    def _holder(self) -> Holder:
        return self._stored or self._own

    @contextmanager
    def _pinned(self) -> Iterator[Callable[[str], None]]:
        mine: Counter[str] = Counter()

        def pin(sha256: str) -> None:
            mine[sha256] += 1
            self._pins[sha256] += 1

        try:
            yield pin
        finally:
            self._pins -= mine

    async def _known(self, sha256: str) -> Blob | None:
        """What is held under a promised sha256. A file that the registry does not know is hashed before it counts."""
        if self._stored is not None:
            # Said first, looked at second: a frontend that collects leaves alone what was said lately.
            async with self._database.transaction() as tx:
                if self._stored in (await file_store.list_holders(tx, (sha256,))).get(sha256, ()):
                    await file_store.put_holder(tx, (sha256,), self._stored)
        if not await self.has(sha256):
            return None
        async with self._database.transaction() as tx:
            known = await file_store.find_blob(tx, sha256)
        path = self.path(sha256)
        if path is None:
            return await self._still_stored(known)
        if known is not None and path.stat().st_size == known.size_bytes:
            return known
        shelf = self.shelf
        return await in_thread(lambda stop: shelf.hash(sha256, stop))

    async def _from_peers(self, sha256: str, into: Path, moved: Moved) -> Path | None:
        """A content that another frontend's library holds."""
        async with self._database.transaction() as tx:
            blob = await file_store.find_blob(tx, sha256)
            libraries = await file_store.list_libraries(tx, (sha256,))
        urls = [place.url for place in _library_places(libraries, frozenset((sha256,)))]
        return await self._peers.fetch(blob, urls, into, moved) if blob is not None and urls else None

    async def _still_stored(self, known: Blob | None) -> Blob | None:
        """Somebody may have emptied the bucket."""
        if known is None or self._storage is None or self._stored is None:
            return None
        if await self._storage.find(known.sha256) == known.size_bytes:
            return known
        log.warning("a file of the storage is lost", sha256=known.sha256)
        async with self._database.transaction() as tx:
            await file_store.drop_holder(tx, self._stored, (known.sha256,))
        return None

    # --- what nobody uses ---

    async def tick(self) -> int:
        """Throw away what has been held for no model for a long time; how many files."""
        if self._shelf is None:
            return 0
        async with self._database.transaction() as tx:
            sizes = await file_store.list_sizes(tx)
        there = await in_thread(lambda _stop: {entry.sha256 for entry in self.shelf.contents()})
        await self._look_through({sha256: size for sha256, size in sizes.items() if sha256 in there})
        # Parts of files that an admin began to send and never went on with.
        old = await Inbox(self._shelf.uploads).collect(self._clock.wall().timestamp() - INCOMING_LIFE_S)
        return len(old) + len((await self.collect(older_than_s=LONG_GRACE_S)).files)

    async def collect(self, *, dry_run: bool = False, older_than_s: float = GRACE_S) -> Collected:
        """Throw away what is held for no model, or only tell what that would be."""
        found: list[StoredFile] = []
        for holder in {self._own, self._holder}:
            async with self._database.transaction() as tx:
                unused = await file_store.list_unused(tx, holder, older_than_s)
            for sha256, size_bytes in unused:
                if dry_run or await self._forget(sha256, holder, older_than_s):
                    found.append(StoredFile(path="", sha256=sha256, size_bytes=size_bytes))
        found += await self._collect_unknown(dry_run=dry_run, older_than_s=older_than_s)
        if not dry_run:
            async with self._database.transaction() as tx:
                await file_store.prune_blobs(tx, GRACE_S)
        return Collected(files=tuple(found), is_dry_run=dry_run)

    async def _collect_unknown(self, *, dry_run: bool, older_than_s: float) -> list[StoredFile]:
        """Files that the registry has never heard of: of a model whose header made no sense, or of another cluster."""
        if self._shelf is None:
            return []
        shelf, now_s = self._shelf, self._clock.wall().timestamp()
        there = await in_thread(lambda _stop: list(shelf.contents()))
        async with self._database.transaction() as tx:
            known = await file_store.list_sizes(tx)
        old = [one for one in there if one.sha256 not in known and now_s - one.changed_s >= older_than_s]
        gone = [one for one in old if not self._pins[one.sha256]]
        if not dry_run:
            for one in gone:
                shelf.remove(one.sha256)
        return [StoredFile(path="", sha256=one.sha256, size_bytes=one.size_bytes) for one in gone]

    async def forget_unused(self) -> None:
        """After a model was deleted: its contents may go, those of others and fresh ones stay."""
        await self.collect()

    async def forget(self, sha256: str) -> bool:
        """Throw one content away if no model uses it; whether it went."""
        gone = [await self._forget(sha256, holder, 0.0) for holder in {self._own, self._holder}]
        return any(gone)

    async def _forget(self, sha256: str, holder: Holder, older_than_s: float) -> bool:
        if self._pins[sha256]:
            return False
        async with self._database.transaction() as tx:
            if not await file_store.release_unused(tx, sha256, holder, older_than_s):
                return False
        if holder == self._stored and self._storage is not None:
            await self._storage.remove(sha256)
            return True
        if self._pins[sha256]:
            # Somebody has come to want it in the meantime, and will register it.
            return False
        self._memory.lists.pop(sha256, None)
        # In the loop, on purpose: nobody can begin to want it between the look above and this.
        self.shelf.remove(sha256)
        return True


def _library_places(
    libraries: Mapping[tuple[str, int], Collection[str]], wanted: frozenset[str]
) -> tuple[BlobPlace, ...]:
    """One place for a library that has all of them; else one for each content."""
    places: list[BlobPlace] = []
    for (host, port), held in libraries.items():
        if host in _ANYWHERE:
            continue
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        whole = wanted <= set(held)
        places += [BlobPlace(kind="library", url=url, sha256=one) for one in ([""] if whole else sorted(held))]
    return tuple(places)


def _shelf(options: LibraryOptions) -> Shelf | None:
    if options.folder is None:
        return None
    return Shelf(options.folder, free_bytes=options.free_bytes, is_open_to_workers=options.is_shared)


def _no_library() -> Unavailable:
    return Unavailable(
        "This frontend has no library.", hint="Set library_dir to a folder with room.", code="no_library"
    )
