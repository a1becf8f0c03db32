"""Spools of processes that are gone: their lock is free, and whoever takes it ships what they left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corral.metering import lines
from corral.metering.locks import try_lock
from corral.metering.spool import LOCK, remove_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A folder whose lock we hold."""

    folder: Path

    @property
    def spool_id(self) -> str:
        return self.folder.name

    def files(self) -> list[tuple[int, Path]]:
        """Number and path of every batch, the oldest first. The last may be one that was never closed."""
        found = ((lines.number_of(path), path) for path in self.folder.iterdir())
        return sorted((number, path) for number, path in found if number is not None)

    def forget(self, path: Path, *, is_damaged: bool) -> None:
        """It is in PostgreSQL. A file of which lines could not be read is kept beside the spools, for people."""
        if is_damaged:
            path.rename(self.folder.with_name(f"{self.spool_id}-{path.stem}.damaged"))
        else:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        remove_folder(self.folder)


def spool_folders(root: Path) -> list[Path]:
    """Those of the living and of the dead. A name that begins with a dot is one that is being made."""
    try:
        return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        # Our own spool would be there as well, and has told what is wrong.
        return []


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[Leftover | None]:
    """The leftover, ours while the block lasts; None: its process lives, or somebody else is at it or has done it."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, lines.PRIVATE_FILE)
    except FileNotFoundError:
        yield None
        return
    try:
        yield Leftover(folder=folder) if _is_ours(lock) else None
    finally:
        os.close(lock)


def _is_ours(lock: int) -> bool:
    # Between opening and locking, whoever held it may have removed the folder.
    return try_lock(lock) and os.fstat(lock).st_nlink > 0
