"""Files that are whole or absent: written beside their place, then renamed into it.

Everything is made readable by its owner alone, from the first byte on. `durable=False` leaves out the wait for the
disk, for files that mean nothing after a power cut.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from corral.runtime.disk import sync

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_TEMPORARY = ".new-"


def write_private(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace `path` by `text` in one step; a reader sees the old text or the new one."""
    temporary = path.with_name(f"{path.name}{_TEMPORARY}{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) != PRIVATE_FOLDER:
        folder.chmod(PRIVATE_FOLDER)


def read_secret(path: Path) -> str | None:
    """The secret in `path`, or None if there is none. A file that others may read is closed to them first."""
    try:
        if stat.S_IMODE(path.stat().st_mode) != PRIVATE_FILE:
            path.chmod(PRIVATE_FILE)
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def ensure_secret(path: Path, prefix: str = "") -> str:
    """The secret in `path`, made now if it is not there: 256 random bits, URL-safe."""
    known = read_secret(path)
    if known is not None:
        return known
    made = prefix + secrets.token_urlsafe(32)
    write_private(path, made + "\n")
    return made


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half-written. Only the holder of the home's lock may call this."""
    for path in folder.glob(f"*{_TEMPORARY}*"):
        path.unlink(missing_ok=True)
