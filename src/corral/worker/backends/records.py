"""What is installed, as files: one pointer for each name, and the names that are gone.

Guarantee: a pointer is whole or absent, and changes in one step; this is the moment at which a backend is installed,
upgraded or rolled back. A damaged pointer is set aside and told; it takes nothing else with it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog

from corral.domain.backend import Build, InstalledBackend
from corral.domain.errors import CorralError
from corral.policy.gallery import build_from_json, build_to_json
from corral.transfer.files import is_half_written, write_json
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.layout import RECORD, Layout, delete_tree

log = structlog.get_logger(__name__)

FORMAT = 1
REMOVED_MAX = 1_000
_NAME_BYTES_MAX = 200
_DAMAGED = ".damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One build in the store, as a name points to it."""

    # The folder's name below store/.
    key: str
    digest: str
    # Where the bytes really came from.
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
    def from_json(cls, value: Mapping[str, Any]) -> Entry:
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
class Pointer:
    name: str
    generation: int
    current: Entry
    # What a rollback goes to.
    previous: Entry | None = None

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(entry.key for entry in (self.current, self.previous) if entry is not None)

    def at(self, generation: int) -> Pointer:
        """A generation never goes back: an older command has nothing to say any more."""
        return replace(self, generation=max(self.generation, generation))

    def with_current(self, entry: Entry, generation: int) -> Pointer:
        """The same content again is a repair, and no reason to forget what was there before it."""
        same = entry.digest == self.current.digest and entry.build.version == self.current.build.version
        previous = self.previous if same else self.current
        return replace(self.at(generation), current=entry, previous=previous)

    @property
    def described(self) -> InstalledBackend:
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
    def from_json(cls, value: Mapping[str, Any]) -> Pointer:
        previous = value.get("previous") or []
        return cls(
            name=str(value["name"]),
            generation=int(value["generation"]),
            current=Entry.from_json(value["current"]),
            previous=Entry.from_json(previous[0]) if previous else None,
        )


class Records:
    """In memory and on the disk the same; the disk is written first. Threads may write, one at a time; what was read
    stays as it was."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._pointers: dict[str, Pointer] = {}
        self._removed: dict[str, int] = {}
        self._writing = threading.RLock()

    def load(self) -> None:
        """Read everything anew. What cannot be read is set aside."""
        found = (_read(path, Pointer.from_json) for path in sorted(self._layout.names.glob("*.json")))
        self._pointers = {pointer.name: pointer for pointer in found if pointer is not None}
        self._removed = _read(self._layout.removed, _removed_from_json) or {}

    def sweep(self) -> None:
        for folder in (self._layout.names, self._layout.root):
            for path in [found for found in folder.iterdir() if is_half_written(found)]:
                delete_tree(path)

    @property
    def pointers(self) -> Mapping[str, Pointer]:
        return self._pointers

    @property
    def removed(self) -> Mapping[str, int]:
        return {name: generation for name, generation in self._removed.items() if name not in self._pointers}

    @property
    def keys(self) -> frozenset[str]:
        """Every folder of the store that something points to."""
        return frozenset().union(*(pointer.keys for pointer in self._pointers.values()))

    def save(self, pointer: Pointer) -> None:
        with self._writing:
            write_json(self._path(pointer.name), pointer.to_json())
            self._pointers = {**self._pointers, pointer.name: pointer}
            if pointer.name in self._removed:
                self._write_removed({name: at for name, at in self._removed.items() if name != pointer.name})

    def forget(self, name: str) -> None:
        """Drop a pointer without a word about it."""
        with self._writing:
            self._path(name).unlink(missing_ok=True)
            self._pointers = {known: pointer for known, pointer in self._pointers.items() if known != name}

    def remove(self, name: str, generation: int) -> None:
        """Repeating it writes the newest generation down, so that a removal that was lost can be confirmed."""
        with self._writing:
            self.forget(name)
            newest = max(generation, self._removed.get(name, 0))
            # The newest is last: the oldest fall out.
            others = [(known, at) for known, at in self._removed.items() if known != name]
            self._write_removed(dict([*others, (name, newest)][-REMOVED_MAX:]))

    def path_problem(self, name: str) -> str:
        return "its name is empty or too long" if not name or len(_file_name(name)) > _NAME_BYTES_MAX else ""

    def _path(self, name: str) -> Path:
        if problem := self.path_problem(name):
            raise InstallFailed(f"{name[:80]!r} cannot be a backend: {problem}.", code="bad_manifest")
        return self._layout.names / _file_name(name)

    def _write_removed(self, removed: dict[str, int]) -> None:
        write_json(self._layout.removed, {"format": FORMAT, "removed": removed})
        self._removed = removed


def read_entry(folder: Path) -> Entry | None:
    """What a folder of the store says of itself; None if it is not complete."""
    try:
        return Entry.from_json(json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, CorralError):
        return None


def _file_name(name: str) -> str:
    return f"{quote(name, safe='')}.json"


def _read(path: Path, parse: Any) -> Any:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        # The disk, not the file: it may be readable again after the next start.
        log.warning("a record of installed backends cannot be read", path=str(path), error=str(error))
        return None
    except (ValueError, KeyError, TypeError, AttributeError, CorralError) as error:
        log.warning("a record of installed backends is damaged and set aside", path=str(path), error=repr(error))
        path.replace(path.with_name(f"{path.name}{_DAMAGED}"))
        return None


def _removed_from_json(value: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(generation) for name, generation in value["removed"].items()}
