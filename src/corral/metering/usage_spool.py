"""The spool: usage that is not in PostgreSQL yet, in memory and, line by line, on the disk.

Guarantee: a request is in the open batch before the last byte of its response is sent, and written to the kernel when
`on_requests_ended` returns: a killed process loses nothing. A batch has a number, is closed in one step, and never
changes afterwards; `usage_shipper.py` ships it to PostgreSQL under that number and then has it forgotten. Limits: a
power cut loses the requests since the last pass (`sync`). A disk that cannot be written to fails no request: the sums
are in memory and are shipped from there, and only a kill before that loses them. The folder of a spool is locked while
its process lives. A process that gets the lock of another spool may ship its batches.

Each line of a spool's file is a JSON array with a bucket and the numbers to add to it: of one request, of many that are
alike and ended together, or the sums of a compacted file. A reader adds all lines up without a difference. A line is
written whole, so the only one that a killed process can leave half-written is the last. Any other unreadable line is
damage of the disk: it is reported, and the rest counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from corral.domain.usage import HOUR_S, ErrorOrigin, RequestRecord, UsageBucket, UsageBuckets, UsageSums
from corral.ports.runtime import Clock
from corral.runtime import disk

if sys.platform != "win32":
    import fcntl

log = structlog.get_logger(__name__)

SUFFIX = ".lines"
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
# The largest value of a column. A line with a larger one is damaged.
_LENGTHS = (64, 255, 32, 255)
_HOURS_MAX = 10_000_000
_DIGITS_MAX = 15
_NUMBERS = tuple(UsageSums.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFileContent:
    """Usage counts that a spool file on a frontend's disk contains. `damaged`: lines that could not be read."""

    buckets: UsageBuckets = field(default_factory=dict)
    damaged: int = 0


def render_line_start(bucket: UsageBucket) -> bytes:
    """Return the beginning of every line of this bucket; `render_line_end` follows."""
    return json.dumps(bucket, separators=(",", ":")).encode()[:-1]


def render_line_end(sums: UsageSums) -> bytes:
    """Return the numbers of `UsageSums` in their order, and the end of the line."""
    return b",%d,%d,%d,%d,%d,%d]\n" % (
        sums.requests,
        sums.errors,
        sums.prompt_tokens,
        sums.cached_tokens,
        sums.completion_tokens,
        sums.estimated_tokens,
    )


def render_line(bucket: UsageBucket, sums: UsageSums) -> bytes:
    return render_line_start(bucket) + render_line_end(sums)


def read_file(path: Path) -> SpoolFileContent:
    *lines, _half_written = path.read_bytes().split(b"\n")
    # Many lines begin alike, so each beginning is parsed once.
    parsed_buckets: dict[bytes, UsageBucket | None] = {}
    buckets: UsageBuckets = {}
    damaged = 0
    for line in lines:
        bucket_text, *numbers = line.removesuffix(b"]").rsplit(b",", len(_NUMBERS))
        if bucket_text not in parsed_buckets:
            parsed_buckets[bucket_text] = _parse_bucket(bucket_text)
        bucket, sums = parsed_buckets[bucket_text], _parse_numbers(numbers)
        if bucket is None or sums is None or not line.endswith(b"]"):
            damaged += 1
        else:
            buckets.setdefault(bucket, UsageSums()).add(sums)
    return SpoolFileContent(buckets=buckets, damaged=damaged)


def _parse_bucket(text: bytes) -> UsageBucket | None:
    try:
        hour, *texts = json.loads(text + b"]")
        # Older versions wrote lines without a node, and such files may still be on disks.
        key_id, model, call, node = texts if len(texts) == len(_LENGTHS) else (*texts, "")
    except (ValueError, TypeError):
        return None
    is_ours = type(hour) is int and 0 <= hour <= _HOURS_MAX and all(map(_is_text, texts, _LENGTHS))
    return (hour, key_id, model, call, node) if is_ours else None


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most and (value == "" or value.isprintable())


def _parse_numbers(numbers: list[bytes]) -> UsageSums | None:
    """Parse numbers that consist of digits only: `int` alone would accept more."""
    if len(numbers) != len(_NUMBERS) or not all(1 <= len(one) <= _DIGITS_MAX and one.isdigit() for one in numbers):
        return None
    return UsageSums(**dict(zip(_NUMBERS, map(int, numbers), strict=True)))


def replace_file(path: Path, buckets: UsageBuckets) -> None:
    """Replace the file by these sums, atomically; on return they are on the disk."""
    disk.replace(path, b"".join(render_line(bucket, sums) for bucket, sums in buckets.items()))


def parse_number(path: Path) -> int | None:
    """Return the number of a batch file; None if the name is not one of a spool."""
    return int(path.stem) if path.suffix == SUFFIX and path.stem.isascii() and path.stem.isdigit() else None


LOCK = "lock"
# A file is read as a whole after a crash. This many bytes are 150,000 requests or more, and less than a second of
# reading.
FILE_BYTES_MAX = 16 * 1024 * 1024
# Sums of one batch in memory: some 20 MB.
BUCKETS_MAX = 50_000
# The status of a request whose client disconnected.
CLIENT_LEFT = 499
# A tuple and not a set, because members of an enum are hashed by a Python function.
OUR_ORIGINS = (ErrorOrigin.ENGINE, ErrorOrigin.GATEWAY)
_NO_ORIGIN = ErrorOrigin.NONE
# How often a disk that stays full is logged.
REPORT_EVERY_S = 60.0


def is_counted(record: RequestRecord) -> bool:
    """Return whether a request counts as usage: it reached a replica, or it failed here for a known caller. Requests
    that were refused before that do not count, nor do those that a run has answered: the run's own requests do."""
    return bool(record.replica_id) or (record.status >= 500 and bool(record.key_id) and not record.run_id)


def is_error(record: RequestRecord) -> bool:
    """Return whether the request ended with an error. A client that disconnects is not one."""
    return (record.status >= 400 and record.status != CLIENT_LEFT) or record.origin in OUR_ORIGINS


@dataclass(slots=True)
class _OpenBucket:
    """Holds the sums of one bucket of the open batch, and the beginning of its lines."""

    head: bytes
    sums: UsageSums = field(default_factory=UsageSums)


@dataclass(slots=True, kw_only=True)
class UsageBatch:
    """A closed batch of usage counts on its way to PostgreSQL.

    Its sums are in memory until they are all that its file holds.
    """

    number: int
    requests: int
    buckets: UsageBuckets | None
    # Set when the sums are on the disk alone.
    path: Path | None = None

    def read_buckets(self) -> UsageBuckets:
        if self.buckets is not None:
            return self.buckets
        assert self.path is not None, "a batch is in memory or on the disk"
        return read_file(self.path).buckets


class UsageSpool:
    """Counts tokens and requests that are not in PostgreSQL yet, in a frontend's memory and on its disk.

    Implements `RequestListener`. Without a folder, or before `open`, it counts in memory only.
    """

    def __init__(self, folder: Path | None, clock: Clock, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        """Make a spool. `folder` is the spool's own; its name is the spool's id."""
        self._folder = folder
        self._clock = clock
        self._file_bytes_max = file_bytes_max
        self._lock: int | None = None
        self._file: int | None = None
        self._size_bytes = 0
        self._is_synced = True
        self._number = 1
        self._requests = 0
        self._buckets: dict[UsageBucket, _OpenBucket] = {}
        self._reported_at: float | None = None
        # Why the disk cannot be written to; None if it can.
        self.problem: str | None = None
        # Closed batches, the oldest first.
        self.closed: deque[UsageBatch] = deque()

    @property
    def requests(self) -> int:
        """Return how many requests are counted here and not in PostgreSQL."""
        return self._requests + sum(batch.requests for batch in self.closed)

    def open(self) -> None:
        """Lock the folder, write the usage counted so far, and continue on the disk. Called repeatedly: a disk that
        could not be written to is tried again, and otherwise nothing happens."""
        if self._folder is None or self._file is not None:
            return
        try:
            self._take_folder()
            if self._buckets:
                replace_file(self._path, {bucket: entry.sums for bucket, entry in self._buckets.items()})
        except OSError as error:
            self._report_disk_error(error)
            return
        self._begin_file()

    def on_requests_ended(self, *records: RequestRecord) -> None:
        # Requests that end together are mostly alike, and share a line.
        counted: UsageBuckets = {}
        for record in records:
            if not record.replica_id and not is_counted(record):
                continue
            bucket = (int(record.began_at) // HOUR_S, record.key_id, record.model, record.call, record.node_name)
            sums = counted.get(bucket)
            if sums is None:
                sums = counted[bucket] = UsageSums()
            completion = record.completion_tokens or 0
            sums.requests += 1
            if record.status >= 400 or record.origin is not _NO_ORIGIN:
                sums.errors += is_error(record)
            sums.prompt_tokens += record.prompt_tokens or 0
            sums.cached_tokens += record.cached_tokens or 0
            sums.completion_tokens += completion
            if record.is_estimated:
                sums.estimated_tokens += completion
        if counted:
            self._count(counted)

    def _count(self, came: UsageBuckets) -> None:
        written: list[bytes] = []
        for bucket, sums in came.items():
            entry = self._buckets.get(bucket)
            if entry is None:
                # A full batch is closed, with all that is counted in it.
                self._write(written)
                written = []
                entry = self._ensure_bucket(bucket)
            self._requests += sums.requests
            entry.sums.add(sums)
            written.append(entry.head + render_line_end(sums))
        self._write(written)

    def close_batch(self) -> None:
        """Close the open batch and begin the next one. No-op if nothing was counted."""
        if not self._requests:
            return
        buckets = {bucket: entry.sums for bucket, entry in self._buckets.items()}
        self.closed.append(UsageBatch(number=self._number, requests=self._requests, buckets=buckets))
        self._close_file()
        self._number += 1
        self._requests = 0
        self._buckets = {}
        self._begin_file()

    def forget(self, batch: UsageBatch) -> None:
        """Delete a batch that is in PostgreSQL."""
        oldest = self.closed.popleft()
        assert batch is oldest, "batches are forgotten in order"
        if self._lock is None:
            return
        try:
            self._make_path(batch.number).unlink(missing_ok=True)
        except OSError as error:
            # The file stays; a later reader learns from PostgreSQL that its number is counted.
            self._report_disk_error(error)

    async def shorten(self, batch: UsageBatch) -> None:
        """Replace the many lines of a batch on the disk by its sums, and drop the sums in memory."""
        if self._lock is None or batch.buckets is None:
            return
        path = self._make_path(batch.number)
        try:
            await asyncio.to_thread(replace_file, path, batch.buckets)
        except OSError as error:
            self._report_disk_error(error)
            return
        batch.path, batch.buckets = path, None
        self._report_recovery()

    async def sync(self) -> None:
        """Flush the written lines to the disk, in case the power fails."""
        if self._file is None or self._is_synced:
            return
        # A duplicate descriptor, because the batch and its file may be closed while the disk works.
        copy = os.dup(self._file)
        self._is_synced = True
        try:
            await asyncio.to_thread(os.fsync, copy)
        except OSError as error:
            self._report_disk_error(error)
        finally:
            os.close(copy)

    def close(self) -> None:
        """Close the spool: usage that is not shipped stays on the disk for the next start, an empty folder is
        removed."""
        self._close_file()
        if self._lock is not None and self._folder is not None and not self.requests:
            # A folder that cannot be removed now is removed by the process that takes it over.
            with contextlib.suppress(OSError):
                remove_folder(self._folder)
        self._release()

    @property
    def _path(self) -> Path:
        return self._make_path(self._number)

    def _make_path(self, number: int) -> Path:
        assert self._folder is not None, "there are no files without a folder"
        return self._folder / f"{number}{SUFFIX}"

    def _ensure_bucket(self, bucket: UsageBucket) -> _OpenBucket:
        if len(self._buckets) >= BUCKETS_MAX:
            if self._file is not None:
                self.close_batch()
            else:
                # Neither the disk nor PostgreSQL is writable: usage is kept by model only, without key and node.
                hour, _, model, call, _ = bucket
                bucket = (hour, "", model, call, "")
        return self._buckets.setdefault(bucket, _OpenBucket(render_line_start(bucket)))

    def _write(self, counted: list[bytes]) -> None:
        if self._file is None or not counted:
            return
        text = b"".join(counted)
        try:
            written = os.write(self._file, text)
        except OSError as error:
            self._close_file()
            self._report_disk_error(error)
            return
        self._is_synced = False
        if written < len(text):
            # A full disk may take a part of a line. Nothing may follow it, so that it is dropped as the last line.
            self._close_file()
            self._report_disk_error(OSError("the disk took half a line"))
            return
        self._size_bytes += written
        if self._size_bytes >= self._file_bytes_max:
            self.close_batch()

    def _take_folder(self) -> None:
        """Make and lock the folder under a hidden name, so that other processes find it locked."""
        assert self._folder is not None
        if self._lock is not None and self._folder.is_dir():
            return
        # The folder does not exist yet, or it was removed.
        self._release()
        hidden = self._folder.with_name(f".{self._folder.name}")
        _make_private_folder(hidden)
        lock = os.open(hidden / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            is_ours = try_lock(lock)
            assert is_ours, "no other process knows the name of this spool"
            hidden.rename(self._folder)
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def _begin_file(self) -> None:
        if self._lock is None:
            return
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
            self._size_bytes = os.fstat(self._file).st_size
        except OSError as error:
            self._close_file()
            self._report_disk_error(error)
            return
        self._report_recovery()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _report_recovery(self) -> None:
        if self.problem is not None and self._file is not None:
            log.info("usage is written to the disk again")
            self.problem = self._reported_at = None

    def _report_disk_error(self, error: OSError) -> None:
        self.problem = error.strerror or str(error)
        now = self._clock.monotonic()
        if self._reported_at is None or now - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = now
            log.warning("usage is counted in memory only: the disk cannot be written to", error=self.problem)


def _make_private_folder(folder: Path) -> None:
    """Make the folder and its missing parents, accessible to the owner only."""
    if not folder.is_dir():
        _make_private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove the folder of a spool that has nothing more to ship. The caller holds its lock."""
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
    folder.rmdir()


def try_lock(descriptor: int) -> bool:
    """Lock an open file until the descriptor is closed. Return False if another process holds the lock. Raises
    `OSError` on Windows, which has no such locks."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "spools need locks that Windows does not have")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
