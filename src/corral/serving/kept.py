"""What a frontend serves by, kept on disk: a frontend that starts while PostgreSQL is away begins with it.

One file for each cluster, shared by all frontends of a machine. Guarantee: the file is whole or absent, closed to other
users, and on the disk when a write has returned; whatever is wrong with it, it is left alone and said once, and nothing
of it is served. Limit: it is as old as `as_of`. A key that was revoked since then, on a frontend that could not hear of
it, is still taken until PostgreSQL is back.

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

# Grows when the parts are written in another way: an older file is then of no use.
FORMAT = 1
INTERVAL_S = 2.0
# Written anew so often although nothing has changed: its age then says when PostgreSQL was heard of last.
REFRESH_S = 3600.0
PRIVATE_FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
Part = Mapping[str, Any]


class Keepable(Protocol):
    """A part of a frontend's memory. What it gives is plain data that nobody changes afterwards."""

    def to_kept(self) -> Part: ...

    def from_kept(self, kept: Part) -> None:
        """Be as it was. Any `LookupError`, `TypeError` or `ValueError` says that the data are of no use."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    as_of: datetime
    parts: Mapping[str, Part]


class Unusable(Exception):
    """Why a file is not taken."""


def cluster_key(database_url: str) -> str:
    """The same for all who use one registry; a changed user or password changes nothing."""
    place = urlsplit(database_url)
    address = place.netloc.rpartition("@")[2].lower()
    return hashlib.sha256(f"{address}{place.path}".encode()).hexdigest()[:16]


class KeptFile:
    """Both methods wait for the disk: they belong into a thread, or before anything runs."""

    def __init__(self, folder: Path, cluster: str) -> None:
        self._folder = folder
        self._cluster = cluster
        self.path = folder / f"kept-{cluster}.json"

    def write(self, as_of: datetime, parts: bytes) -> None:
        head = {"format": FORMAT, "cluster": self._cluster, "as_of": as_of.isoformat()}
        head["sha256"] = self._digest(str(head["as_of"]), parts)
        self._folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        # Made readable by its owner alone, from the first byte on.
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

    def read(self) -> Kept | None:
        """None if there is none. `Unusable` says what is wrong with the one that is there."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unusable(f"it cannot be read: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            _check_owner(os.fstat(file.fileno()))
            head, _, parts = file.read().partition(b"\n")
        return self._parsed(head, parts.removesuffix(b"\n"))

    def _parsed(self, head: bytes, parts: bytes) -> Kept:
        try:
            said = json.loads(head)
            if said["format"] != FORMAT:
                raise Unusable(f"it is of format {said['format']}, and this program reads {FORMAT}")
            if said["cluster"] != self._cluster:
                raise Unusable("it is of another cluster")
            if said["sha256"] != self._digest(said["as_of"], parts):
                raise Unusable("its checksum is wrong")
            return Kept(as_of=datetime.fromisoformat(said["as_of"]), parts=json.loads(parts))
        except (LookupError, TypeError, ValueError) as error:
            raise Unusable("it is damaged") from error

    def _digest(self, as_of: str, parts: bytes) -> str:
        return hashlib.sha256(f"{FORMAT} {self._cluster} {as_of}\n".encode() + parts).hexdigest()


class Keeper:
    """Keeps the parts as they change, and gives them back at a start."""

    def __init__(self, file: KeptFile, parts: Mapping[str, Keepable], clock: Clock, max_age_s: float) -> None:
        self._file = file
        self._parts = parts
        self._clock = clock
        self._max_age_s = max_age_s
        self._has_changed = False
        self._written = b""
        self._written_monotonic = 0.0
        self._problem = ""

    def changed(self) -> None:
        """Something was read from the registry; cheap, and told as often as one likes."""
        self._has_changed = True

    async def tick(self) -> bool:
        """Whether anything was written."""
        is_due = self._clock.monotonic() - self._written_monotonic > REFRESH_S
        if not self._has_changed and not (is_due and self._written):
            return False
        self._has_changed = False
        as_of = self._clock.wall()
        parts = {name: part.to_kept() for name, part in self._parts.items()}
        try:
            is_written = await _in_thread(lambda: self._keep(as_of, parts, is_due=is_due))
        except BaseException as error:
            self._has_changed = True
            self._problem = str(error)
            raise
        self._problem = ""
        return is_written

    def trouble(self) -> str | None:
        """What does not work, in a sentence; None: all is well."""
        if not self._problem:
            return None
        return f"What is served cannot be kept on disk for a start without PostgreSQL: {self._problem}."

    def _keep(self, as_of: datetime, parts: Mapping[str, Part], *, is_due: bool) -> bool:
        written = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()
        if written == self._written and not is_due:
            return False
        self._file.write(as_of, written)
        self._written, self._written_monotonic = written, self._clock.monotonic()
        return True

    def restore(self) -> datetime | None:
        """Fill the parts with what was kept; as of when that is. None if there is nothing that can be used."""
        try:
            kept = self._file.read()
            if kept is None:
                return None
            self._check_age(kept)
            for name, part in self._parts.items():
                part.from_kept(kept.parts[name])
        except (Unusable, LookupError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, Unusable) else "it is not what this version writes"
            log.warning("what was kept on disk is not used", file=str(self._file.path), reason=reason)
            return None
        return kept.as_of

    def _check_age(self, kept: Kept) -> None:
        age_s = (self._clock.wall() - kept.as_of).total_seconds()
        if age_s > self._max_age_s:
            raise Unusable(f"it is older than {self._max_age_s:.0f} s (it is of {kept.as_of:%Y-%m-%d %H:%M} UTC)")


def _check_owner(found: os.stat_result) -> None:
    """It holds the keys of engines and says who may ask: nobody else may have written or read it."""
    if sys.platform == "win32":
        return  # Its rights are not told by these bits.
    if found.st_uid != os.geteuid():
        raise Unusable(f"it belongs to another user (uid {found.st_uid})")
    if found.st_mode & _OTHERS:
        raise Unusable("other users may read or write it")


async def _in_thread(work: Callable[[], bool]) -> bool:
    """A thread cannot be cancelled: whoever is waits for it, so that no older write comes after a newer one."""
    working = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        working.exception()
        raise
