"""A content in chunks: which bytes one covers, and the sha256 of each beside that of the whole.

Chunks are what is verified, resumed and passed on. All but the last have `CHUNK_BYTES`; an empty content has none. The
list of a content's chunks is their 32-byte hashes one after the other; it is as good as whoever tells it, so only what
the control plane says about a content is believed. Of a content of one chunk, everybody knows the list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from corral.domain.errors import InvalidRequest
from corral.domain.model import CHUNK_BYTES, Blob
from corral.transfer.threads import Stop

HASH_BYTES = 32
_READ_BYTES = 1024 * 1024


def chunk_count(size_bytes: int) -> int:
    return -(-size_bytes // CHUNK_BYTES)


def chunk_span(index: int, size_bytes: int) -> tuple[int, int]:
    """Where a chunk begins and how long it is."""
    start = index * CHUNK_BYTES
    assert 0 <= start < size_bytes, "there is no such chunk"
    return start, min(CHUNK_BYTES, size_bytes - start)


def chunks_of(start: int, length: int) -> range:
    """The chunks that these bytes lie in."""
    return range(start // CHUNK_BYTES, chunk_count(start + length)) if length > 0 else range(0)


def chunk_hash(chunks: bytes, index: int) -> bytes:
    return chunks[index * HASH_BYTES : (index + 1) * HASH_BYTES]


def fits(chunks: bytes, size_bytes: int) -> bool:
    """Whether a list has as many chunks as a content of this size."""
    return len(chunks) == HASH_BYTES * chunk_count(size_bytes)


def known_chunks(sha256: str, size_bytes: int) -> bytes | None:
    """The list of a content that is so small that its own sha256 is all of it."""
    if size_bytes > CHUNK_BYTES:
        return None
    return bytes.fromhex(sha256) if size_bytes else b""


def check_sha256(text: str) -> str:
    """The sha256 in small letters; `InvalidRequest` if it is none. What passes can be the name of a file."""
    found = text.lower()
    if len(found) != 2 * HASH_BYTES or not set(found) <= set("0123456789abcdef"):
        raise InvalidRequest("This is not a sha256: 64 hexadecimal digits are expected.", code="bad_sha256")
    return found


class ChunkHasher:
    """Both hashes in one pass, whatever the pieces that the bytes come in."""

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._chunk = hashlib.sha256()
        self._filled = 0
        self._chunks = bytearray()
        self.size_bytes = 0

    def update(self, data: bytes | memoryview) -> None:
        self._whole.update(data)
        self.size_bytes += len(data)
        view = memoryview(data)
        while view:
            piece = view[: CHUNK_BYTES - self._filled]
            self._chunk.update(piece)
            self._filled += len(piece)
            view = view[len(piece) :]
            if self._filled == CHUNK_BYTES:
                self._close_chunk()

    def finish(self) -> Blob:
        if self._filled:
            self._close_chunk()
        return Blob(sha256=self._whole.hexdigest(), size_bytes=self.size_bytes, chunks=bytes(self._chunks))

    def _close_chunk(self) -> None:
        self._chunks += self._chunk.digest()
        self._chunk, self._filled = hashlib.sha256(), 0


def hash_file(path: Path, stop: Stop) -> Blob:
    """What a file is. In a thread."""
    hasher = ChunkHasher()
    for piece in _pieces(path, stop):
        hasher.update(piece)
    return hasher.finish()


def sha256_of(path: Path, stop: Stop) -> str:
    """Only the whole. In a thread."""
    found = hashlib.sha256()
    for piece in _pieces(path, stop):
        found.update(piece)
    return found.hexdigest()


def _pieces(path: Path, stop: Stop) -> Iterator[memoryview]:
    buffer = bytearray(_READ_BYTES)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            stop.check()
            yield view[:count]
