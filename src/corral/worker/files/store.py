"""Contents on a node's disk, by sha256, and the models that are made of them.

    blobs/<sha256>             a whole content, never changed; only its owner may read it
    blobs/<sha256>.json        its size and time when it was last known to be right
    blobs/<sha256>.part …      being fetched (`partial.py`)
    models/<safe name>/…       links (`folders.py`)

Guarantee: what `is_right` says yes to has the bytes of its name, as far as size and time can tell; where they differ
from the note, or the machine went down before the bytes were on the disk, it is hashed. What a job holds or a model
uses is never removed. Limit: a disk that changes bytes and neither size nor time is not noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from corral.bus.messages import FileItem, ModelDeleted
from corral.domain.errors import InvalidRequest
from corral.ports.runtime import Clock
from corral.transfer.chunks import check_sha256, sha256_of
from corral.transfer.files import PRIVATE_FOLDER
from corral.transfer.threads import Stop, in_thread
from corral.worker.files.folders import ModelFolders, link
from corral.worker.files.partial import Partial, PartRecord, machine_boot, note_of, noted_chunks, write_note
from corral.worker.jobs.model_files import delete_model
from corral.worker.work import Collected, Garbage, HeldBlob, HeldModel

log = structlog.get_logger(__name__)

# Read by engines, written by nobody.
_BLOB_MODE = 0o400
# A content that no model uses, and a part that nobody goes on with, are garbage after this long.
GARBAGE_AGE_S = 7 * 24 * 3600.0
# How a frontend's library keeps a content below its folder.
_SHARED_LAYOUTS = ("blobs/sha256/{two}/{sha256}", "blobs/{two}/{sha256}", "sha256/{two}/{sha256}", "blobs/{sha256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A content to be read: its file, and which chunks of it may be."""

    path: Path
    size_bytes: int
    # Absent: all of them.
    partial: Partial | None = None


class BlobStore:
    """`tidy` comes first."""

    def __init__(self, models_dir: Path, clock: Clock, *, shared_dir: Path | None = None) -> None:
        self._root = models_dir
        self._blobs = models_dir / "blobs"
        self._clock = clock
        self._shared_dir = shared_dir
        self._whole: dict[str, int] = {}
        self._partials: dict[str, Partial] = {}
        # Of parts that this process has left: they are not read again if nobody has touched them.
        self._records: dict[str, PartRecord] = {}
        self._held: Counter[str] = Counter()
        # One change at a time of what models are made of.
        self._changing = asyncio.Lock()
        self.folders = ModelFolders(models_dir / "models", self.path)
        # Called when something else would be told of what is here.
        self.changed: Callable[[], None] = lambda: None

    async def tidy(self) -> None:
        """After a start: what is here, without what a kill left half done."""
        async with self._changing:
            self._whole = await in_thread(self._scan)

    def path(self, sha256: str) -> Path:
        return self._blobs / sha256

    def whole(self) -> tuple[HeldBlob, ...]:
        return tuple(HeldBlob(sha256=sha256, size_bytes=size) for sha256, size in sorted(self._whole.items()))

    def partial(self) -> tuple[HeldBlob, ...]:
        """Contents that are being fetched now, and of which something can be passed on."""
        held = sorted(self._partials.items())
        return tuple(HeldBlob(sha256=key, size_bytes=each.size_bytes, is_whole=False) for key, each in held)

    def find(self, sha256: str) -> Opened | None:
        """What there is of a content, to be read by others."""
        if sha256 in self._whole:
            return Opened(path=self.path(sha256), size_bytes=self._whole[sha256])
        partial = self._partials.get(sha256)
        if partial is None:
            return None
        return Opened(path=partial.path, size_bytes=partial.size_bytes, partial=partial)

    @contextlib.contextmanager
    def holding(self, sha256s: Iterable[str]) -> Iterator[None]:
        """Until the block ends, none of these is removed."""
        held = set(sha256s)
        self._held.update(held)
        try:
            yield
        finally:
            self._held -= Counter(held)

    # --- whole contents ---

    async def is_right(self, sha256: str, size_bytes: int) -> bool:
        """Whether it is here and as it should be. One that is not is removed; a shared one is linked."""
        if sha256 not in self._whole:
            return await self._take_shared(sha256, size_bytes)
        if self._whole[sha256] == size_bytes and await self.verify(sha256):
            return True
        log.warning("a damaged file is fetched again", sha256=sha256)
        self._forget(sha256)
        return await self._take_shared(sha256, size_bytes)

    async def verify(self, sha256: str) -> bool:
        """Whether a whole content is what its name says. Hashed only where its note does not vouch for it."""
        return await in_thread(lambda stop: self._verify(sha256, stop))

    async def _take_shared(self, sha256: str, size_bytes: int) -> bool:
        if self._shared_dir is None:
            return False
        taken = await in_thread(lambda stop: self._link_shared(sha256, size_bytes, stop))
        if taken:
            self._whole[sha256] = size_bytes
            self.changed()
        return taken

    # --- contents that are being fetched ---

    def part_path(self, sha256: str) -> Path:
        return self._blobs / f"{sha256}.part"

    def taken_bytes(self, sha256: str) -> int:
        """What a part takes of the disk by now."""
        try:
            return self.part_path(sha256).stat().st_blocks * 512
        except OSError:
            return 0

    async def known_chunks(self, sha256: str, size_bytes: int) -> bytes | None:
        """The list that this content was begun with."""
        return await asyncio.to_thread(noted_chunks, self.part_path(sha256), size_bytes)

    async def begin(
        self, sha256: str, size_bytes: int, chunks: bytes, verified: Callable[[int], None] = lambda _: None
    ) -> Partial:
        """Go on with a content, or begin. `complete` or `rest` it after. `verified` is called in the event loop with
        the number of bytes that were found right so far."""
        assert sha256 not in self._partials, "one transfer at a time"
        path, record = self.part_path(check_sha256(sha256)), self._records.pop(sha256, None)
        loop = asyncio.get_running_loop()

        def tell(count: int) -> None:
            loop.call_soon_threadsafe(verified, count)

        partial = await in_thread(
            lambda stop: Partial.open(path, size_bytes, chunks, stop, record=record, verified=tell)
        )
        self._partials[sha256] = partial
        self.changed()
        return partial

    async def complete(self, partial: Partial) -> bool:
        """All chunks are here: it is a whole content from now on, also for those who read it already.

        False if another program has touched the file meanwhile: nobody knows what is in it now. `rest` it, and begin
        again.
        """
        assert not partial.missing(), "chunks are missing"
        if not await in_thread(lambda _stop: self._publish(partial)):
            log.warning("a file was changed by another program while it was fetched", sha256=partial.sha256)
            return False
        self._whole[partial.sha256] = partial.size_bytes
        self._end(partial)
        return True

    async def rest(self, partial: Partial) -> None:
        """Nobody goes on with it for now."""
        if self._partials.get(partial.sha256) is partial:
            self._end(partial)
            record = await asyncio.to_thread(partial.record)
            if record is not None:
                self._records[partial.sha256] = record

    def _end(self, partial: Partial) -> None:
        self._partials.pop(partial.sha256, None)
        partial.close()
        self.changed()

    async def settle(self, sha256: str) -> None:
        """See to it that a content is on the disk, also after a power cut; it may be used long before."""
        if not await in_thread(lambda _stop: self._sync(sha256)):
            return
        # One that was removed meanwhile gets no note any more.
        async with self._changing:
            if sha256 in self._whole:
                await asyncio.to_thread(self._note_on_disk, sha256)

    # --- models ---

    def manifest(self, model: str) -> HeldModel | None:
        return self.folders.models.get(model)

    async def put_manifest(self, model: str, revision: str, files: tuple[FileItem, ...]) -> Path:
        """The folder of a model, made of contents that are all here."""
        wanted = HeldModel(name=model, revision=revision, files=files)
        missing = [file.path for file in files if file.sha256 not in self._whole]
        assert not missing, f"contents are missing: {missing[:3]}"
        async with self._changing:
            if not await asyncio.to_thread(self.folders.is_in_place, wanted):
                await asyncio.to_thread(self.folders.put, wanted)
        self.changed()
        return self.folders.folder(model)

    def path_of(self, model: str, entry: str) -> Path:
        return self.folders.path_of(model, entry)

    async def delete(self, model: str) -> ModelDeleted:
        """Its folder, and the contents that no other model uses and no job holds; also files from before contents."""
        async with self._changing:
            held = await asyncio.to_thread(self.folders.delete, model)
            if held is None:
                return await asyncio.to_thread(delete_model, self._root, model)
            used = self.folders.used()
            unused = {file.sha256 for file in held.files} - used - set(self._held)
            freed = sum([await asyncio.to_thread(self._remove, sha256) for sha256 in unused])
        self.changed()
        return ModelDeleted(model=model, files=len(held.files), freed_bytes=freed)

    async def collect(self, *, dry_run: bool = False) -> Collected:
        """Throw away contents that no model uses and parts that nobody goes on with, once they are old."""
        async with self._changing:
            kept = self.folders.used() | set(self._held) | set(self._partials)
            found = await asyncio.to_thread(self._garbage, kept)
            if not dry_run:
                for item in found:
                    await asyncio.to_thread(self._remove, item.path.name.partition(".")[0])
        if found and not dry_run:
            self.changed()
        return Collected(items=tuple(found))

    # --- in threads ---

    def _scan(self, stop: Stop) -> dict[str, int]:
        self._blobs.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        self.folders.tidy()
        whole = {}
        for path in list(self._blobs.iterdir()):
            stop.check()
            if _is_leftover(path):
                path.unlink()
            elif _is_sha256(path.name) and path.exists():
                whole[path.name] = path.stat().st_size
        return whole

    def _verify(self, sha256: str, stop: Stop) -> bool:
        path = self.path(sha256)
        try:
            found = path.stat()
            note = _read_note(self._note(sha256))
            is_on_disk = note.get("boot") in ("", machine_boot())
            if is_on_disk and (note.get("size"), note.get("mtime_ns")) == (found.st_size, found.st_mtime_ns):
                return True
            is_same = sha256_of(path, stop) == sha256
        except OSError:
            return False
        if is_same:
            self._write_note(sha256, boot=machine_boot())
        return is_same

    def _publish(self, partial: Partial) -> bool:
        if not partial.is_untouched():
            return False
        path = self.path(partial.sha256)
        partial.path.chmod(_BLOB_MODE)
        partial.path.replace(path)
        self._write_note(partial.sha256, boot=machine_boot())
        partial.note_path.unlink(missing_ok=True)
        return True

    def _sync(self, sha256: str) -> bool:
        try:
            descriptor = os.open(self.path(sha256), os.O_RDONLY)
        except OSError:
            return False
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return True

    def _note_on_disk(self, sha256: str) -> None:
        note = _read_note(self._note(sha256))
        if note.get("boot") == machine_boot():
            # Size and time stay as they were noted: what was changed since is noticed.
            write_note(self._note(sha256), note | {"boot": ""})

    def _link_shared(self, sha256: str, size_bytes: int, stop: Stop) -> bool:
        assert self._shared_dir is not None, "asked only with a shared folder"
        for layout in _SHARED_LAYOUTS:
            source = self._shared_dir / layout.format(two=sha256[:2], sha256=sha256)
            try:
                if source.stat().st_size != size_bytes or not _is_as_library_noted(source, stop):
                    continue
                path = self.path(sha256)
                path.unlink(missing_ok=True)
                link(source, path)
            except OSError:
                continue
            # The library has hashed it when it came, or it was hashed just now.
            self._write_note(sha256, boot="")
            return True
        return False

    def _remove(self, sha256: str) -> int:
        """How much room that gave back."""
        self._whole.pop(sha256, None)
        self._records.pop(sha256, None)
        freed = 0
        for path in (self.path(sha256), self.part_path(sha256)):
            try:
                found = path.lstat()
                path.unlink()
            except FileNotFoundError:
                continue
            # Of a file with other names, nothing is given back.
            freed += found.st_size if found.st_nlink == 1 and path.name == sha256 else 0
        self._note(sha256).unlink(missing_ok=True)
        note_of(self.part_path(sha256)).unlink(missing_ok=True)
        return freed

    def _garbage(self, kept: set[str]) -> list[Garbage]:
        now, found = self._clock.wall().timestamp(), []
        for path in self._blobs.iterdir():
            name = path.name.removesuffix(".part")
            if not _is_sha256(name) or name in kept:
                continue
            status = path.lstat()
            # Linking does not change the time of the bytes, but this one.
            if now - max(status.st_mtime, status.st_ctime) >= GARBAGE_AGE_S:
                size = status.st_blocks * 512
                found.append(Garbage(name=f"blobs/{path.name}", path=path, size_bytes=size))
        return found

    def _forget(self, sha256: str) -> None:
        self._remove(sha256)
        self.changed()

    def _note(self, sha256: str) -> Path:
        return self._blobs / f"{sha256}.json"

    def _write_note(self, sha256: str, *, boot: str) -> None:
        """`boot`: in which life of the machine it was written; empty once it is on the disk."""
        found = self.path(sha256).stat()
        write_note(self._note(sha256), {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "boot": boot})


def _is_leftover(path: Path) -> bool:
    """Whether a file is of no use: half written, or a part and its note of which the other one is gone."""
    if path.name.endswith(".part"):
        return not note_of(path).exists()
    is_note = path.name.endswith(".part.json")
    return path.name.endswith(".new") or (is_note and not path.with_suffix("").exists())


def _is_as_library_noted(source: Path, stop: Stop) -> bool:
    """Whether a content of the library is as its note says. It is hashed where they differ; older libraries note
    nothing and are believed."""
    note, found = _read_note(source.with_name(f"{source.name}.json")), source.stat()
    is_same = (note.get("size"), note.get("mtime_ns")) == (found.st_size, found.st_mtime_ns)
    return not note or is_same or sha256_of(source, stop) == source.name


def _is_sha256(name: str) -> bool:
    try:
        return check_sha256(name) == name
    except InvalidRequest:
        return False


def _read_note(path: Path) -> dict[str, object]:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
