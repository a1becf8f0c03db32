"""The spool: what was used and is not in PostgreSQL yet, in memory and, line by line, on the disk.

Guarantee: a request is in the open batch before its answer's last byte goes out, and in the kernel's hands when
`answered` returns: a process that is killed loses nothing. A batch has a number, is closed in one step, and never
changes afterwards; `shipping.py` brings it to PostgreSQL under that number and then has it forgotten.
Limits: what a power cut takes is what came since the last pass (`sync`). A disk that cannot be written to fails no
request: the sums are in memory and are shipped from there, and only a kill before that loses them.
The folder of a spool is locked while its process lives. Whoever gets the lock of another one may ship what is in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.domain.answered import Answered, Origin
from corral.domain.usage import HOUR_S, Bucket, Buckets, Sums
from corral.metering import lines
from corral.metering.locks import try_lock
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)

LOCK = "lock"
# A file is read as a whole after a crash. This many bytes are 150,000 requests or more, and less than a second of
# reading.
FILE_BYTES_MAX = 16 * 1024 * 1024
# Sums of one batch in memory: some 20 MB.
BUCKETS_MAX = 50_000
# The status of a request whose client has left.
CLIENT_LEFT = 499
# No set: a member of an enum is hashed by a function in Python.
OURS = (Origin.ENGINE, Origin.GATEWAY)
_NOBODY = Origin.NOBODY
# A disk that stays full is told this often.
TELL_EVERY_S = 60.0


def is_counted(record: Answered) -> bool:
    """What reached a replica, and what of a known caller failed here. What was refused before is nobody's usage."""
    return bool(record.replica_id) or (record.status >= 500 and bool(record.key_id))


def is_error(record: Answered) -> bool:
    """A client that leaves is none."""
    return (record.status >= 400 and record.status != CLIENT_LEFT) or record.origin in OURS


@dataclass(slots=True)
class _Open:
    """A bucket of the open batch, with the beginning of its lines."""

    head: bytes
    sums: Sums = field(default_factory=Sums)


@dataclass(slots=True, kw_only=True)
class Batch:
    """Closed. Its sums are in memory until they are all that its file holds."""

    number: int
    requests: int
    buckets: Buckets | None
    # Set when they are.
    path: Path | None = None

    def read(self) -> Buckets:
        if self.buckets is not None:
            return self.buckets
        assert self.path is not None, "a batch is in memory or on the disk"
        return lines.read(self.path).buckets


class Spool:
    """A `ports.answers.Listener`. Without a folder, or before `open`, it counts in memory only."""

    def __init__(self, folder: Path | None, clock: Clock, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        """`folder` is this spool's own; its name is the spool's id."""
        self._folder = folder
        self._clock = clock
        self._file_bytes_max = file_bytes_max
        self._lock: int | None = None
        self._file: int | None = None
        self._size_bytes = 0
        self._is_synced = True
        self._number = 1
        self._requests = 0
        self._buckets: dict[Bucket, _Open] = {}
        self._told_at: float | None = None
        # Why the disk cannot be written to; None: it can.
        self.trouble: str | None = None
        # The oldest first.
        self.closed: deque[Batch] = deque()

    @property
    def requests(self) -> int:
        """How many are counted here and not in PostgreSQL."""
        return self._requests + sum(batch.requests for batch in self.closed)

    def open(self) -> None:
        """Take the folder, write down what was counted before, and go on there. Called again and again: a disk that
        could not be written to is tried anew, and otherwise nothing happens."""
        if self._folder is None or self._file is not None:
            return
        try:
            self._take_folder()
            if self._buckets:
                lines.replace(self._path, {bucket: entry.sums for bucket, entry in self._buckets.items()})
        except OSError as error:
            self._complain(error)
            return
        self._begin_file()

    def answered(self, *records: Answered) -> None:
        # What is told together is mostly alike, and is a line together.
        came: Buckets = {}
        for record in records:
            if not record.replica_id and not is_counted(record):
                continue
            bucket = (int(record.began_at) // HOUR_S, record.key_id, record.model, record.call, record.node_name)
            sums = came.get(bucket)
            if sums is None:
                sums = came[bucket] = Sums()
            completion = record.completion_tokens or 0
            sums.requests += 1
            if record.status >= 400 or record.origin is not _NOBODY:
                sums.errors += is_error(record)
            sums.prompt_tokens += record.prompt_tokens or 0
            sums.cached_tokens += record.cached_tokens or 0
            sums.completion_tokens += completion
            if record.is_estimated:
                sums.estimated_tokens += completion
        if came:
            self._count(came)

    def _count(self, came: Buckets) -> None:
        written: list[bytes] = []
        for bucket, sums in came.items():
            entry = self._buckets.get(bucket)
            if entry is None:
                # A batch that is full is closed, with all that is counted in it.
                self._write(written)
                written = []
                entry = self._enter(bucket)
            self._requests += sums.requests
            entry.sums.add(sums)
            written.append(entry.head + lines.tail(sums))
        self._write(written)

    def close_batch(self) -> None:
        """What was counted so far is a batch, and the next one begins. Nothing happens if nothing was counted."""
        if not self._requests:
            return
        buckets = {bucket: entry.sums for bucket, entry in self._buckets.items()}
        self.closed.append(Batch(number=self._number, requests=self._requests, buckets=buckets))
        self._leave_file()
        self._number += 1
        self._requests = 0
        self._buckets = {}
        self._begin_file()

    def forget(self, batch: Batch) -> None:
        """It is in PostgreSQL."""
        oldest = self.closed.popleft()
        assert batch is oldest, "batches are forgotten in their order"
        if self._lock is None:
            return
        try:
            self._file_of(batch.number).unlink(missing_ok=True)
        except OSError as error:
            # It stays, and whoever reads it some day is told that this number is counted.
            self._complain(error)

    async def shorten(self, batch: Batch) -> None:
        """Replace the many lines of a batch on the disk by its sums, and let go of those in memory."""
        if self._lock is None or batch.buckets is None:
            return
        path = self._file_of(batch.number)
        try:
            await asyncio.to_thread(lines.replace, path, batch.buckets)
        except OSError as error:
            self._complain(error)
            return
        batch.path, batch.buckets = path, None
        self._recover()

    async def sync(self) -> None:
        """Have the disk keep what was written so far, in case the power fails."""
        if self._file is None or self._is_synced:
            return
        # A copy: the batch may be closed, and its file with it, while the disk works.
        copy = os.dup(self._file)
        self._is_synced = True
        try:
            await asyncio.to_thread(os.fsync, copy)
        except OSError as error:
            self._complain(error)
        finally:
            os.close(copy)

    def close(self) -> None:
        """The end: what is not shipped stays on the disk for the next start, an empty folder goes."""
        self._leave_file()
        if self._lock is not None and self._folder is not None and not self.requests:
            # What cannot be removed now is removed by whoever takes it over.
            with contextlib.suppress(OSError):
                remove_folder(self._folder)
        self._release()

    @property
    def _path(self) -> Path:
        return self._file_of(self._number)

    def _file_of(self, number: int) -> Path:
        assert self._folder is not None, "there are no files without a folder"
        return self._folder / f"{number}{lines.SUFFIX}"

    def _enter(self, bucket: Bucket) -> _Open:
        if len(self._buckets) >= BUCKETS_MAX:
            if self._file is not None:
                self.close_batch()
            else:
                # Neither the disk nor PostgreSQL takes them: the model is kept, whose it was and where is not.
                hour, _, model, call, _ = bucket
                bucket = (hour, "", model, call, "")
        return self._buckets.setdefault(bucket, _Open(lines.head(bucket)))

    def _write(self, counted: list[bytes]) -> None:
        if self._file is None or not counted:
            return
        text = b"".join(counted)
        try:
            written = os.write(self._file, text)
        except OSError as error:
            self._leave_file()
            self._complain(error)
            return
        self._is_synced = False
        if written < len(text):
            # A full disk takes a piece. Nothing may follow it, so that it is the last line and is dropped as such.
            self._leave_file()
            self._complain(OSError("the disk took half a line"))
            return
        self._size_bytes += written
        if self._size_bytes >= self._file_bytes_max:
            self.close_batch()

    def _take_folder(self) -> None:
        """Made and locked under a name that nobody looks for: whoever finds the folder finds it locked."""
        assert self._folder is not None
        if self._lock is not None and self._folder.is_dir():
            return
        # There is none yet, or somebody has removed it.
        self._release()
        hidden = self._folder.with_name(f".{self._folder.name}")
        _make_private(hidden)
        lock = os.open(hidden / LOCK, os.O_RDWR | os.O_CREAT, lines.PRIVATE_FILE)
        try:
            is_ours = try_lock(lock)
            assert is_ours, "nobody else knows the name of this spool"
            hidden.rename(self._folder)
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def _begin_file(self) -> None:
        if self._lock is None:
            return
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, lines.PRIVATE_FILE)
            self._size_bytes = os.fstat(self._file).st_size
        except OSError as error:
            self._leave_file()
            self._complain(error)
            return
        self._recover()

    def _leave_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _recover(self) -> None:
        if self.trouble is not None and self._file is not None:
            log.info("usage is written to the disk again")
            self.trouble = self._told_at = None

    def _complain(self, error: OSError) -> None:
        self.trouble = error.strerror or str(error)
        now = self._clock.monotonic()
        if self._told_at is None or now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            log.warning("usage is counted in memory only: the disk cannot be written to", error=self.trouble)


def _make_private(folder: Path) -> None:
    """The folder and what is missing above it, closed to others."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=lines.PRIVATE_FOLDER, exist_ok=True)


def remove_folder(folder: Path) -> None:
    """What is left of a spool that has nothing more to ship. Whoever removes it holds its lock."""
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
    folder.rmdir()
