"""Reads the bytes of a file for a socket: large pieces, read ahead, without blocking the event loop.

Bytes in the page cache are copied at once, which takes a tenth of a millisecond; a thread is used only if the disk
has to be read. Limit: each reader holds two pieces.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

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
