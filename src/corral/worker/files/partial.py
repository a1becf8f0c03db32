"""A content that is being fetched: `<sha256>.part`, and a note with the hashes of its chunks.

Guarantee: a chunk that is marked here was hashed by this process: while it was written, or as it lies on the disk.
After a restart nothing of an earlier process is believed, every chunk is read and hashed. `is_untouched` tells whether
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
from corral.transfer.chunks import chunk_count, chunk_hash, chunk_span, fits
from corral.transfer.faults import told_when_full
from corral.transfer.files import PRIVATE_FILE
from corral.transfer.threads import Stop

# Measured on ext4: a whole chunk in one call costs the kernel five times as much.
_WRITE_BYTES = 64 * 1024
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def machine_boot() -> str:
    """One life of this machine: what was written in another one may not have reached the disk."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStamp:
    """What the file system says of a file. Two equal stamps: nobody has written to it in between."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        return cls(
            device=status.st_dev,
            inode=status.st_ino,
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """What this process has verified of a part that nobody fetches now, and the part's stamp when it was left."""

    stamp: FileStamp
    chunks: bytes
    have: bytes


class Partial:
    """Made by `open`, in a thread."""

    def __init__(self, path: Path, size_bytes: int, chunks: bytes) -> None:
        assert fits(chunks, size_bytes), "the list of chunks does not fit to the size"
        self.path = path
        self.sha256 = path.stem
        self.size_bytes = size_bytes
        self._chunks = chunks
        self._have = bytearray(chunk_count(size_bytes))
        self._descriptor = -1
        # The file as this process left it, and whether it was ever found otherwise.
        self._stamp: FileStamp | None = None
        self._is_changed = False
        self._moved = asyncio.Event()
        self._writing = threading.Lock()
        self.have_bytes = 0
        self.is_open = True

    @classmethod
    def open(
        cls,
        path: Path,
        size_bytes: int,
        chunks: bytes,
        stop: Stop,
        *,
        record: PartRecord | None = None,
        verified: Callable[[int], None] = lambda _: None,
    ) -> Partial:
        """Go on with the bytes in the file, or begin.

        The file is read and hashed, and `verified` is called with the number of bytes that are right so far. With a
        `record` of this process, and a file that nobody has touched since, nothing is read.
        """
        self = cls(path, size_bytes, chunks)
        with told_when_full(f"room was made for {self.sha256[:12]}"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            try:
                found = self._read_stamp()
                is_known = record is not None and (record.stamp, record.chunks) == (found, chunks)
                if found.size_bytes != size_bytes:
                    os.ftruncate(self._descriptor, size_bytes)
                self._stamp = self._read_stamp()
                if record is not None and is_known:
                    for index in (index for index, has in enumerate(record.have) if has):
                        self._add(index)
                else:
                    self._verify_bytes(stop, verified)
                self._write_chunk_list()
            except BaseException:
                os.close(self._descriptor)
                raise
        return self

    # --- chunks ---

    @property
    def have_chunks(self) -> int:
        return sum(self._have)

    def has(self, indexes: Iterable[int]) -> bool:
        return all(self._have[index] for index in indexes)

    def missing(self) -> list[int]:
        return [index for index, has in enumerate(self._have) if not has]

    def arrives(self, index: int) -> Arriving:
        """A chunk that comes piece by piece, in a thread; `mark` it if it was right."""
        start, _ = chunk_span(index, self.size_bytes)
        return Arriving(self, start, chunk_hash(self._chunks, index))

    def write(self, index: int, data: bytes | bytearray | memoryview) -> bool:
        """All of a chunk, in a thread; whether it is right. `mark` it then."""
        arriving = self.arrives(index)
        arriving.put(memoryview(data))
        return arriving.is_right()

    def write_at(self, start: int, data: memoryview) -> None:
        """Bytes that nobody counts on yet."""
        written = 0
        # The kernel lets one writer at a time into a file, and the others spin; here they sleep.
        with self._writing, told_when_full(f"{self.sha256[:12]} was fetched"):
            self._is_changed = self._is_changed or self._read_stamp() != self._stamp
            try:
                while written < len(data):
                    written += os.pwrite(self._descriptor, data[written : written + _WRITE_BYTES], start + written)
            finally:
                self._stamp = self._read_stamp()

    def mark(self, index: int) -> None:
        """The chunk is there from now on."""
        self._add(index)
        self._wake()

    def is_untouched(self) -> bool:
        """Whether the file at the path is still the one that this process has written, with its bytes. In a thread."""
        try:
            found = FileStamp.of(self.path.stat())
        except OSError:
            return False
        with self._writing:
            return not self._is_changed and found == self._stamp

    def record(self) -> PartRecord | None:
        """What may be believed when somebody goes on with the part; None if it was touched. In a thread."""
        if self._stamp is None or not self.is_untouched():
            return None
        return PartRecord(stamp=self._stamp, chunks=self._chunks, have=bytes(self._have))

    async def wait_for(self, indexes: range, within_s: float) -> bool:
        """Whether they are all there, now or soon."""
        try:
            async with asyncio.timeout(within_s):
                while self.is_open and not self.has(indexes):
                    await self._moved.wait()
        except TimeoutError:
            pass
        return self.has(indexes)

    def close(self) -> None:
        """Nobody adds to it any more. Those who wait for chunks are let go."""
        if self.is_open:
            self.is_open = False
            os.close(self._descriptor)
            self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    # --- in threads ---

    @property
    def note_path(self) -> Path:
        return note_of(self.path)

    def _add(self, index: int) -> None:
        if not self._have[index]:
            self._have[index] = 1
            self.have_bytes += chunk_span(index, self.size_bytes)[1]

    def _read_stamp(self) -> FileStamp:
        return FileStamp.of(os.fstat(self._descriptor))

    def _write_chunk_list(self) -> None:
        """Note the hashes, so that a part can be gone on with while no frontend answers."""
        document = {
            "size": self.size_bytes,
            "chunks": base64.b64encode(self._chunks).decode(),
            "sum": hashlib.sha256(self._chunks).hexdigest(),
        }
        with told_when_full(f"{self.sha256[:12]} was fetched"):
            write_note(self.note_path, document)

    def _verify_bytes(self, stop: Stop, verified: Callable[[int], None]) -> None:
        buffer = memoryview(bytearray(min(self.size_bytes, CHUNK_BYTES)))
        for index in range(len(self._have)):
            stop.check()
            start, length = chunk_span(index, self.size_bytes)
            if not _has_data(self._descriptor, start, length):
                continue
            count = os.preadv(self._descriptor, [buffer[:length]], start)
            if hashlib.sha256(buffer[:count]).digest() == chunk_hash(self._chunks, index):
                self._add(index)
                verified(self.have_bytes)


class Arriving:
    """A chunk on its way into the file. Each piece is hashed and written while it is still in the processor's cache:
    nothing is fetched from memory again for the second and the third step. What is wrong in the end was written and
    is never marked, so nobody reads it; the next try overwrites it."""

    def __init__(self, partial: Partial, start: int, wanted: bytes) -> None:
        self._partial = partial
        self._at = start
        self._wanted = wanted
        self._hash = hashlib.sha256()

    def put(self, piece: memoryview) -> None:
        self._hash.update(piece)
        self._partial.write_at(self._at, piece)
        self._at += len(piece)

    def is_right(self) -> bool:
        return self._hash.digest() == self._wanted


def write_note(path: Path, document: Any) -> None:
    """Replaced in one step, and not synced: one that is lost costs hashing, and syncing would wait for all bytes."""
    # Two threads may write the same note: the last one stays.
    temporary = path.with_name(f"{path.name}.{threading.get_ident()}.new")
    temporary.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    temporary.replace(path)


def note_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def noted_chunks(part: Path, size_bytes: int) -> bytes | None:
    """The list of chunks that this content was begun with; it came from the control plane. None if it was damaged."""
    try:
        note = json.loads(note_of(part).read_text(encoding="utf-8"))
        chunks = base64.b64decode(note["chunks"])
        is_whole = note["size"] == size_bytes and note["sum"] == hashlib.sha256(chunks).hexdigest()
    except (OSError, binascii.Error, ValueError, KeyError, TypeError):
        return None
    return chunks if is_whole and fits(chunks, size_bytes) else None


def _has_data(descriptor: int, start: int, length: int) -> bool:
    """Holes need not be read."""
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA) < start + length
    except OSError:
        # No data until the end of the file.
        return False
