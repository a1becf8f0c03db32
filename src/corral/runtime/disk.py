"""Writes files that survive a power cut. Everything here waits for the disk: call it in a thread where that matters."""

from __future__ import annotations

import os
from pathlib import Path

# The suffix of files that an interrupted write leaves behind.
HALF_WRITTEN = ".new"
PRIVATE_FILE = 0o600


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Replace a file by these bytes, atomically, readable by its owner only, and flushed to the disk; a reader sees the
    old file or the new one. Limit: one writer at a time for each file."""
    # One temporary name is enough for one writer: the rest of an earlier attempt is overwritten.
    temporary = path.with_name(f"{path.name}{HALF_WRITTEN}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, PRIVATE_FILE)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    # The rename itself survives a power cut only when the folder is flushed, too.
    sync(path.parent)
