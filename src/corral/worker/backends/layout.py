"""Where things are below the backends folder, and how files there are replaced.

    store/<key>/            one unpacked build, never changed after it is complete; backend.json was written last
    names/<name>.json       what a name points to; written by `records.py`
    removed.json            names that are gone
    staging/<random>/       being made; worthless after a restart
    trash/<random>/         being deleted; worthless too
    downloads/<key>.partial and .json   bytes of a download, and what they are of

All of it is closed to others. A file is replaced in one step and is on the disk when that returns.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.runtime.disk import sync
from corral.transfer.files import PRIVATE_FOLDER

RECORD = "backend.json"
# Above this number of files, one sync of the whole system is cheaper than one for each.
SYNC_FILES_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def names(self) -> Path:
        return self.root / "names"

    @property
    def removed(self) -> Path:
        return self.root / "removed.json"

    @property
    def staging(self) -> Path:
        return self.root / "staging"

    @property
    def trash(self) -> Path:
        return self.root / "trash"

    @property
    def downloads(self) -> Path:
        return self.root / "downloads"

    def make(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        for folder in (self.store, self.names, self.staging, self.trash, self.downloads):
            folder.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)


def identity_of(path: Path) -> tuple[int, int] | None:
    """What tells one folder from another that was put in its place later; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sync_tree(folder: Path) -> None:
    """Everything below is on the disk when this returns, also after a power cut."""
    files = [entry for entry in walk(folder) if stat.S_ISREG(entry.lstat().st_mode)]
    if len(files) > SYNC_FILES_MAX:
        os.sync()
        return
    for path in (*files, folder):
        sync(path)


def walk(folder: Path) -> Iterator[Path]:
    """Every file, link and folder below, links not followed."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent) / name


def size_of(folder: Path) -> int:
    """What a folder occupies, files with several names counted once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in walk(folder):
        try:
            found = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            total += found.st_size
    return total


def delete_tree(path: Path) -> None:
    """A folder or a file, whether it is there or not, also when it has folders that nobody may write to."""

    def open_up(_function: Any, name: str, _why: Any) -> None:
        parent = Path(name).parent
        parent.chmod(PRIVATE_FOLDER)
        if Path(name).is_dir() and not Path(name).is_symlink():
            Path(name).chmod(PRIVATE_FOLDER)
            shutil.rmtree(name)
        else:
            Path(name).unlink(missing_ok=True)

    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    elif path.exists():
        shutil.rmtree(path, onerror=open_up)


def delete_trees(paths: Iterable[Path]) -> None:
    for path in paths:
        delete_tree(path)
