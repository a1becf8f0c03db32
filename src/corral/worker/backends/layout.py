"""Stores what is installed: names the files below the backends folder, replaces them, and reads and writes the records.

    store/<key>/            one unpacked build, never changed after it is complete; backend.json was written last
    names/<name>.json       what a name points to
    removed.json            names of removed backends
    staging/<random>/       being made; worthless after a restart
    trash/<random>/         being deleted; worthless too
    downloads/<key>.partial and .json   bytes of a download, and what they are of

All folders are closed to other users. A file is replaced in one step and is on the disk when the call returns.
Guarantee: a pointer is whole or absent, and changes in one step; this is the moment at which a backend is installed,
upgraded or rolled back. A damaged pointer is set aside and logged; it takes nothing else with it.

`InstallFailed`, the error of an installation, is here too, because every source raises it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog

from corral.domain.backend import Build, InstalledBackend
from corral.domain.errors import CorralError
from corral.policy.gallery import build_from_json, build_to_json
from corral.runtime.disk import sync
from corral.transfer.faults import TransferFailed
from corral.transfer.files import PRIVATE_FOLDER, is_half_written, write_json

RECORD = "backend.json"
# Above this number of files, one sync of the whole system is cheaper than one for each.
SYNC_FILES_MAX = 5_000


class InstallFailed(TransferFailed):
    """The backend cannot be installed on this node, and the same attempt would fail again.

    The class of a fault decides what the control plane does next: a `SourceFailed` is retried later, while a
    `TransferFailed`, such as this one, ends the attempt for good.
    """

    code = "install_failed"


def is_disk_full_message(text: str) -> bool:
    """Return whether a program's output says that the disk is full, for programs that only print what went wrong."""
    return "No space left on device" in text or "os error 28" in text


@dataclass(frozen=True, slots=True)
class BackendsLayout:
    """Computes the paths of the files and folders below a worker's engine backends folder."""

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


log = structlog.get_logger(__name__)

FORMAT = 1
REMOVED_MAX = 1_000
_NAME_BYTES_MAX = 200
_DAMAGED = ".damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBuild:
    """One build of an engine backend in a worker's folder of builds: its digest, origin and interpreter."""

    # The folder's name below store/.
    key: str
    digest: str
    # The address that the bytes really came from.
    uri: str
    build: Build
    size_bytes: int | None
    installed_at: datetime
    # The interpreter, relative to the folder; empty: the worker's own.
    python: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "key": self.key,
            "digest": self.digest,
            "uri": self.uri,
            "build": build_to_json(self.build),
            "size_bytes": self.size_bytes,
            "installed_at": self.installed_at.isoformat(),
            "python": self.python,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StoredBuild:
        size = value.get("size_bytes")
        return cls(
            key=str(value["key"]),
            digest=str(value["digest"]),
            uri=str(value["uri"]),
            build=build_from_json(value["build"]),
            size_bytes=None if size is None else int(size),
            installed_at=datetime.fromisoformat(value["installed_at"]),
            python=str(value.get("python", "")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPointer:
    """Says which stored build an engine backend's name means on this worker, and to which one a rollback returns."""

    name: str
    generation: int
    current: StoredBuild
    # The build that a rollback returns to.
    previous: StoredBuild | None = None

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(entry.key for entry in (self.current, self.previous) if entry is not None)

    def with_generation(self, generation: int) -> BackendPointer:
        """Return the pointer with the newer of both generations: a generation never goes back."""
        return replace(self, generation=max(self.generation, generation))

    def with_current(self, entry: StoredBuild, generation: int) -> BackendPointer:
        """Return the pointer to another build. The same content again is a repair and keeps the previous build for a
        rollback."""
        same = entry.digest == self.current.digest and entry.build.version == self.current.build.version
        previous = self.previous if same else self.current
        return replace(self.with_generation(generation), current=entry, previous=previous)

    @property
    def installed_backend(self) -> InstalledBackend:
        build = self.current.build
        return InstalledBackend(
            name=self.name,
            meta=build.meta,
            alias=build.alias,
            version=build.version,
            digest=self.current.digest,
            uri=self.current.uri,
            gallery=build.gallery,
            generation=self.generation,
            size_bytes=self.current.size_bytes,
            previous_version=self.previous.build.version if self.previous else "",
            installed_at=self.current.installed_at,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "generation": self.generation,
            "current": self.current.to_json(),
            "previous": [self.previous.to_json()] if self.previous else [],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackendPointer:
        previous = value.get("previous") or []
        return cls(
            name=str(value["name"]),
            generation=int(value["generation"]),
            current=StoredBuild.from_json(value["current"]),
            previous=StoredBuild.from_json(previous[0]) if previous else None,
        )


class BackendRecords:
    """Stores on the worker's disk which build each installed backend's name points to, and which were removed."""

    def __init__(self, layout: BackendsLayout) -> None:
        self._layout = layout
        self._pointers: dict[str, BackendPointer] = {}
        self._removed: dict[str, int] = {}
        self._write_lock = threading.RLock()

    def load(self) -> None:
        """Read all pointers again. Files that cannot be read are set aside."""
        found = (_read(path, BackendPointer.from_json) for path in sorted(self._layout.names.glob("*.json")))
        self._pointers = {pointer.name: pointer for pointer in found if pointer is not None}
        self._removed = _read(self._layout.removed, _parse_removed) or {}

    def remove_half_written(self) -> None:
        for folder in (self._layout.names, self._layout.root):
            for path in [found for found in folder.iterdir() if is_half_written(found)]:
                delete_tree(path)

    @property
    def pointers(self) -> Mapping[str, BackendPointer]:
        return self._pointers

    @property
    def removed(self) -> Mapping[str, int]:
        return {name: generation for name, generation in self._removed.items() if name not in self._pointers}

    @property
    def keys(self) -> frozenset[str]:
        """Return the key of every folder of the store that something points to."""
        return frozenset().union(*(pointer.keys for pointer in self._pointers.values()))

    def save(self, pointer: BackendPointer) -> None:
        with self._write_lock:
            write_json(self._make_path(pointer.name), pointer.to_json())
            self._pointers = {**self._pointers, pointer.name: pointer}
            if pointer.name in self._removed:
                self._write_removed({name: at for name, at in self._removed.items() if name != pointer.name})

    def forget(self, name: str) -> None:
        """Drop a pointer without recording a removal."""
        with self._write_lock:
            self._make_path(name).unlink(missing_ok=True)
            self._pointers = {known: pointer for known, pointer in self._pointers.items() if known != name}

    def remove(self, name: str, generation: int) -> None:
        """Record a removal. A repeated call records the newest generation, so that a lost removal can be confirmed."""
        with self._write_lock:
            self.forget(name)
            newest = max(generation, self._removed.get(name, 0))
            # The newest is last, so the oldest are dropped.
            rest = [(known, at) for known, at in self._removed.items() if known != name]
            self._write_removed(dict([*rest, (name, newest)][-REMOVED_MAX:]))

    def find_name_problem(self, name: str) -> str:
        return "its name is empty or too long" if not name or len(_make_file_name(name)) > _NAME_BYTES_MAX else ""

    def _make_path(self, name: str) -> Path:
        if problem := self.find_name_problem(name):
            raise InstallFailed(f"{name[:80]!r} cannot be a backend: {problem}.", code="bad_manifest")
        return self._layout.names / _make_file_name(name)

    def _write_removed(self, removed: dict[str, int]) -> None:
        write_json(self._layout.removed, {"format": FORMAT, "removed": removed})
        self._removed = removed


def read_stored_build(folder: Path) -> StoredBuild | None:
    """Return the record in a folder of the store; None if the folder is not complete."""
    try:
        return StoredBuild.from_json(json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, CorralError):
        return None


def _make_file_name(name: str) -> str:
    return f"{quote(name, safe='')}.json"


def _read(path: Path, parse: Any) -> Any:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        # The disk failed, not the file: the file may be readable again after the next start.
        log.warning("a record of installed backends cannot be read", path=str(path), error=str(error))
        return None
    except (ValueError, KeyError, TypeError, AttributeError, CorralError) as error:
        log.warning("a record of installed backends is damaged and set aside", path=str(path), error=repr(error))
        path.replace(path.with_name(f"{path.name}{_DAMAGED}"))
        return None


def _parse_removed(value: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(generation) for name, generation in value["removed"].items()}
