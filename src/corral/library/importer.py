"""Imports files into the library: resolve them, find held copies, check for room, fetch in parallel, hash in one pass,
store.

Guarantee: every address of a model's configuration is resolved and every path is made safe before a byte moves.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from corral.domain.errors import InvalidRequest, NotFound, Unavailable, Unprocessable
from corral.domain.model import CHUNK_BYTES, Blob, FilePart, ModelFile
from corral.library.content_store import ContentStore, make_stopping_error
from corral.policy.placing.fleet import compute_disk_need
from corral.ports.files import ModelFileOrigins, OriginFile, SharedStorage, pick_model_file
from corral.ports.library import FetchProgressListener
from corral.runtime.single_flight import ProgressCallback, ProgressListeners, SingleFlight
from corral.transfer.chunks import check_sha256
from corral.transfer.files import run_in_thread

# A folder with more files than this is no model.
FILES_MAX = 20_000
PATH_CHARACTERS_MAX = 1024
UPLOAD = "upload:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """One file of a model with the sources that were found for its parts. No parts: it was uploaded."""

    path: str
    parts: tuple[OriginFile, ...]
    # Empty: no sha256 was given.
    sha256: str = ""

    @property
    def size_bytes(self) -> int | None:
        sizes = [part.size_bytes for part in self.parts]
        return None if not sizes or None in sizes else sum(size or 0 for size in sizes)

    @property
    def key(self) -> str:
        """Return a key that is equal for equal contents, as far as that is known before the fetch."""
        if self.sha256:
            return self.sha256
        return hashlib.sha256("\n".join(part.address for part in self.parts).encode()).hexdigest()


def is_upload(file: ModelFile) -> bool:
    """Return whether the file was uploaded to the library, and has no other source."""
    return len(file.parts) == 1 and file.parts[0].uri.startswith(UPLOAD)


async def resolve_files(origins: ModelFileOrigins, files: Sequence[ModelFile]) -> tuple[ResolvedFile, ...]:
    """Return all files of a model, by path. Two files with one path are refused, and so is a path that leads out."""
    found: dict[str, ResolvedFile] = {}
    for file in files:
        for resolved in await _resolve(origins, file):
            path = check_path(resolved.path)
            if path in found:
                raise Unprocessable(f"Two files of the model have the path {path}.", code="duplicate_path")
            found[path] = replace(resolved, path=path)
    if len(found) > FILES_MAX:
        raise Unprocessable(f"The model has {len(found)} files; {FILES_MAX} are allowed.", code="too_many_files")
    return tuple(found[path] for path in sorted(found))


async def measure(
    origins: ModelFileOrigins, files: Sequence[ModelFile], find: Callable[[str], Awaitable[Blob | None]]
) -> int | None:
    """Ask the sources of these files whether they exist, and return how many bytes they have in all.

    Nothing is fetched. None if a source does not report its size. Raises what fetching would raise for an address
    that is wrong, that does not respond, or that leads into a private network. `find` looks for an uploaded file.
    """
    sizes = []
    for one in await resolve_files(origins, files):
        if one.parts:
            sizes.append(one.size_bytes)
            continue
        sent = await find(one.sha256)
        if sent is None:
            raise NotFound(
                f"No file with the sha256 {one.sha256} has been uploaded.",
                hint="Upload it first: POST /api/files, or `corral models import FILE`.",
                code="blob_not_found",
            )
        sizes.append(sent.size_bytes)
    return None if None in sizes else sum(size or 0 for size in sizes)


async def _resolve(origins: ModelFileOrigins, file: ModelFile) -> list[ResolvedFile]:
    if not file.parts:
        raise InvalidRequest(f"{file.path or 'A file'} has no source.", code="no_source")
    if len(file.parts) == 1:
        return await _resolve_one(origins, file, file.parts[0])
    parts = [_require_single(await origins.resolve(part), part) for part in file.parts]
    return [ResolvedFile(path=file.path, parts=tuple(parts), sha256=_merge_promises(file.sha256))]


async def _resolve_one(origins: ModelFileOrigins, file: ModelFile, part: FilePart) -> list[ResolvedFile]:
    is_folder = not file.path or file.path.endswith("/")
    if is_upload(file):
        sha256 = _merge_promises(file.sha256, part.sha256, part.uri.removeprefix(UPLOAD))
        if is_folder:
            raise InvalidRequest("An uploaded file needs a path of its own in the model.", code="no_path")
        return [ResolvedFile(path=file.path, parts=(), sha256=sha256)]
    found = await origins.resolve(part)
    if is_folder:
        return [
            ResolvedFile(path=f"{file.path}{one.path}", parts=(one,), sha256=_merge_promises(one.sha256))
            for one in found
        ]
    one = _require_single(found, part)
    return [ResolvedFile(path=file.path, parts=(one,), sha256=_merge_promises(file.sha256, part.sha256, one.sha256))]


def _require_single(found: Sequence[OriginFile], part: FilePart) -> OriginFile:
    one = pick_model_file(found)
    if one is not None:
        return one
    raise Unprocessable(
        f"{part.uri.partition('?')[0]} is a folder of {len(found)} files, where one file is expected.",
        hint="Name the file in the address, or let the path end with a slash.",
        code="is_a_folder",
    )


def _merge_promises(*promises: str) -> str:
    """Return the one sha256 that was given; raises if several differ."""
    given = {check_sha256(promise) for promise in promises if promise}
    if len(given) > 1:
        raise Unprocessable(
            f"Different sha256 values were given for one file: {', '.join(sorted(given))}.",
            hint="Correct the sha256 in the configuration, or take it out.",
            code="digest_mismatch",
        )
    return next(iter(given), "")


def check_path(path: str) -> str:
    """Return the path as it is kept; `Unprocessable` if it would lead out of the model's folder on a node."""
    parts = PurePosixPath(path).parts
    is_printable = path.isprintable() and "\\" not in path
    if not parts or path.startswith("/") or ".." in parts or not is_printable or len(path) > PATH_CHARACTERS_MAX:
        raise Unprocessable(f"{path[:200]!r} cannot be the path of a model's file.", code="bad_path")
    return "/".join(parts)


GIB = 1024**3
# Files that are fetched at the same time: a source seldom gives more to more connections than this.
FETCHES_MAX = 4
Pin = Callable[[str], None]
FindHeldBlob = Callable[[str], Awaitable[Blob | None]]
FetchFromPeers = Callable[[str, Path, ProgressCallback], Awaitable[Path | None]]


@dataclass(slots=True)
class FetchProgress:
    """Adds up how far the fetch of one model's files into the library is, and reports the sum.

    Nothing ever goes back.
    """

    report: FetchProgressListener
    file_count: int
    _moved: dict[str, int] = field(default_factory=dict)
    _sizes: dict[str, int | None] = field(default_factory=dict)

    def expect(self, path: str, size_bytes: int | None) -> None:
        self._sizes[path] = size_bytes

    def record_progress(self, path: str, current: int, size_bytes: int | None = None) -> None:
        """Record how much of one file has arrived. Verifying reports bytes again that fetching has reported already."""
        if size_bytes is not None:
            self._sizes[path] = size_bytes
        self._moved[path] = max(current, self._moved.get(path, 0))
        known = [size for size in self._sizes.values() if size is not None]
        total = sum(known) if len(known) == self.file_count else None
        self.report.on_progress(sum(self._moved.values()), total, path)


class LibraryImporter:
    """Fetches model files into a frontend's library: looks for held copies, checks room, hashes and stores them."""

    def __init__(
        self,
        content_store: ContentStore,
        origins: ModelFileOrigins,
        storage: SharedStorage | None,
        *,
        find_held: FindHeldBlob,
        fetch_from_peers: FetchFromPeers,
    ) -> None:
        self._content_store = content_store
        self._origins = origins
        self._storage = storage
        self._find_held = find_held
        self._fetch_from_peers = fetch_from_peers
        self._flights: SingleFlight[ProgressListeners, Blob] = SingleFlight("library", make_stopping_error)
        self._turns = asyncio.Semaphore(FETCHES_MAX)

    async def close(self) -> None:
        await self._flights.close()

    async def import_files(self, files: Sequence[ResolvedFile], progress: FetchProgress, pin: Pin) -> list[Blob]:
        """Import these files and return their contents in the same order. Each is pinned before it is relied on."""
        known: dict[str, Blob] = {}
        for one in files:
            progress.expect(one.path, one.size_bytes)
            if one.sha256 and one.sha256 not in known:
                pin(one.sha256)
                found = await self._find_held(one.sha256)
                if found is not None:
                    known[one.sha256] = found
        missing = [one for one in files if one.sha256 not in known]
        await self._check_room(missing)
        for one in files:
            if one.sha256 in known:
                size = known[one.sha256].size_bytes
                progress.record_progress(one.path, size, size)
        fetched = await self._fetch_all(missing, progress, pin)
        return [known[one.sha256] if one.sha256 in known else fetched[one.path] for one in files]

    async def import_upload(self, path: Path, sha256: str) -> Blob:
        """Import an uploaded file, in the same flight as all callers that need its content."""
        name = f"upload-{sha256}"
        return await self._flights.join(
            sha256,
            lambda listeners: self._store_content([path], name, sha256, listeners),
            make_state=ProgressListeners,
            enter=lambda _listeners: nullcontext(),
        )

    async def _store_content(
        self, sources: Sequence[Path], name: str, expected_sha256: str, on_progress: ProgressCallback
    ) -> Blob:
        """Make a content of local files, and copy it to the storage, if there is one."""
        store, loop = self._content_store, asyncio.get_running_loop()
        total = await run_in_thread(lambda _stop: sum(source.stat().st_size for source in sources))

        def moved(current: int) -> None:
            loop.call_soon_threadsafe(on_progress, current, total)

        blob = await run_in_thread(
            lambda stop: store.add_content(sources, name, expected_sha256, stop, _throttle(moved))
        )
        if self._storage is not None:
            await self._put_into(self._storage, blob, on_progress)
        return blob

    async def _check_room(self, missing: Sequence[ResolvedFile]) -> None:
        """Raise if there is too little room, before a byte moves. Bytes of an earlier attempt take no more room;
        parts are joined beside them."""
        if not missing:
            return
        store = self._content_store
        await run_in_thread(lambda _stop: store.prepare())
        once = {one.key: one for one in missing}
        sizes = [one.size_bytes for one in once.values()]
        arrived = await run_in_thread(lambda _stop: sum(store.count_arrived_bytes(key) for key in once))
        if None in sizes:
            need = compute_disk_need(None)
        else:
            joined = sum(one.size_bytes or 0 for one in once.values() if len(one.parts) > 1)
            need = compute_disk_need(sum(size or 0 for size in sizes), arrived) + joined
        free = await run_in_thread(lambda _stop: store.measure_free_bytes())
        if free < need:
            raise Unprocessable(
                f"The library's disk has {free / GIB:.1f} GiB free, and {need / GIB:.1f} GiB are needed.",
                hint=f"Free some room in {store.folder}; POST /api/files/collect deletes files that no model uses.",
                code="disk_full",
            )

    async def _fetch_all(self, missing: Sequence[ResolvedFile], progress: FetchProgress, pin: Pin) -> dict[str, Blob]:
        fetched: dict[str, Blob] = {}

        async def fetch(one: ResolvedFile) -> None:
            def record_progress(current: int, size: int | None) -> None:
                progress.record_progress(one.path, current, size)

            blob = await self._flights.join(
                one.key,
                lambda listeners: self._fetch(one, listeners),
                make_state=ProgressListeners,
                enter=lambda listeners: listeners.listen(record_progress),
            )
            pin(blob.sha256)
            progress.record_progress(one.path, blob.size_bytes, blob.size_bytes)
            fetched[one.path] = blob

        try:
            async with asyncio.TaskGroup() as group:
                for one in missing:
                    group.create_task(fetch(one))
        except BaseExceptionGroup as several:
            # The first error is the cause; the other fetches were ended because of it.
            raise several.exceptions[0] from several
        return fetched

    async def _fetch(self, file: ResolvedFile, on_progress: ProgressCallback) -> Blob:
        async with self._turns:
            store, sources, before = self._content_store, list[Path](), 0
            folder = await run_in_thread(lambda _stop: store.get_incoming_folder(file.key))
            # The content is in the cluster already, so it is not fetched from outside again.
            taken = await self._fetch_from_peers(file.sha256, folder, on_progress) if file.sha256 else None
            if taken is not None:
                return await self._store_content([taken], file.key, file.sha256, on_progress)
            _check_uploaded(file)
            for number, part in enumerate(file.parts):

                def moved(current: int, size: int | None, before: int = before) -> None:
                    on_progress(before + current, size if len(file.parts) == 1 else file.size_bytes)

                into = folder / str(number)
                await run_in_thread(lambda _stop, into=into: into.mkdir(exist_ok=True))  # type: ignore[misc]
                source = await self._origins.fetch(part, into, moved)
                before += (await run_in_thread(lambda _stop, source=source: source.stat())).st_size  # type: ignore[misc]
                sources.append(source)
            return await self._store_content(sources, file.key, file.sha256, on_progress)

    async def _put_into(self, storage: SharedStorage, blob: Blob, on_progress: ProgressCallback) -> None:
        """Upload a content and replace any object under this sha256: its presence does not say that it is right."""
        path = self._content_store.find_path(blob.sha256)
        assert path is not None, "it was put into the folder a moment ago"
        await storage.put(blob.sha256, path, lambda current: on_progress(current, blob.size_bytes))
        if await storage.find(blob.sha256) != blob.size_bytes:
            raise Unavailable("The storage has not kept all of a file.", code="storage_unavailable")


def _check_uploaded(file: ResolvedFile) -> None:
    if not file.parts:
        raise NotFound(
            f"{file.path} was never uploaded: no running frontend holds the sha256 {file.sha256}.",
            hint="Upload it with PUT /api/files/{sha256}.",
            code="blob_not_here",
        )


def _throttle(moved: Callable[[int], None]) -> Callable[[int], None]:
    """Pass progress on at intervals, not with every piece: a hashing thread would fill the event loop with calls."""
    last = 0

    def seldom(current: int) -> None:
        nonlocal last
        if current - last >= CHUNK_BYTES:
            last = current
            moved(current)

    return seldom
