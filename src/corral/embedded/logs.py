"""One log file per child, bounded.

Children write to their file themselves, opened for appending, so they outlive the supervisor without losing a line.
A file that has grown too large is copied to `<name>.log.1` and emptied; lines written during the copy may be lost.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

from corral.embedded.files import PRIVATE_FILE

MAX_LOG_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 16 * 1024


def open_log(path: Path, max_bytes: int = MAX_LOG_BYTES) -> BinaryIO:
    """The log for a child that is about to start; one that is too large is set aside first."""
    shorten_log(path, max_bytes)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE), "ab", buffering=0)


def shorten_log(path: Path, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Keep the newest `max_bytes` aside and empty the file in place: its writers go on with the same descriptor."""
    try:
        if path.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    aside = path.with_name(path.name + ".1")
    with path.open("rb") as source:
        source.seek(-max_bytes, os.SEEK_END)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as target:
            shutil.copyfileobj(source, target)
    os.truncate(path, 0)
    return True


def tail_log(path: Path, lines: int = 12) -> list[str]:
    """The last lines, for a person's eyes."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]
