"""The journal: jobs and the command fence, on the disk of this machine.

Guarantee: what `save` and `save_fence` have written is there after a kill or a power cut, whole. A file that cannot be
read is put aside under another name and logged; it never keeps a worker from starting. Limit: the caller bounds how
many jobs there are; one writer at a time, the holder of the worker's folder.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from corral.bus.messages import BackendCommand, JobEvent, LoadModel, StageModel, StartBackend
from corral.domain.errors import Unavailable
from corral.runtime import disk

log = structlog.get_logger(__name__)
T = TypeVar("T")
FOLDER = "journal"
# Damaged files are kept up to this number, for inspection; more would only fill the disk.
MAX_DAMAGED = 20
_PRIVATE_FOLDER = 0o700
JobCommand = BackendCommand | StartBackend | LoadModel | StageModel


class JobKind(StrEnum):
    """Kinds of a worker's jobs: change or start an engine backend, load a model's replica, or fetch a model's files."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    DELETE = "delete"
    START = "start"
    LOAD = "load"  # one replica of a model: its backend, its files, its process
    STAGE = "stage"  # the files of a model

    @property
    def needs_build(self) -> bool:
        return self in (JobKind.INSTALL, JobKind.UPGRADE)

    @property
    def is_change(self) -> bool:
        """Return whether the job changes a backend, and so has a generation."""
        return self in (JobKind.INSTALL, JobKind.UPGRADE, JobKind.ROLLBACK, JobKind.DELETE)


class JobStopReason(StrEnum):
    """Reasons why a worker ends a job before it is done: cancelled, paused, or replaced by a newer command."""

    CANCEL = "cancel"
    PAUSE = "pause"
    REPLACE = "replace"  # a newer command wants something else of the same backend


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A worker's job as stored in its journal on disk: command, latest event, and what a restart needs to resume it."""

    kind: JobKind
    # The kind of command follows from its fields alone; the journal relies on it.
    command: JobCommand
    # The concrete name, as it was resolved when the job was accepted; empty if it is about files only.
    backend: str
    event: JobEvent
    # No event of this process has a larger number; the next process goes on from here.
    reserved_seq: int
    # The order in which jobs were accepted.
    number: int
    stop: JobStopReason | None = None
    keeps_partial: bool = False
    # How often a worker has begun the job; one that takes the worker down with it must not do so for ever.
    lives: int = 1

    @property
    def job_id(self) -> str:
        return self.command.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFence:
    """What a worker refuses late bus commands by: newest generation of each engine backend, and jobs cancelled early.

    All of it belongs to one node. A machine that becomes another node, perhaps of another cluster, starts without it.
    """

    node_id: str | None = None
    # The newest generation of each concrete backend.
    generations: Mapping[str, int] = field(default_factory=dict)
    # Jobs that were cancelled before they came; True if they were paused.
    cancelled: Mapping[str, bool] = field(default_factory=dict)


_JOB_ADAPTER: TypeAdapter[JobRecord] = TypeAdapter(JobRecord)
_FENCE_ADAPTER: TypeAdapter[CommandFence] = TypeAdapter(CommandFence)


class JournalNotWritten(Unavailable):
    """The worker's journal of jobs cannot be written to its disk."""

    code = "journal_not_written"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContents:
    """What a worker's journal of jobs contained when it was loaded: jobs in order of acceptance, and the fence."""

    jobs: tuple[JobRecord, ...] = ()
    fence: CommandFence = field(default_factory=CommandFence)


class JobJournal(Protocol):
    """Interface that stores a worker's jobs so that they survive its process. Calls come one after the other."""

    async def load(self) -> JournalContents: ...

    async def save(self, record: JobRecord) -> None: ...

    async def forget(self, job_id: str) -> None: ...

    async def save_fence(self, fence: CommandFence) -> None: ...


class DiskJobJournal:
    """Stores a worker's jobs and its command fence as files in the worker's home. Implements `JobJournal`."""

    def __init__(self, home: Path) -> None:
        self._root = home / FOLDER
        self._jobs_folder = self._root / "jobs"
        self._damaged_folder = self._root / "damaged"
        self._fence_path = self._root / "seen.json"

    async def load(self) -> JournalContents:
        return await asyncio.to_thread(self._load)

    async def save(self, record: JobRecord) -> None:
        await asyncio.to_thread(self._write, self._make_path(record.job_id), _JOB_ADAPTER.dump_json(record, indent=1))

    async def forget(self, job_id: str) -> None:
        # Not flushed: a file that comes back after a power cut is one job too many in the list, and is removed again.
        await asyncio.to_thread(self._make_path(job_id).unlink, missing_ok=True)

    async def save_fence(self, fence: CommandFence) -> None:
        await asyncio.to_thread(self._write, self._fence_path, _FENCE_ADAPTER.dump_json(fence, indent=1))

    def _make_path(self, job_id: str) -> Path:
        # The sender chose the id, so it may not be usable as a file name.
        return self._jobs_folder / f"{hashlib.sha256(job_id.encode()).hexdigest()[:32]}.json"

    def _load(self) -> JournalContents:
        try:
            for folder in (self._root, self._jobs_folder, self._damaged_folder):
                folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
        except OSError as error:
            raise self._make_not_written_error(self._root, error) from error
        read = [self._read(path, _JOB_ADAPTER) for path in sorted(self._jobs_folder.glob("*.json"))]
        jobs = sorted((record for record in read if record is not None), key=lambda record: record.number)
        return JournalContents(jobs=tuple(jobs), fence=self._read(self._fence_path, _FENCE_ADAPTER) or CommandFence())

    def _read(self, path: Path, shape: TypeAdapter[T]) -> T | None:
        try:
            return shape.validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            self._put_aside(path, error)
            return None

    def _put_aside(self, path: Path, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else "it is not a whole entry of this version"
        log.warning("a file of the journal cannot be read; it is put aside", path=str(path), problem=reason)
        kept = sorted(self._damaged_folder.iterdir(), key=lambda old: old.name)
        try:
            for old in kept[: max(0, len(kept) + 1 - MAX_DAMAGED)]:
                old.unlink()
            path.replace(self._damaged_folder / path.name)
        except OSError as problem:
            log.warning("it stays where it is", path=str(path), problem=problem.strerror)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            disk.replace(path, data)
        except OSError as error:
            raise self._make_not_written_error(path, error) from error

    def _make_not_written_error(self, path: Path, error: OSError) -> JournalNotWritten:
        return JournalNotWritten(
            f"The worker's journal cannot be written to {path}: {error.strerror}.",
            hint="The worker needs a folder that it may write to, on a disk that is not full.",
        )
