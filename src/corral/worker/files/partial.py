"""A content that is being fetched: `<sha256>.part`, and a note of the chunks in it that are verified.

Guarantee: a chunk that is marked here was on this machine's disk, or on its way there, with the hash that the control
plane tells. The note is written now and then; chunks that came after it are found by their hashes at the next start,
and after a restart of the machine, which may have lost bytes, all are. Written by threads, marked by the event loop.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from corral.transfer.chunks import chunk_count, chunk_hash, chunk_span, fits
from corral.transfer.faults import told_when_full
from corral.transfer.files import PRIVATE_FILE
from corral.transfer.threads import Stop

# What is not noted is hashed anew after a kill: so many chunks take less than a second.
NOTE_EVERY = 32
# Measured on ext4: a whole chunk in one call costs the kernel five times as much.
_WRITE_BYTES = 64 * 1024
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def machine_boot() -> str:
    """One life of this machine: what was written in another one may not have reached the disk."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


class Partial:
    """Made by `open`, in a thread."""

    def __init__(self, path: Path, sha256: str, size_bytes: int, chunks: bytes) -> None:
        assert fits(chunks, size_bytes), "the list of chunks does not fit to the size"
        self.path = path
        self.sha256 = sha256
        self.size_bytes = size_bytes
        self._chunks = chunks
        self._have = bytearray(chunk_count(size_bytes))
        self._descriptor = -1
        self._since_note = 0
        self._moved = asyncio.Event()
        self._writing = threading.Lock()
        self.have_bytes = 0
        self.is_open = True

    @classmethod
    def open(cls, path: Path, sha256: str, size_bytes: int, chunks: bytes, stop: Stop) -> Partial:
        """Go on with what is there, or begin. Bytes that nobody has marked are hashed."""
        self = cls(path, sha256, size_bytes, chunks)
        with told_when_full(f"room was made for {sha256[:12]}"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            try:
                os.ftruncate(self._descriptor, size_bytes)
                self._read_note()
                self._find_more(stop)
                self.note()
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
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written : written + _WRITE_BYTES], start + written)

    def mark(self, index: int) -> bool:
        """It is there from now on; whether it is time to write the note."""
        if not self._have[index]:
            self._have[index] = 1
            self.have_bytes += chunk_span(index, self.size_bytes)[1]
            self._since_note += 1
        self._wake()
        return self._since_note >= NOTE_EVERY

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

    # --- the note ---

    @property
    def note_path(self) -> Path:
        return note_of(self.path)

    def note(self) -> None:
        self._since_note = 0
        bits = sum(1 << index for index, has in enumerate(self._have) if has)
        document = {
            "size": self.size_bytes,
            "chunks": base64.b64encode(self._chunks).decode(),
            "have": f"{bits:x}",
            "boot": machine_boot(),
        }
        with told_when_full(f"{self.sha256[:12]} was fetched"):
            write_note(self.note_path, document)

    def _read_note(self) -> None:
        note = read_note(self.path)
        if note is None or note["boot"] != machine_boot() or noted_chunks(self.path, self.size_bytes) != self._chunks:
            return
        bits = int(note["have"], 16)
        for index in range(len(self._have)):
            if bits >> index & 1:
                self._have[index] = 1
                self.have_bytes += chunk_span(index, self.size_bytes)[1]

    def _find_more(self, stop: Stop) -> None:
        for index in self.missing():
            stop.check()
            start, length = chunk_span(index, self.size_bytes)
            if not _has_data(self._descriptor, start, length):
                continue
            data = os.pread(self._descriptor, length, start)
            if hashlib.sha256(data).digest() == chunk_hash(self._chunks, index):
                self._have[index] = 1
                self.have_bytes += length


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


def read_note(part: Path) -> dict[str, Any] | None:
    try:
        note = json.loads(note_of(part).read_text(encoding="utf-8"))
        if isinstance(note["size"], int) and isinstance(note["boot"], str) and int(note["have"], 16) >= 0:
            return dict(note)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def noted_chunks(part: Path, size_bytes: int) -> bytes | None:
    """The list of chunks that this content was begun with; it came from the control plane."""
    note = read_note(part)
    try:
        chunks = base64.b64decode(note["chunks"]) if note and note["size"] == size_bytes else None
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
    return chunks if chunks is not None and fits(chunks, size_bytes) else None


def _has_data(descriptor: int, start: int, length: int) -> bool:
    """Holes need not be read."""
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA) < start + length
    except OSError:
        # No data until the end of the file.
        return False
