"""Names the files below the backends folder, replaces files there, and has the error of an installation.

    store/<key>/            one unpacked build, never changed after it is complete; backend.json was written last
    names/<name>.json       what a name points to; written by `records.py`
    removed.json            names of removed backends
    staging/<random>/       being made; worthless after a restart
    trash/<random>/         being deleted; worthless too
    downloads/<key>.partial and .json   bytes of a download, and what they are of

All folders are closed to other users. A file is replaced in one step and is on the disk when the call returns.
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
from corral.transfer.faults import TransferFailed
from corral.transfer.files import PRIVATE_FOLDER

RECORD = "backend.json"
# Above this number of files, one sync of the whole system is cheaper than one for each.
SYNC_FILES_MAX = 5_000


class InstallFailed(TransferFailed):
    """The backend cannot be installed.

    The class of a fault decides what the control plane does next: a `SourceFailed` is retried later, a
    `TransferFailed` ends the attempt for good, and an `InstallFailed` is one of these.
    """

    code = "install_failed"


def is_disk_full_message(text: str) -> bool:
    """Whether a program's output says that the disk is full, for programs that only print what went wrong."""
    return "No space left on device" in text or "os error 28" in text


@dataclass(frozen=True, slots=True)
class BackendsLayout:
    """Names the files and folders below the backends folder."""

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

    def make_folders(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        for folder in (self.store, self.names, self.staging, self.trash, self.downloads):
            folder.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)


def read_folder_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode, which tell a folder from another one put in its place later; None if there is no
    folder."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sync_tree(folder: Path) -> None:
    """Flush everything below a folder to the disk, so that it is there after a power cut."""
    files = [entry for entry in iterate_tree(folder) if stat.S_ISREG(entry.lstat().st_mode)]
    if len(files) > SYNC_FILES_MAX:
        os.sync()
        return
    for path in (*files, folder):
        sync(path)


def iterate_tree(folder: Path) -> Iterator[Path]:
    """Yield every file, link and folder below, without following links."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent) / name


def measure_size(folder: Path) -> int:
    """Return the bytes that a folder occupies; files with several names count once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in iterate_tree(folder):
        try:
            found = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            total += found.st_size
    return total


def delete_tree(path: Path) -> None:
    """Delete a folder or a file if it exists, also a folder with write-protected folders in it."""

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
