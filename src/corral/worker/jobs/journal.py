"""The journal: jobs and what was seen of them, on the disk of this machine.

Guarantee: what `save` and `remember` have returned from is there after a kill or a power cut, whole. A file that
cannot be read is put aside under another name and told; it never keeps a worker from starting. Limit: the caller
bounds how many jobs there are; one writer at a time, the holder of the worker's folder.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from corral.domain.errors import Unavailable
from corral.runtime import disk
from corral.worker.jobs.record import JobRecord, Seen

log = structlog.get_logger(__name__)

T = TypeVar("T")

FOLDER = "journal"
# Put aside for whoever wants to look; more of them would only fill the disk.
MAX_DAMAGED = 20
_PRIVATE_FOLDER = 0o700
_JOBS: TypeAdapter[JobRecord] = TypeAdapter(JobRecord)
_SEEN: TypeAdapter[Seen] = TypeAdapter(Seen)


class JournalNotWritten(Unavailable):
    """The worker's journal cannot be written."""

    code = "journal_not_written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """In the order in which the jobs were accepted."""

    jobs: tuple[JobRecord, ...] = ()
    seen: Seen = field(default_factory=Seen)


class Journal(Protocol):
    """All calls come one after the other."""

    async def load(self) -> Remembered: ...

    async def save(self, record: JobRecord) -> None: ...

    async def forget(self, job_id: str) -> None: ...

    async def remember(self, seen: Seen) -> None: ...


class DiskJournal:
    def __init__(self, home: Path) -> None:
        self._root = home / FOLDER
        self._jobs = self._root / "jobs"
        self._damaged = self._root / "damaged"
        self._seen = self._root / "seen.json"

    async def load(self) -> Remembered:
        return await asyncio.to_thread(self._load)

    async def save(self, record: JobRecord) -> None:
        await asyncio.to_thread(self._write, self._path(record.job_id), _JOBS.dump_json(record, indent=1))

    async def forget(self, job_id: str) -> None:
        # Not flushed: one that comes back after a power cut is a job too many in the list, and goes again.
        await asyncio.to_thread(self._path(job_id).unlink, missing_ok=True)

    async def remember(self, seen: Seen) -> None:
        await asyncio.to_thread(self._write, self._seen, _SEEN.dump_json(seen, indent=1))

    def _path(self, job_id: str) -> Path:
        # The sender chose the id; as a file name it may be anything.
        return self._jobs / f"{hashlib.sha256(job_id.encode()).hexdigest()[:32]}.json"

    def _load(self) -> Remembered:
        try:
            for folder in (self._root, self._jobs, self._damaged):
                folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
        except OSError as error:
            raise self._not_written(self._root, error) from error
        read = [self._read(path, _JOBS) for path in sorted(self._jobs.glob("*.json"))]
        jobs = sorted((record for record in read if record is not None), key=lambda record: record.number)
        return Remembered(jobs=tuple(jobs), seen=self._read(self._seen, _SEEN) or Seen())

    def _read(self, path: Path, shape: TypeAdapter[T]) -> T | None:
        try:
            return shape.validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            self._put_aside(path, error)
            return None

    def _put_aside(self, path: Path, error: Exception) -> None:
        what = error.strerror if isinstance(error, OSError) else "it is not a whole entry of this version"
        log.warning("a file of the journal cannot be read; it is put aside", path=str(path), problem=what)
        kept = sorted(self._damaged.iterdir(), key=lambda old: old.name)
        try:
            for old in kept[: max(0, len(kept) + 1 - MAX_DAMAGED)]:
                old.unlink()
            path.replace(self._damaged / path.name)
        except OSError as problem:
            log.warning("it stays where it is", path=str(path), problem=problem.strerror)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            disk.replace(path, data)
        except OSError as error:
            raise self._not_written(path, error) from error

    def _not_written(self, path: Path, error: OSError) -> JournalNotWritten:
        return JournalNotWritten(
            f"The worker's journal cannot be written to {path}: {error.strerror}.",
            hint="The worker needs a folder that it may write to, on a disk that is not full.",
        )
