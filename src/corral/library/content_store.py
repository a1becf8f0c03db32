"""Stores the contents of a library in one folder.

    blobs/ab/<sha256>       contents that are complete and verified
    blobs/ab/<sha256>.json  the size and time that a content had when it was last hashed
    incoming/<name>/        running fetches: the bytes survive a crash, and the next attempt continues with them
    uploads/                running uploads of admins

Guarantee: a file appears under its sha256 in one step, after it was hashed and is on the disk. Nothing is changed
afterwards. Everything here is slow work for a thread, except `path`.

`read_file` reads the bytes of a file for a socket: large pieces, read ahead, without blocking the event loop. Bytes in
the page cache are copied at once, which takes a tenth of a millisecond; a thread is used only if the disk has to be
read. Limit: each reader holds two pieces.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.domain.errors import InvalidRequest, Unavailable, Unprocessable
from corral.domain.model import Blob
from corral.runtime.disk import sync
from corral.transfer.chunks import ChunkHasher, check_sha256
from corral.transfer.faults import translate_disk_full
from corral.transfer.files import PRIVATE_FILE, PRIVATE_FOLDER, StopFlag, write_json

READ_BYTES = 1024 * 1024
# Fetches that have not been continued for so long are deleted.
INCOMING_LIFE_S = 7 * 86400.0
_JOINED = "joined.new"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContent:
    """One model file in a frontend's library folder: its sha256, size and time of change."""

    sha256: str
    size_bytes: int
    # When the content was stored, in seconds since 1970.
    changed_s: float


def measure_free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class ContentNotes:
    """Keeps a note beside each model file of a library with its size and time, so that a change is noticed.

    A touched file is noticed without hashing all files.
    """

    def __init__(self, get_path: Callable[[str], Path], file_mode: int) -> None:
        self._get_path = get_path
        self._file_mode = file_mode
        self._noted: dict[str, tuple[int, int] | None] = {}

    def matches(self, sha256: str, size_bytes: int) -> bool:
        """Return whether the content is stored with the size and time of its note."""
        found = self._read_stamp(sha256)
        if found is None or found[0] != size_bytes:
            return False
        if self._noted.get(sha256) != found:
            # Another frontend may have written the note of a shared folder.
            self._noted[sha256] = self._read(sha256)
        return self._noted[sha256] == found

    def exists(self, sha256: str) -> bool:
        return self._get_note_path(sha256).exists()

    def write(self, sha256: str) -> None:
        """Write the note of a verified content: its size and time."""
        found = self._read_stamp(sha256)
        if found is not None:
            self._noted[sha256] = found
            path = self._get_note_path(sha256)
            write_json(path, {"size": found[0], "mtime_ns": found[1]})
            path.chmod(self._file_mode)

    def remove(self, sha256: str) -> None:
        self._noted.pop(sha256, None)
        self._get_note_path(sha256).unlink(missing_ok=True)

    def _read_stamp(self, sha256: str) -> tuple[int, int] | None:
        try:
            found = self._get_path(sha256).stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def _read(self, sha256: str) -> tuple[int, int] | None:
        try:
            note = json.loads(self._get_note_path(sha256).read_text(encoding="utf-8"))
            return int(note["size"]), int(note["mtime_ns"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _get_note_path(self, sha256: str) -> Path:
        path = self._get_path(sha256)
        return path.with_name(f"{path.name}.json")


class ContentStore:
    """Stores model files by sha256 in a frontend's library folder; a file appears only after it was hashed."""

    def __init__(
        self, folder: Path, *, free_bytes: Callable[[Path], int] = measure_free_bytes, is_open_to_workers: bool = False
    ) -> None:
        """Create the store. `is_open_to_workers`: workers of this machine, or of one that mounts the folder, read it
        themselves."""
        self._folder = folder
        self._free_bytes = free_bytes
        self._folder_mode = 0o755 if is_open_to_workers else PRIVATE_FOLDER
        self._file_mode = 0o644 if is_open_to_workers else PRIVATE_FILE
        self.notes = ContentNotes(self._get_path, self._file_mode)

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def uploads(self) -> Path:
        return self._folder / "uploads"

    @property
    def _blobs(self) -> Path:
        return self._folder / "blobs"

    @property
    def _incoming_folder(self) -> Path:
        return self._folder / "incoming"

    def find_path(self, sha256: str) -> Path | None:
        """Return the file of a content; None if it is not here."""
        path = self._get_path(sha256)
        return path if path.is_file() else None

    def get_incoming_folder(self, name: str) -> Path:
        """Return the folder for a fetch under this name."""
        folder = self._incoming_folder / name
        self._make(folder)
        return folder

    def prepare(self) -> None:
        """Create the folders; `Unavailable` (library_unusable) if that is not possible."""
        try:
            for folder in (self._folder, self._blobs, self._incoming_folder, self.uploads):
                self._make(folder)
        except OSError as error:
            raise Unavailable(
                f"The library's folder {self._folder} cannot be used: {error.strerror}.",
                hint="Set library_dir to a folder that this user may write to.",
                code="library_unusable",
            ) from error

    def measure_free_bytes(self) -> int:
        return self._free_bytes(self._folder)

    def count_arrived_bytes(self, name: str) -> int:
        """Return how many bytes have arrived for this name so far."""
        folder = self._incoming_folder / name
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0

    def add_content(
        self,
        sources: Sequence[Path],
        name: str,
        expected_sha256: str,
        stop: StopFlag,
        moved: Callable[[int], None] = lambda _: None,
    ) -> Blob:
        """Make one content of these files, joined in order, in one pass over their bytes.

        A single file that was fetched or uploaded is moved; others are copied and stay as they are. With another
        sha256 than `expected_sha256` (empty: any) it is `Unprocessable` (digest_mismatch), and nothing of `name` is
        left.
        """
        folder = self.get_incoming_folder(name)
        only = sources[0] if len(sources) == 1 and {folder, self.uploads} & set(sources[0].parents) else None
        target = None if only else folder / _JOINED
        with translate_disk_full("a model's file was put into the library"):
            blob = _copy_and_hash(sources, target, stop, moved)
            if expected_sha256 and blob.sha256 != expected_sha256:
                self.forget_incoming(name)
                raise Unprocessable(
                    f"The file has the sha256 {blob.sha256}, but {expected_sha256} was expected.",
                    hint="Either the source has changed, or the configured sha256 is wrong.",
                    code="digest_mismatch",
                )
            self._store_file(only or folder / _JOINED, blob.sha256)
        self.forget_incoming(name)
        return blob

    def hash_content(self, sha256: str, stop: StopFlag) -> Blob | None:
        """Hash the file under this sha256 again and return its content; a file with another hash is deleted."""
        path = self.find_path(sha256)
        if path is None:
            return None
        blob = _copy_and_hash([path], None, stop, lambda _: None)
        if blob.sha256 == sha256:
            self.notes.write(sha256)
            return blob
        self.remove(sha256)
        return None

    def verify(self, blob: Blob, stop: StopFlag) -> bool:
        """Hash the stored copy of a content and return whether it is right. A wrong one is deleted."""
        path = self._get_path(blob.sha256)
        try:
            is_right = path.stat().st_size == blob.size_bytes and self.hash_content(blob.sha256, stop) is not None
        except FileNotFoundError:
            return False
        if not is_right:
            self.remove(blob.sha256)
        return is_right

    def remove(self, sha256: str) -> int:
        """Delete a content and return how many bytes that freed."""
        path = self._get_path(sha256)
        self.notes.remove(sha256)
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        with contextlib.suppress(OSError):
            path.parent.rmdir()
        return size

    def forget_incoming(self, name: str) -> None:
        shutil.rmtree(self._incoming_folder / name, ignore_errors=True)

    def list_contents(self) -> Iterator[StoredContent]:
        """Yield every stored content by name and size; files without a sha256 for a name are skipped."""
        for folder in sorted(self._blobs.glob("??")):
            entries: list[Path] = []
            # A folder goes with its last content, also while others are listed.
            with contextlib.suppress(OSError):
                entries = sorted(folder.iterdir())
            for entry in entries:
                with contextlib.suppress(InvalidRequest, OSError):
                    sha256, found = check_sha256(entry.name), entry.stat()
                    yield StoredContent(sha256=sha256, size_bytes=found.st_size, changed_s=found.st_ctime)

    def tidy(self, now_s: float) -> int:
        """Delete abandoned fetches and return how many there were."""
        removed_count = 0
        for folder in self._incoming_folder.iterdir():
            (folder / _JOINED).unlink(missing_ok=True)
            if now_s - _read_last_change(folder) > INCOMING_LIFE_S:
                shutil.rmtree(folder, ignore_errors=True)
                removed_count += 1
        return removed_count

    def _store_file(self, path: Path, sha256: str) -> None:
        target = self._get_path(sha256)
        self._make(target.parent)
        path.chmod(self._file_mode)
        sync(path)
        path.replace(target)
        sync(target.parent)
        self.notes.write(sha256)

    def _get_path(self, sha256: str) -> Path:
        name = check_sha256(sha256)
        return self._blobs / name[:2] / name

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=self._folder_mode)


def _copy_and_hash(sources: Sequence[Path], target: Path | None, stop: StopFlag, moved: Callable[[int], None]) -> Blob:
    hasher = ChunkHasher()
    buffer = bytearray(READ_BYTES)
    view = memoryview(buffer)
    with contextlib.ExitStack() as opened:
        copy = opened.enter_context(target.open("wb", buffering=0)) if target else None
        for source in sources:
            with source.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    stop.raise_if_set()
                    hasher.update(view[:count])
                    if copy is not None:
                        _write_all(copy.fileno(), view[:count])
                    moved(hasher.size_bytes)
    return hasher.finish()


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read_last_change(folder: Path) -> float:
    times = [folder.stat().st_mtime]
    times += [path.stat().st_mtime for path in folder.rglob("*") if path.is_file()]
    return max(times)


def make_stopping_error() -> Unavailable:
    """Make the error of a caller whose shared call was ended because this frontend stops."""
    return Unavailable("This frontend is stopping.", code="stopping")


# One call to the kernel and one to the transport for each piece; larger ones gain nothing and block others longer.
PIECE_BYTES = 1024 * 1024
_NOT_NOW = getattr(os, "RWF_NOWAIT", None)


async def read_file(path: Path, offset: int, length: int) -> AsyncIterator[memoryview]:
    """Yield the bytes, up to the end of the file if that comes first. The file may be removed meanwhile: it is read
    to its end."""
    descriptor = await asyncio.to_thread(os.open, path, os.O_RDONLY)
    try:
        end = offset + length
        while offset < end:
            piece = _read_cached(descriptor, offset, min(PIECE_BYTES, end - offset))
            if piece is None:
                read = await asyncio.to_thread(os.pread, descriptor, min(PIECE_BYTES, end - offset), offset)
                piece = memoryview(read)
            if not piece:
                return
            yield piece
            offset += len(piece)
    finally:
        os.close(descriptor)


def _read_cached(descriptor: int, offset: int, length: int) -> memoryview | None:
    """Return the bytes from the page cache; None if they are not there or the kernel cannot say."""
    if _NOT_NOW is None:
        return None
    buffer = bytearray(length)
    try:
        count = os.preadv(descriptor, [buffer], offset, _NOT_NOW)
    except OSError:
        # Not in memory, or a file system that does not support the query.
        return None
    return memoryview(buffer)[:count] if count else None


def read_at(path: Path, offset: int, length: int) -> bytes:
    """Read bytes of a file in a thread."""
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), length, offset)
