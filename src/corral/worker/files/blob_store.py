"""Stores contents on a node's disk by sha256, and the models that are made of them.

    blobs/<sha256>             a whole content, never changed; only its owner may read it
    blobs/<sha256>.json        its size and time when it was last known to be right
    blobs/<sha256>.part …      being fetched (`partial_content.py`)
    models/<safe name>/…       links (`model_folders.py`)

Guarantee: a content for which `ensure_valid` returns True has the bytes of its name, as far as size and time can tell;
where they differ from the note, or the machine went down before the bytes were on the disk, the content is hashed. A
content that a job holds or a model uses is never removed. Limit: a disk that changes bytes and neither size nor time is
not noticed.
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

from corral.bus.messages import DeleteModelReply, ModelFileItem
from corral.domain.errors import InvalidRequest
from corral.ports.runtime import Clock
from corral.transfer.chunks import check_sha256, compute_sha256
from corral.transfer.files import PRIVATE_FOLDER, StopFlag, run_in_thread
from corral.worker.files.model_folders import ModelFolders, delete_model, link_file
from corral.worker.files.partial_content import (
    PartialContent,
    PartialRecord,
    get_note_path,
    read_machine_boot,
    read_noted_chunks,
    write_note,
)
from corral.worker.job_ports import GarbagePath, GarbageReport, HeldBlob, HeldModel

log = structlog.get_logger(__name__)

# Engines read the files, and no process writes them.
_BLOB_MODE = 0o400
# A content that no model uses, and a part that no job continues, are garbage after this long.
GARBAGE_AGE_S = 7 * 24 * 3600.0
# Where a frontend's library keeps a content below its folder.
_SHARED_LAYOUTS = ("blobs/sha256/{two}/{sha256}", "blobs/{two}/{sha256}", "sha256/{two}/{sha256}", "blobs/{sha256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableContent:
    """A model file on a worker's disk that may be read, and which of its chunks are verified if it is partial."""

    path: Path
    size_bytes: int
    # None means that all chunks are verified.
    partial: PartialContent | None = None


class BlobFolder:
    """Reads and writes the model files in one folder of a worker, named by sha256, and the notes beside them.

    Everything except the paths is slow work for a thread; `BlobStore` knows which contents there are and who uses them.
    """

    def __init__(self, folder: Path, shared_dir: Path | None) -> None:
        self._folder = folder
        self._shared_dir = shared_dir

    def get_path(self, sha256: str) -> Path:
        return self._folder / sha256

    def get_part_path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.part"

    def scan(self, stop: StopFlag) -> dict[str, int]:
        """Remove what a kill left half done, and return the size of each whole content."""
        whole = {}
        for path in list(self._folder.iterdir()):
            stop.raise_if_set()
            if _is_leftover(path):
                path.unlink()
            elif _is_sha256(path.name) and path.exists():
                whole[path.name] = path.stat().st_size
        return whole

    def make(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)

    def verify(self, sha256: str, stop: StopFlag) -> bool:
        """Return whether a content has the hash of its name. It is hashed only where its note does not vouch for it."""
        path = self.get_path(sha256)
        try:
            found = path.stat()
            note = _read_note(self._get_note_path(sha256))
            is_on_disk = note.get("boot") in ("", read_machine_boot())
            if is_on_disk and (note.get("size"), note.get("mtime_ns")) == (found.st_size, found.st_mtime_ns):
                return True
            is_same = compute_sha256(path, stop) == sha256
        except OSError:
            return False
        if is_same:
            self._write_note(sha256, boot=read_machine_boot())
        return is_same

    def publish(self, partial: PartialContent) -> bool:
        """Give a part with all chunks the name of its content; False if another program has changed the file."""
        if not partial.is_untouched():
            return False
        path = self.get_path(partial.sha256)
        partial.path.chmod(_BLOB_MODE)
        partial.path.replace(path)
        self._write_note(partial.sha256, boot=read_machine_boot())
        partial.note_path.unlink(missing_ok=True)
        return True

    def sync(self, sha256: str) -> bool:
        """Flush a content to the disk; False if it is not here."""
        try:
            descriptor = os.open(self.get_path(sha256), os.O_RDONLY)
        except OSError:
            return False
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return True

    def mark_on_disk(self, sha256: str) -> None:
        """Note that a content survives a power cut."""
        note = _read_note(self._get_note_path(sha256))
        if note.get("boot") == read_machine_boot():
            # Size and time stay as they were noted, so that a later change is noticed.
            write_note(self._get_note_path(sha256), note | {"boot": ""})

    def link_shared(self, sha256: str, size_bytes: int, stop: StopFlag) -> bool:
        """Link a content of this size from the shared folder; return whether it was there."""
        assert self._shared_dir is not None, "only called with a shared folder"
        for layout in _SHARED_LAYOUTS:
            source = self._shared_dir / layout.format(two=sha256[:2], sha256=sha256)
            try:
                if source.stat().st_size != size_bytes or not _is_as_library_noted(source, stop):
                    continue
                path = self.get_path(sha256)
                path.unlink(missing_ok=True)
                link_file(source, path)
            except OSError:
                continue
            # The library hashed the content when it arrived, or it was hashed just now.
            self._write_note(sha256, boot="")
            return True
        return False

    def remove(self, sha256: str) -> int:
        """Remove a content; return the bytes of disk space that this frees."""
        freed = 0
        for path in (self.get_path(sha256), self.get_part_path(sha256)):
            try:
                found = path.lstat()
                path.unlink()
            except FileNotFoundError:
                continue
            # Removing a file with other names frees nothing.
            freed += found.st_size if found.st_nlink == 1 and path.name == sha256 else 0
        self._get_note_path(sha256).unlink(missing_ok=True)
        get_note_path(self.get_part_path(sha256)).unlink(missing_ok=True)
        return freed

    def list_garbage(self, kept: set[str], now_s: float) -> list[GarbagePath]:
        """Return the files of old contents and parts, except those of `kept`."""
        found = []
        for path in self._folder.iterdir():
            name = path.name.removesuffix(".part")
            if not _is_sha256(name) or name in kept:
                continue
            status = path.lstat()
            # A link leaves the modification time of the bytes, but sets this one.
            if now_s - max(status.st_mtime, status.st_ctime) >= GARBAGE_AGE_S:
                size = status.st_blocks * 512
                found.append(GarbagePath(name=f"blobs/{path.name}", path=path, size_bytes=size))
        return found

    def _get_note_path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.json"

    def _write_note(self, sha256: str, *, boot: str) -> None:
        """Note size and time of a content. `boot` names the boot of the machine that wrote it; empty once it is on the
        disk."""
        found = self.get_path(sha256).stat()
        write_note(self._get_note_path(sha256), {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "boot": boot})


class BlobStore:
    """Stores model files by sha256 on a node's disk, and knows which model folders link to each. Call `tidy` first."""

    def __init__(self, models_dir: Path, clock: Clock, *, shared_dir: Path | None = None) -> None:
        self._root = models_dir
        self._blobs = BlobFolder(models_dir / "blobs", shared_dir)
        self._has_shared_folder = shared_dir is not None
        self._clock = clock
        self._whole: dict[str, int] = {}
        self._partials: dict[str, PartialContent] = {}
        # Records of parts that this process has paused: a part that was not touched since is not read again.
        self._records: dict[str, PartialRecord] = {}
        self._held: Counter[str] = Counter()
        # Serialises changes of the models' folders.
        self._change_lock = asyncio.Lock()
        self.folders = ModelFolders(models_dir / "models", self._blobs.get_path)
        # Called when a report of the holdings would be different.
        self.on_change: Callable[[], None] = lambda: None

    async def tidy(self) -> None:
        """Read what is here after a start, and remove what a kill left half done."""
        async with self._change_lock:
            self._whole = await run_in_thread(self._scan)

    def get_path(self, sha256: str) -> Path:
        return self._blobs.get_path(sha256)

    def get_part_path(self, sha256: str) -> Path:
        return self._blobs.get_part_path(sha256)

    def list_whole(self) -> tuple[HeldBlob, ...]:
        return tuple(HeldBlob(sha256=sha256, size_bytes=size) for sha256, size in sorted(self._whole.items()))

    def list_partial(self) -> tuple[HeldBlob, ...]:
        """Return contents that are being fetched now and of which some chunks can be passed on."""
        held = sorted(self._partials.items())
        return tuple(HeldBlob(sha256=key, size_bytes=each.size_bytes, is_whole=False) for key, each in held)

    def find(self, sha256: str) -> ReadableContent | None:
        """Return the file of a whole or partial content for readers; None if there is none."""
        if sha256 in self._whole:
            return ReadableContent(path=self.get_path(sha256), size_bytes=self._whole[sha256])
        partial = self._partials.get(sha256)
        if partial is None:
            return None
        return ReadableContent(path=partial.path, size_bytes=partial.size_bytes, partial=partial)

    @contextlib.contextmanager
    def hold(self, sha256s: Iterable[str]) -> Iterator[None]:
        """Keep these contents from being removed until the block ends."""
        held = set(sha256s)
        self._held.update(held)
        try:
            yield
        finally:
            self._held -= Counter(held)

    # --- whole contents ---

    async def ensure_valid(self, sha256: str, size_bytes: int) -> bool:
        """Return whether a content is here and valid. An invalid one is removed; one in the shared folder is linked."""
        if sha256 not in self._whole:
            return await self._link_shared_content(sha256, size_bytes)
        if self._whole[sha256] == size_bytes and await self.verify(sha256):
            return True
        log.warning("a damaged file is fetched again", sha256=sha256)
        self._remove(sha256)
        self.on_change()
        return await self._link_shared_content(sha256, size_bytes)

    async def verify(self, sha256: str) -> bool:
        """Return whether a whole content has the hash of its name. It is hashed only where its note does not vouch for
        it."""
        return await run_in_thread(lambda stop: self._blobs.verify(sha256, stop))

    async def _link_shared_content(self, sha256: str, size_bytes: int) -> bool:
        if not self._has_shared_folder:
            return False
        taken = await run_in_thread(lambda stop: self._blobs.link_shared(sha256, size_bytes, stop))
        if taken:
            self._whole[sha256] = size_bytes
            self.on_change()
        return taken

    # --- contents that are being fetched ---

    def measure_part_bytes(self, sha256: str) -> int:
        """Return the bytes that a part takes of the disk by now."""
        try:
            return self.get_part_path(sha256).stat().st_blocks * 512
        except OSError:
            return 0

    async def read_known_chunks(self, sha256: str, size_bytes: int) -> bytes | None:
        """Return the list of chunks that this content was begun with."""
        return await asyncio.to_thread(read_noted_chunks, self.get_part_path(sha256), size_bytes)

    async def open_partial(
        self, sha256: str, size_bytes: int, chunks: bytes, on_verified: Callable[[int], None] = lambda _: None
    ) -> PartialContent:
        """Continue a content, or begin it. Call `complete` or `pause` afterwards. `on_verified` is called in the event
        loop with the number of bytes verified so far."""
        assert sha256 not in self._partials, "one transfer at a time"
        path, record = self.get_part_path(check_sha256(sha256)), self._records.pop(sha256, None)
        loop = asyncio.get_running_loop()

        def tell(count: int) -> None:
            loop.call_soon_threadsafe(on_verified, count)

        partial = await run_in_thread(
            lambda stop: PartialContent.open(path, size_bytes, chunks, stop, record=record, on_verified=tell)
        )
        self._partials[sha256] = partial
        self.on_change()
        return partial

    async def complete(self, partial: PartialContent) -> bool:
        """Turn a partial content with all chunks into a whole content, also for those who read it already.

        False if another program has changed the file meanwhile: its bytes are unknown then. `pause` it, and begin
        again.
        """
        assert not partial.list_missing(), "chunks are missing"
        if not await run_in_thread(lambda _stop: self._blobs.publish(partial)):
            log.warning("a file was changed by another program while it was fetched", sha256=partial.sha256)
            return False
        self._whole[partial.sha256] = partial.size_bytes
        self._close_partial(partial)
        return True

    async def pause(self, partial: PartialContent) -> None:
        """Release a partial content that no job continues for now."""
        if self._partials.get(partial.sha256) is partial:
            self._close_partial(partial)
            record = await asyncio.to_thread(partial.make_record)
            if record is not None:
                self._records[partial.sha256] = record

    def _close_partial(self, partial: PartialContent) -> None:
        self._partials.pop(partial.sha256, None)
        partial.close()
        self.on_change()

    async def flush_to_disk(self, sha256: str) -> None:
        """Flush a content to the disk, so that it survives a power cut; it may be used long before."""
        if not await run_in_thread(lambda _stop: self._blobs.sync(sha256)):
            return
        # A content that was removed meanwhile gets no note any more.
        async with self._change_lock:
            if sha256 in self._whole:
                await asyncio.to_thread(self._blobs.mark_on_disk, sha256)

    # --- models ---

    def find_manifest(self, model: str) -> HeldModel | None:
        return self.folders.models.get(model)

    async def put_manifest(self, model: str, revision: str, files: tuple[ModelFileItem, ...]) -> Path:
        """Make the folder of a model out of contents that are all here, and return it."""
        held_model = HeldModel(name=model, revision=revision, files=files)
        missing = [file.path for file in files if file.sha256 not in self._whole]
        assert not missing, f"contents are missing: {missing[:3]}"
        async with self._change_lock:
            if not await asyncio.to_thread(self.folders.is_in_place, held_model):
                await asyncio.to_thread(self.folders.put, held_model)
        self.on_change()
        return self.folders.get_folder(model)

    def find_path(self, model: str, entry: str) -> Path:
        return self.folders.find_path(model, entry)

    async def delete(self, model: str) -> DeleteModelReply:
        """Delete a model's folder and the contents that no other model uses and no job holds; also files of older
        versions."""
        async with self._change_lock:
            held = await asyncio.to_thread(self.folders.delete, model)
            if held is None:
                return await asyncio.to_thread(delete_model, self._root, model)
            used = self.folders.list_used_contents()
            unused = {file.sha256 for file in held.files} - used - set(self._held)
            freed = sum([await asyncio.to_thread(self._remove, sha256) for sha256 in unused])
        self.on_change()
        return DeleteModelReply(model=model, files=len(held.files), freed_bytes=freed)

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        """Remove contents that no model uses and parts that no job continues, once they are old."""
        async with self._change_lock:
            kept = self.folders.list_used_contents() | set(self._held) | set(self._partials)
            found = await asyncio.to_thread(self._blobs.list_garbage, kept, self._clock.wall().timestamp())
            if not dry_run:
                for item in found:
                    await asyncio.to_thread(self._remove, item.path.name.partition(".")[0])
        if found and not dry_run:
            self.on_change()
        return GarbageReport(items=tuple(found))

    # --- in threads ---

    def _scan(self, stop: StopFlag) -> dict[str, int]:
        self._blobs.make()
        self.folders.tidy()
        return self._blobs.scan(stop)

    def _remove(self, sha256: str) -> int:
        """Remove a content; return the bytes of disk space that this frees."""
        self._whole.pop(sha256, None)
        self._records.pop(sha256, None)
        return self._blobs.remove(sha256)


def _is_leftover(path: Path) -> bool:
    """Return whether a file is useless: half written, or a part or a note without its counterpart."""
    if path.name.endswith(".part"):
        return not get_note_path(path).exists()
    is_note = path.name.endswith(".part.json")
    return path.name.endswith(".new") or (is_note and not path.with_suffix("").exists())


def _is_as_library_noted(source: Path, stop: StopFlag) -> bool:
    """Return whether a content of the library is as its note says. It is hashed where they differ; contents of older
    libraries without a note are trusted."""
    note, found = _read_note(source.with_name(f"{source.name}.json")), source.stat()
    is_same = (note.get("size"), note.get("mtime_ns")) == (found.st_size, found.st_mtime_ns)
    return not note or is_same or compute_sha256(source, stop) == source.name


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
