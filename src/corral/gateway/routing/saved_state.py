"""Saves the state that a frontend serves from on disk, for a start while PostgreSQL is down.

One file per cluster, shared by all frontends of a machine. Guarantees: the file is complete or absent, readable by its
owner only, and on the disk when a write has returned; a file with any fault is left alone, reported once, and not used.
Limit: the state is as old as `as_of`. A key that was revoked since then, while this frontend could not learn of it, is
still accepted until PostgreSQL is back.

    first line    {"format", "cluster", "as_of", "sha256"}      second line    the parts, each as its owner wrote it
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog

from corral.ports.runtime import Clock
from corral.runtime.disk import sync

log = structlog.get_logger(__name__)

# Raised when the format of the parts changes, which makes older files unusable.
FORMAT = 1
INTERVAL_S = 2.0
# Rewritten at this interval even without changes, so that its age says when PostgreSQL was last reachable.
REFRESH_S = 3600.0
PRIVATE_FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
StatePart = Mapping[str, Any]


class StateOwner(Protocol):
    """Interface of a part of a frontend's memory that is saved on disk as plain data and restored from it."""

    def to_saved_state(self) -> StatePart: ...

    def from_saved_state(self, state: StatePart) -> None:
        """Restore the state. Raises `LookupError`, `TypeError` or `ValueError` if the data is invalid."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """The parts of a frontend's memory that were read from a `SavedStateFile`, and as of when they are."""

    as_of: datetime
    parts: Mapping[str, StatePart]


class SavedStateUnusable(Exception):
    """Raised when a frontend's saved state file must not be used; the message says why."""


def compute_cluster_key(database_url: str) -> str:
    """Return a key that is the same for all users of one registry, whatever their user name and password."""
    parts = urlsplit(database_url)
    address = parts.netloc.rpartition("@")[2].lower()
    return hashlib.sha256(f"{address}{parts.path}".encode()).hexdigest()[:16]


class SavedStateFile:
    """Reads and writes the file from which a frontend serves when it starts without PostgreSQL.

    Both methods wait for the disk.
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        self._folder = folder
        self._cluster = cluster
        self.path = folder / f"kept-{cluster}.json"

    def write(self, as_of: datetime, parts: bytes) -> None:
        head = {"format": FORMAT, "cluster": self._cluster, "as_of": as_of.isoformat()}
        head["sha256"] = self._compute_digest(str(head["as_of"]), parts)
        self._folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        # Readable by its owner alone, from the first byte on.
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(head).encode() + b"\n" + parts + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync(self._folder)

    def read(self) -> SavedState | None:
        """Return the saved state, or None if there is no file. Raises `SavedStateUnusable` with the reason if the file
        must not be used."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SavedStateUnusable(f"it cannot be read: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            _check_owner(os.fstat(file.fileno()))
            head, _, parts = file.read().partition(b"\n")
        return self._parse(head, parts.removesuffix(b"\n"))

    def _parse(self, head: bytes, parts: bytes) -> SavedState:
        try:
            header = json.loads(head)
            if header["format"] != FORMAT:
                raise SavedStateUnusable(f"it is of format {header['format']}, and this program reads {FORMAT}")
            if header["cluster"] != self._cluster:
                raise SavedStateUnusable("it is of another cluster")
            if header["sha256"] != self._compute_digest(header["as_of"], parts):
                raise SavedStateUnusable("its checksum is wrong")
            return SavedState(as_of=datetime.fromisoformat(header["as_of"]), parts=json.loads(parts))
        except (LookupError, TypeError, ValueError) as error:
            raise SavedStateUnusable("it is damaged") from error

    def _compute_digest(self, as_of: str, parts: bytes) -> str:
        return hashlib.sha256(f"{FORMAT} {self._cluster} {as_of}\n".encode() + parts).hexdigest()


class StateSaver:
    """Saves parts of a frontend's memory on disk as they change, to restore them at a start without PostgreSQL."""

    def __init__(self, file: SavedStateFile, parts: Mapping[str, StateOwner], clock: Clock, max_age_s: float) -> None:
        self._file = file
        self._parts = parts
        self._clock = clock
        self._max_age_s = max_age_s
        self._has_changed = False
        self._written = b""
        self._written_monotonic = 0.0
        self._problem = ""

    def mark_changed(self) -> None:
        """Note that the registry was read. Cheap enough to be called at any rate."""
        self._has_changed = True

    async def tick(self) -> bool:
        """Save the state if it is due. Return whether anything was written."""
        is_due = self._clock.monotonic() - self._written_monotonic > REFRESH_S
        if not self._has_changed and not (is_due and self._written):
            return False
        self._has_changed = False
        as_of = self._clock.wall()
        parts = {name: part.to_saved_state() for name, part in self._parts.items()}
        try:
            is_written = await _run_in_thread(lambda: self._write(as_of, parts, is_due=is_due))
        except BaseException as error:
            self._has_changed = True
            self._problem = str(error)
            raise
        self._problem = ""
        return is_written

    def describe_problem(self) -> str | None:
        """Return a sentence about what does not work; None if all is well."""
        if not self._problem:
            return None
        return f"The state for a start without PostgreSQL cannot be saved on disk: {self._problem}."

    def _write(self, as_of: datetime, parts: Mapping[str, StatePart], *, is_due: bool) -> bool:
        written = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()
        if written == self._written and not is_due:
            return False
        self._file.write(as_of, written)
        self._written, self._written_monotonic = written, self._clock.monotonic()
        return True

    def restore(self) -> datetime | None:
        """Restore the parts from the file, and return the time of its state. None if there is no usable file."""
        try:
            kept = self._file.read()
            if kept is None:
                return None
            self._check_age(kept)
            for name, part in self._parts.items():
                part.from_saved_state(kept.parts[name])
        except (SavedStateUnusable, LookupError, TypeError, ValueError) as error:
            reason = (
                str(error) if isinstance(error, SavedStateUnusable) else "this version does not write files like it"
            )
            log.warning("saved state is not used", file=str(self._file.path), reason=reason)
            return None
        return kept.as_of

    def _check_age(self, state: SavedState) -> None:
        age_s = (self._clock.wall() - state.as_of).total_seconds()
        if age_s > self._max_age_s:
            raise SavedStateUnusable(
                f"it is older than {self._max_age_s:.0f} s (it is of {state.as_of:%Y-%m-%d %H:%M} UTC)"
            )


def _check_owner(found: os.stat_result) -> None:
    """Check that no other user may have read or written the file: it holds the keys of engines and says who has
    access."""
    if sys.platform == "win32":
        return  # On this system the mode bits do not describe the access rights.
    if found.st_uid != os.geteuid():
        raise SavedStateUnusable(f"it belongs to another user (uid {found.st_uid})")
    if found.st_mode & _OTHERS:
        raise SavedStateUnusable("other users may read or write it")


async def _run_in_thread(work: Callable[[], bool]) -> bool:
    """Run `work` in a thread and wait for it even when cancelled, because a thread cannot be cancelled and no older
    write may follow a newer one."""
    working = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        working.exception()
        raise
