"""Splits a content into chunks: which bytes each covers, and the sha256 of each beside that of the whole.

Chunks are the units that are verified, resumed and passed on. All but the last have `CHUNK_BYTES`; an empty content has
none. The list of a content's chunks is their 32-byte hashes one after the other; it is as trustworthy as its source, so
only the control plane's list is trusted. For a content of one chunk, the list follows from its sha256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from corral.domain.errors import InvalidRequest
from corral.domain.model import CHUNK_BYTES, Blob
from corral.transfer.files import StopFlag

HASH_BYTES = 32
_READ_BYTES = 1024 * 1024


def count_chunks(size_bytes: int) -> int:
    return -(-size_bytes // CHUNK_BYTES)


def compute_chunk_span(index: int, size_bytes: int) -> tuple[int, int]:
    """Return where a chunk begins and how long it is."""
    start = index * CHUNK_BYTES
    assert 0 <= start < size_bytes, "there is no such chunk"
    return start, min(CHUNK_BYTES, size_bytes - start)


def list_chunks(start: int, length: int) -> range:
    """Return the chunks that these bytes lie in."""
    return range(start // CHUNK_BYTES, count_chunks(start + length)) if length > 0 else range(0)


def get_chunk_hash(chunks: bytes, index: int) -> bytes:
    return chunks[index * HASH_BYTES : (index + 1) * HASH_BYTES]


def is_chunk_list_for(chunks: bytes, size_bytes: int) -> bool:
    """Return whether a list has as many chunks as a content of this size."""
    return len(chunks) == HASH_BYTES * count_chunks(size_bytes)


def derive_chunk_list(sha256: str, size_bytes: int) -> bytes | None:
    """Return the list of a content that is so small that its own sha256 is all of it; else None."""
    if size_bytes > CHUNK_BYTES:
        return None
    return bytes.fromhex(sha256) if size_bytes else b""


def check_sha256(text: str) -> str:
    """Return the sha256 in lower case; `InvalidRequest` if it is none. The result can be used as a file name."""
    found = text.lower()
    if len(found) != 2 * HASH_BYTES or not set(found) <= set("0123456789abcdef"):
        raise InvalidRequest("This is not a sha256: 64 hexadecimal digits are expected.", code="bad_sha256")
    return found


class ChunkHasher:
    """Computes the sha256 of a whole model file and of each of its chunks in one pass."""

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


def compute_sha256(path: Path, stop: StopFlag) -> str:
    """Return the sha256 of a whole file. In a thread."""
    found = hashlib.sha256()
    for piece in _read_pieces(path, stop):
        found.update(piece)
    return found.hexdigest()


def _read_pieces(path: Path, stop: StopFlag) -> Iterator[memoryview]:
    buffer = bytearray(_READ_BYTES)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            stop.raise_if_set()
            yield view[:count]
