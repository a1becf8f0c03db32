"""Writes files that are whole or absent: written beside their place, then renamed into it.

Everything is made readable by its owner alone, from the first byte on. `durable=False` leaves out the wait for the
disk, for files that mean nothing after a power cut. `hold_file_lock` lets one process at a time replace a file.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.domain.errors import Conflict
from corral.runtime.disk import sync

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_TEMPORARY = ".new-"
# Longer than a call to a frontend may take, and short enough for a person who waits.
LOCK_WAIT_S = 30.0
_POLL_S = 0.05


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
    """Return the secret in `path`, or None if there is none. A file that others may read is closed to them first."""
    try:
        if stat.S_IMODE(path.stat().st_mode) != PRIVATE_FILE:
            path.chmod(PRIVATE_FILE)
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def ensure_secret(path: Path, prefix: str = "") -> str:
    """Return the secret in `path`, made now if it does not exist: 256 random bits, URL-safe."""
    known = read_secret(path)
    if known is not None:
        return known
    made = prefix + secrets.token_urlsafe(32)
    write_private(path, made + "\n")
    return made


@contextmanager
def hold_file_lock(path: Path, on_wait: Callable[[Path], None] = lambda _: None) -> Iterator[None]:
    """Hold the lock of this file until the block ends; `on_wait` is called if another process holds it.

    The lock is a file beside `path`, because `path` itself is replaced. Where that file cannot be made, `path` cannot
    be written either, and the block runs without a lock. Raises `Conflict` after `LOCK_WAIT_S`.
    """
    try:
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    except OSError:
        yield
        return
    try:
        _wait_for_lock(descriptor, path, on_wait)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, path: Path, on_wait: Callable[[Path], None]) -> None:
    deadline, is_first = time.monotonic() + LOCK_WAIT_S, True
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if is_first:
                on_wait(path)
            is_first = False
            if time.monotonic() > deadline:
                raise Conflict(
                    f"Another command has been replacing {path} for {LOCK_WAIT_S:.0f} seconds.",
                    hint="Wait until it has ended, then run this again.",
                    code="file_locked",
                ) from error
            time.sleep(_POLL_S)
        else:
            return


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half-written. Only the holder of the home's lock may call this."""
    for path in folder.glob(f"*{_TEMPORARY}*"):
        path.unlink(missing_ok=True)
