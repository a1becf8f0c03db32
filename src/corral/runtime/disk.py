"""Files that outlive a power cut. Everything here waits for the disk: in a thread, where that matters."""

from __future__ import annotations

import os
from pathlib import Path

# What a write that was broken off leaves behind ends so.
HALF_WRITTEN = ".new"
PRIVATE_FILE = 0o600


def sync(path: Path) -> None:
    """What the file holds, or which names the folder has, is on the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """The file has these bytes and no others, is closed to other users, and is on the disk; a reader sees the old file
    or the new one. Limit: one writer at a time for each file."""
    # One name is enough, then: what an earlier try has left is overwritten.
    temporary = path.with_name(f"{path.name}{HALF_WRITTEN}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, PRIVATE_FILE)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    # The rename itself outlives a power cut only when the folder is written, too.
    sync(path.parent)
