"""Ships usage from the spools to PostgreSQL, every batch exactly once.

The open batch is closed, its sums and its number are written in one statement, and then its file is deleted. A process
that dies between the two leaves a file whose number PostgreSQL knows: shipped again, it counts nothing, and is deleted.
A lost reply of PostgreSQL is the same case. Batches of a spool are shipped in order, by the process that holds its
lock. While PostgreSQL is down the open batch grows; when its file is full the batch is closed and compacted to its
sums, so a long outage costs the disk one file of lines and a small one of sums for each full file.

A spool whose lock is free belongs to a process that is gone: the process that takes the lock ships its usage.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import structlog

from corral.domain.usage import UsageBuckets
from corral.metering import usage_spool
from corral.metering.usage_spool import LOCK, UsageBatch, UsageSpool, remove_folder, try_lock
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import usage as usage_store
from corral.store.database import Database

log = structlog.get_logger(__name__)

INTERVAL_S = 2.0
# A file that is longer is replaced by its sums.
LONG_BYTES = 64 * 1024
# How often to look for spools of other processes that have died.
LOOK_FOR_LEFTOVERS_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverSpool:
    """Folder with the usage counts of a frontend process that is gone. This process holds its lock and ships them."""

    folder: Path

    @property
    def spool_id(self) -> str:
        return self.folder.name

    def list_files(self) -> list[tuple[int, Path]]:
        """Return number and path of every batch, the oldest first. The last one may never have been closed."""
        found = ((usage_spool.parse_number(path), path) for path in self.folder.iterdir())
        return sorted((number, path) for number, path in found if number is not None)

    def forget(self, path: Path, *, is_damaged: bool) -> None:
        """Delete a file that is in PostgreSQL. A file with unreadable lines is kept beside the spools, for people."""
        if is_damaged:
            path.rename(self.folder.with_name(f"{self.spool_id}-{path.stem}.damaged"))
        else:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        remove_folder(self.folder)


def list_spool_folders(root: Path) -> list[Path]:
    """Return the spool folders of running and ended processes. A name that begins with a dot is a folder that is being
    made."""
    try:
        return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        # Our own spool would be there as well, and has reported the error.
        return []


@contextlib.contextmanager
def lock_leftover(folder: Path) -> Iterator[LeftoverSpool | None]:
    """Hold the lock of a leftover spool while the block runs; None if its process lives, or another process ships it or
    has shipped it."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, usage_spool.PRIVATE_FILE)
    except FileNotFoundError:
        yield None
        return
    try:
        yield LeftoverSpool(folder=folder) if _is_ours(lock) else None
    finally:
        os.close(lock)


def _is_ours(lock: int) -> bool:
    # Between opening and locking, the previous holder may have removed the folder.
    return try_lock(lock) and os.fstat(lock).st_nlink > 0


class ShippingStep(StrEnum):
    """Names the moments of writing usage counts to PostgreSQL at which a test may end the process."""

    CLOSED = "closed"
    COMMITTED = "committed"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageBacklog:
    """Says how much usage this frontend has counted that is not in PostgreSQL yet, and why."""

    requests: int
    # For how long nothing could be shipped; None if shipping works.
    failing_s: float | None
    # Why the disk cannot be written to: a killed process would lose the waiting usage.
    disk_trouble: str | None

    @property
    def sentences(self) -> list[str]:
        lines = []
        if self.failing_s is not None:
            lines.append(f"Usage cannot be written to PostgreSQL: the usage of {self.requests} requests is waiting.")
        if self.disk_trouble is not None:
            lines.append(
                f"Usage is counted in memory only, because the disk cannot be written to: {self.disk_trouble}."
            )
        return lines


class UsageShipper:
    """Writes counted usage from a frontend's disk into PostgreSQL, every batch exactly once.

    A service: its spool is open before the first request and shipped after the last. `tick` belongs in a loop.
    """

    name = "metering"

    def __init__(
        self,
        database: Database,
        clock: Clock,
        ids: IdGenerator,
        root: Path | None,
        *,
        on_step: Callable[[ShippingStep], None] = lambda _: None,
    ) -> None:
        """Make a shipper. `root` holds the spools of all processes of one cluster on this machine; None keeps usage in
        memory only."""
        self._database = database
        self._clock = clock
        self._root = root
        self._on_step = on_step
        self._failing_since: float | None = None
        self._looked_at: float | None = None
        self.spool_id = ids.new_id()
        self.spool = UsageSpool(root / self.spool_id if root else None, clock)

    def measure_backlog(self) -> UsageBacklog:
        since = self._failing_since
        return UsageBacklog(
            requests=self.spool.requests,
            failing_s=None if since is None else self._clock.monotonic() - since,
            disk_trouble=self.spool.problem,
        )

    def describe_problem(self) -> str | None:
        """Return a sentence about what does not work; None if all is well."""
        return " ".join(self.measure_backlog().sentences) or None

    async def start(self) -> None:
        self.spool.open()

    async def stop(self) -> None:
        """Ship what can be shipped; the rest stays on the disk for the next process."""
        self.spool.close_batch()
        outcome = await attempt(self._ship_own)
        if isinstance(outcome, AttemptFailure):
            await self._secure_on_disk()
            log.warning(
                "usage stays on disk until the next start", **asdict(self.measure_backlog()), error=outcome.sentence
            )
        self.spool.close()

    async def tick(self) -> int:
        """Run one pass, and return how many batches were counted."""
        self.spool.open()
        if not self.spool.closed:
            # Otherwise closed batches already wait for PostgreSQL, and closing more of them would not help.
            self.spool.close_batch()
        outcome = await attempt(self._ship_all)
        if isinstance(outcome, AttemptFailure):
            await self._secure_on_disk()
            raise outcome.error
        self._failing_since = None
        return outcome.value

    async def _ship_all(self) -> int:
        return await self._ship_own() + await self._ship_leftovers()

    async def _secure_on_disk(self) -> None:
        """Make sure that the disk has the usage that PostgreSQL does not accept, and that memory does not fill up."""
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        for batch in tuple(self.spool.closed):
            await self.spool.shorten(batch)
        await self.spool.sync()

    async def _ship_own(self) -> int:
        count = 0
        while self.spool.closed:
            batch = self.spool.closed[0]
            self._on_step(ShippingStep.CLOSED)
            count += await self._count(self.spool_id, batch.number, _read_batch(batch))
            self.spool.forget(batch)
            self._on_step(ShippingStep.FORGOTTEN)
        return count

    async def _ship_leftovers(self) -> int:
        now, count = self._clock.monotonic(), 0
        if self._root is None or (self._looked_at is not None and now - self._looked_at < LOOK_FOR_LEFTOVERS_S):
            return 0
        for folder in list_spool_folders(self._root):
            try:
                with lock_leftover(folder) as leftover:
                    count += await self._ship_leftover(leftover) if leftover is not None else 0
            except OSError as error:
                # A spool that cannot be read, of another user for example, must not block the others.
                log.warning("usage of an ended process cannot be read", folder=str(folder), error=str(error))
        # Set only now: if PostgreSQL fails in the middle, the rest is retried at the next pass.
        self._looked_at = now
        return count

    async def _ship_leftover(self, leftover: LeftoverSpool) -> int:
        count = 0
        for number, path in leftover.list_files():
            found = await asyncio.to_thread(_read_and_shorten, path)
            if found.damaged:
                log.error("usage on the disk is damaged", file=str(path), lines=found.damaged)
            if found.buckets:
                count += await self._count(leftover.spool_id, number, found.buckets)
            leftover.forget(path, is_damaged=found.damaged > 0)
            self._on_step(ShippingStep.FORGOTTEN)
        leftover.remove()
        log.info("usage of an ended process was taken over", spool=leftover.spool_id, batches=count)
        return count

    async def _count(self, spool_id: str, number: int, buckets: UsageBuckets) -> bool:
        async with self._database.transaction() as tx:
            is_new = await usage_store.add_batch(tx, spool_id, number, buckets)
        self._on_step(ShippingStep.COMMITTED)
        return is_new


def _read_and_shorten(path: Path) -> usage_spool.SpoolFileContent:
    """Read a leftover file, and compact a long one: while PostgreSQL is down, it is read again every few seconds."""
    found = usage_spool.read_file(path)
    if not found.damaged and path.stat().st_size > LONG_BYTES:
        usage_spool.replace_file(path, found.buckets)
    return found


def _read_batch(batch: UsageBatch) -> UsageBuckets:
    try:
        return batch.read_buckets()
    except FileNotFoundError:
        log.warning(
            "usage was removed from the disk before it was counted", file=str(batch.path), requests=batch.requests
        )
        return {}
