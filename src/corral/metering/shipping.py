"""From the spools into PostgreSQL, every batch exactly once.

The open batch is closed, its sums and its number are written in one statement, and then its file goes. A process that
dies between the two leaves a file whose number PostgreSQL knows: shipped again, it counts nothing, and goes. An answer
of PostgreSQL that was lost is the same case. Batches of a spool go in their order and by whoever holds its lock.
While PostgreSQL is away the open batch grows; when its file is full it is closed and summed up, so a long outage costs
the disk one file of lines and a small one of sums for each that was full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import structlog

from corral.domain.usage import Buckets
from corral.metering import lines
from corral.metering.leftovers import Leftover, spool_folders, taken
from corral.metering.spool import Batch, Spool
from corral.ports.runtime import Clock, Ids
from corral.runtime.guard import Failed, attempt
from corral.store import usage as usage_store
from corral.store.database import Database

log = structlog.get_logger(__name__)

INTERVAL_S = 2.0
# A file that is longer is worth being replaced by its sums.
LONG_BYTES = 64 * 1024
# How often to look for spools of processes that have died beside us.
LOOK_FOR_LEFTOVERS_S = 30.0


class Step(StrEnum):
    """Where a test may end the process."""

    CLOSED = "closed"
    COMMITTED = "committed"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is counted here and not in PostgreSQL."""

    requests: int
    # For how long nothing could be brought there; None: it can.
    failing_s: float | None
    # Why the disk cannot be written to: a killed process would lose what waits.
    disk_trouble: str | None

    @property
    def sentences(self) -> list[str]:
        said = []
        if self.failing_s is not None:
            said.append(f"Usage cannot be written to PostgreSQL: that of {self.requests} requests waits.")
        if self.disk_trouble is not None:
            said.append(f"Usage is counted in memory only, because the disk cannot be written to: {self.disk_trouble}.")
        return said


class Metering:
    """A service: its spool is there before the first request, and shipped after the last. `tick` belongs in a loop."""

    name = "metering"

    def __init__(
        self,
        database: Database,
        clock: Clock,
        ids: Ids,
        root: Path | None,
        *,
        passed: Callable[[Step], None] = lambda _: None,
    ) -> None:
        """`root` holds the spools of all processes of one cluster on this machine. None: memory only."""
        self._database = database
        self._clock = clock
        self._root = root
        self._passed = passed
        self._failing_since: float | None = None
        self._looked_at: float | None = None
        self.spool_id = ids.new_id()
        self.spool = Spool(root / self.spool_id if root else None, clock)

    def waiting(self) -> Waiting:
        since = self._failing_since
        return Waiting(
            requests=self.spool.requests,
            failing_s=None if since is None else self._clock.monotonic() - since,
            disk_trouble=self.spool.trouble,
        )

    def trouble(self) -> str | None:
        """What does not work, in a sentence; None: all is well."""
        return " ".join(self.waiting().sentences) or None

    async def start(self) -> None:
        self.spool.open()

    async def stop(self) -> None:
        """What can be shipped is; the rest stays on the disk for whoever starts next."""
        self.spool.close_batch()
        outcome = await attempt(self._ship_own)
        if isinstance(outcome, Failed):
            await self._hold_on()
            log.warning("usage stays behind", **asdict(self.waiting()), error=outcome.sentence)
        self.spool.close()

    async def tick(self) -> int:
        """One pass; how many batches were counted."""
        self.spool.open()
        if not self.spool.closed:
            # Otherwise they wait for PostgreSQL, and more of them would help nobody.
            self.spool.close_batch()
        outcome = await attempt(self._ship_all)
        if isinstance(outcome, Failed):
            await self._hold_on()
            raise outcome.error
        self._failing_since = None
        return outcome.value

    async def _ship_all(self) -> int:
        return await self._ship_own() + await self._ship_leftovers()

    async def _hold_on(self) -> None:
        """PostgreSQL does not take it: see to it that the disk has it, and that memory does not fill up."""
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        for batch in tuple(self.spool.closed):
            await self.spool.shorten(batch)
        await self.spool.sync()

    async def _ship_own(self) -> int:
        count = 0
        while self.spool.closed:
            batch = self.spool.closed[0]
            self._passed(Step.CLOSED)
            count += await self._count(self.spool_id, batch.number, _read(batch))
            self.spool.forget(batch)
            self._passed(Step.FORGOTTEN)
        return count

    async def _ship_leftovers(self) -> int:
        now, count = self._clock.monotonic(), 0
        if self._root is None or (self._looked_at is not None and now - self._looked_at < LOOK_FOR_LEFTOVERS_S):
            return 0
        for folder in spool_folders(self._root):
            try:
                with taken(folder) as leftover:
                    count += await self._ship(leftover) if leftover is not None else 0
            except OSError as error:
                # One that cannot be read, of another user say, keeps nobody from the others.
                log.warning("usage of a process that is gone cannot be read", folder=str(folder), error=str(error))
        # Only now: if PostgreSQL went away in the middle, the rest is not to wait for the next look.
        self._looked_at = now
        return count

    async def _ship(self, leftover: Leftover) -> int:
        count = 0
        for number, path in leftover.files():
            found = await asyncio.to_thread(_read_and_shorten, path)
            if found.damaged:
                log.error("usage was damaged on the disk", file=str(path), lines=found.damaged)
            if found.buckets:
                count += await self._count(leftover.spool_id, number, found.buckets)
            leftover.forget(path, is_damaged=found.damaged > 0)
            self._passed(Step.FORGOTTEN)
        leftover.remove()
        log.info("usage of a process that is gone was taken over", spool=leftover.spool_id, batches=count)
        return count

    async def _count(self, spool_id: str, number: int, buckets: Buckets) -> bool:
        async with self._database.transaction() as tx:
            is_new = await usage_store.count(tx, spool_id, number, buckets)
        self._passed(Step.COMMITTED)
        return is_new


def _read_and_shorten(path: Path) -> lines.Found:
    """As long as PostgreSQL is away a leftover is read every few seconds: a long one only once."""
    found = lines.read(path)
    if not found.damaged and path.stat().st_size > LONG_BYTES:
        lines.replace(path, found.buckets)
    return found


def _read(batch: Batch) -> Buckets:
    try:
        return batch.read()
    except FileNotFoundError:
        log.warning(
            "usage was removed from the disk before it was counted", file=str(batch.path), requests=batch.requests
        )
        return {}
