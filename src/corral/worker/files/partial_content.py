"""A content that is being fetched: `<sha256>.part`, and a note with the hashes of its chunks.

Guarantee: a chunk that is marked here was hashed by this process: while it was written, or as it lies on the disk.
After a restart nothing of an earlier process is trusted, every chunk is read and hashed. `is_untouched` says whether
another program has changed or replaced the file since. Limit: a change within the same tick of the file system's clock
as a write of ours, which leaves the size as it is, is not seen. Written by threads, marked by the event loop.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from corral.domain.model import CHUNK_BYTES
from corral.transfer.chunks import compute_chunk_span, count_chunks, get_chunk_hash, is_chunk_list_for
from corral.transfer.faults import translate_disk_full
from corral.transfer.files import PRIVATE_FILE, StopFlag

# Measured on ext4: a whole chunk in one call costs the kernel five times as much.
_WRITE_BYTES = 64 * 1024
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def read_machine_boot() -> str:
    """Return the id of the machine's present boot: bytes written in another boot may not have reached the disk."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStamp:
    """Size and times of a file on a worker's disk; two equal stamps mean that it was not written to in between."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileStamp:
        return cls(
            device=status.st_dev,
            inode=status.st_ino,
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialRecord:
    """The verified chunks of an unfinished model file that no job fetches now, and its stamp when it was left."""

    stamp: FileStamp
    chunks: bytes
    verified: bytes


class PartialContent:
    """A model file that a worker is fetching: which chunks are here and verified. Made by `open`, in a thread."""

    def __init__(self, path: Path, size_bytes: int, chunks: bytes) -> None:
        assert is_chunk_list_for(chunks, size_bytes), "the list of chunks does not fit to the size"
        self.path = path
        self.sha256 = path.stem
        self.size_bytes = size_bytes
        self._chunks = chunks
        self._verified_chunks = bytearray(count_chunks(size_bytes))
        self._descriptor = -1
        # The stamp of the file as this process left it, and whether the file was ever found changed.
        self._stamp: FileStamp | None = None
        self._is_changed = False
        self._progress = asyncio.Event()
        self._write_lock = threading.Lock()
        self.verified_bytes = 0
        self.is_open = True

    @classmethod
    def open(
        cls,
        path: Path,
        size_bytes: int,
        chunks: bytes,
        stop: StopFlag,
        *,
        record: PartialRecord | None = None,
        on_verified: Callable[[int], None] = lambda _: None,
    ) -> PartialContent:
        """Continue with the bytes in the file, or begin.

        The file is read and hashed, and `on_verified` is called with the number of bytes that are right so far. With a
        `record` of this process, and a file that was not touched since, nothing is read.
        """
        self = cls(path, size_bytes, chunks)
        with translate_disk_full(f"room was made for {self.sha256[:12]}"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            try:
                found = self._read_stamp()
                is_known = record is not None and (record.stamp, record.chunks) == (found, chunks)
                if found.size_bytes != size_bytes:
                    os.ftruncate(self._descriptor, size_bytes)
                self._stamp = self._read_stamp()
                if record is not None and is_known:
                    for index in (index for index, has in enumerate(record.verified) if has):
                        self._add(index)
                else:
                    self._verify_bytes(stop, on_verified)
                self._write_chunk_list()
            except BaseException:
                os.close(self._descriptor)
                raise
        return self

    # --- chunks ---

    @property
    def verified_chunks(self) -> int:
        return sum(self._verified_chunks)

    def has_chunks(self, indexes: Iterable[int]) -> bool:
        return all(self._verified_chunks[index] for index in indexes)

    def list_missing(self) -> list[int]:
        return [index for index, has in enumerate(self._verified_chunks) if not has]

    def open_chunk(self, index: int) -> ChunkWriter:
        """Return a writer for a chunk that arrives piece by piece, in a thread; `mark_verified` the chunk if it was
        right."""
        start, _ = compute_chunk_span(index, self.size_bytes)
        return ChunkWriter(self, start, get_chunk_hash(self._chunks, index))

    def write(self, index: int, data: bytes | bytearray | memoryview) -> bool:
        """Write a whole chunk, in a thread, and return whether it is right. Call `mark_verified` then."""
        writer = self.open_chunk(index)
        writer.write(memoryview(data))
        return writer.is_valid()

    def write_at(self, start: int, data: memoryview) -> None:
        """Write bytes that are not verified yet."""
        written = 0
        # The kernel lets one writer at a time into a file while the others spin; with this lock they sleep.
        with self._write_lock, translate_disk_full(f"{self.sha256[:12]} was fetched"):
            self._is_changed = self._is_changed or self._read_stamp() != self._stamp
            try:
                while written < len(data):
                    written += os.pwrite(self._descriptor, data[written : written + _WRITE_BYTES], start + written)
            finally:
                self._stamp = self._read_stamp()

    def mark_verified(self, index: int) -> None:
        """Mark a chunk as present and verified."""
        self._add(index)
        self._wake()

    def is_untouched(self) -> bool:
        """Return whether the file at the path is still the one that this process has written, with its bytes. In a
        thread."""
        try:
            found = FileStamp.from_stat(self.path.stat())
        except OSError:
            return False
        with self._write_lock:
            return not self._is_changed and found == self._stamp

    def make_record(self) -> PartialRecord | None:
        """Return what may be trusted when the part is continued later; None if it was touched. In a thread."""
        if self._stamp is None or not self.is_untouched():
            return None
        return PartialRecord(stamp=self._stamp, chunks=self._chunks, verified=bytes(self._verified_chunks))

    async def wait_for(self, indexes: range, within_s: float) -> bool:
        """Return whether all of these chunks are there, now or within the given seconds."""
        try:
            async with asyncio.timeout(within_s):
                while self.is_open and not self.has_chunks(indexes):
                    await self._progress.wait()
        except TimeoutError:
            pass
        return self.has_chunks(indexes)

    def close(self) -> None:
        """Close the content to further chunks, and release everyone who waits for one."""
        if self.is_open:
            self.is_open = False
            os.close(self._descriptor)
            self._wake()

    def _wake(self) -> None:
        moved, self._progress = self._progress, asyncio.Event()
        moved.set()

    # --- in threads ---

    @property
    def note_path(self) -> Path:
        return get_note_path(self.path)

    def _add(self, index: int) -> None:
        if not self._verified_chunks[index]:
            self._verified_chunks[index] = 1
            self.verified_bytes += compute_chunk_span(index, self.size_bytes)[1]

    def _read_stamp(self) -> FileStamp:
        return FileStamp.from_stat(os.fstat(self._descriptor))

    def _write_chunk_list(self) -> None:
        """Write down the hashes, so that a part can be continued while no frontend answers."""
        document = {
            "size": self.size_bytes,
            "chunks": base64.b64encode(self._chunks).decode(),
            "sum": hashlib.sha256(self._chunks).hexdigest(),
        }
        with translate_disk_full(f"{self.sha256[:12]} was fetched"):
            write_note(self.note_path, document)

    def _verify_bytes(self, stop: StopFlag, on_verified: Callable[[int], None]) -> None:
        buffer = memoryview(bytearray(min(self.size_bytes, CHUNK_BYTES)))
        for index in range(len(self._verified_chunks)):
            stop.raise_if_set()
            start, length = compute_chunk_span(index, self.size_bytes)
            if not _has_data(self._descriptor, start, length):
                continue
            count = os.preadv(self._descriptor, [buffer[:length]], start)
            if hashlib.sha256(buffer[:count]).digest() == get_chunk_hash(self._chunks, index):
                self._add(index)
                on_verified(self.verified_bytes)


class ChunkWriter:
    """Hashes and writes one chunk of a model file piece by piece to a worker's disk.

    The chunk counts once its caller has found it valid and has marked it.
    """

    def __init__(self, partial: PartialContent, start: int, expected: bytes) -> None:
        self._partial = partial
        self._offset = start
        self._expected = expected
        self._hash = hashlib.sha256()

    def write(self, piece: memoryview) -> None:
        self._hash.update(piece)
        self._partial.write_at(self._offset, piece)
        self._offset += len(piece)

    def is_valid(self) -> bool:
        return self._hash.digest() == self._expected


def write_note(path: Path, document: Any) -> None:
    """Replace a note in one step, without syncing: a lost note costs hashing, while syncing would wait for all
    bytes."""
    # Two threads may write the same note; the last one wins.
    temporary = path.with_name(f"{path.name}.{threading.get_ident()}.new")
    temporary.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    temporary.replace(path)


def get_note_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def read_noted_chunks(part: Path, size_bytes: int) -> bytes | None:
    """Return the list of chunks that this content was begun with, as the control plane gave it; None if it was
    damaged."""
    try:
        note = json.loads(get_note_path(part).read_text(encoding="utf-8"))
        chunks = base64.b64decode(note["chunks"])
        is_whole = note["size"] == size_bytes and note["sum"] == hashlib.sha256(chunks).hexdigest()
    except (OSError, binascii.Error, ValueError, KeyError, TypeError):
        return None
    return chunks if is_whole and is_chunk_list_for(chunks, size_bytes) else None


def _has_data(descriptor: int, start: int, length: int) -> bool:
    """Return whether a range holds data; holes need not be read."""
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA) < start + length
    except OSError:
        # There is no data until the end of the file.
        return False
