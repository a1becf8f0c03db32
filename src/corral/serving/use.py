"""Who is being served where: counted in this frontend's memory (`seats.py`), told to the others by leases.

What the others say is added as long as it is fresh; when PostgreSQL is away, a frontend goes by its own numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from corral.ports.runtime import Clock
from corral.serving.seats import Held, Seats
from corral.store import use as use_store
from corral.store.database import Database
from corral.store.use import Used

__all__ = ("INTERVAL_S", "LEASE_S", "Held", "Use")

INTERVAL_S = 2.0
# Several passes may fail before anybody takes this frontend for dead.
LEASE_S = 15.0
# Passes between two looks for rows of frontends that are long gone; about an hour.
PASSES_PER_TIDY = 1800


class Use:
    def __init__(self, database: Database, clock: Clock, frontend_id: str, seats: Seats) -> None:
        self._database = database
        self._clock = clock
        self._frontend_id = frontend_id
        self._seats = seats
        self._waiting: Counter[str] = Counter()
        # Until when what the others said holds.
        self._others_until = 0.0
        # What the registry has of us that is not zero.
        self._told: set[str] = set()
        self._told_waiting: set[str] = set()
        self._passes = 0

    def in_flight(self, replica_id: str) -> int:
        """Over all frontends, as far as is known here."""
        seat = self._seats.find(replica_id)
        return seat.own + seat.others if seat else 0

    def own(self, replica_id: str) -> int:
        seat = self._seats.find(replica_id)
        return seat.own if seat else 0

    def busy(self) -> dict[str, int]:
        """The requests of this frontend, by replica."""
        return {seat.replica.id: seat.own for seat in self._seats if seat.own}

    @contextmanager
    def waiting(self, model: str) -> Iterator[None]:
        """A request waits for a model: what scaling looks at."""
        self._waiting[model] += 1
        try:
            yield
        finally:
            self._waiting[model] -= 1
            if not self._waiting[model]:
                del self._waiting[model]

    async def tick(self) -> int:
        """Tell what this frontend does and hear what the others do; how many replicas were told of."""
        busy, fresh = self.busy(), self._forget_fresh()
        used = [
            Used(replica_id=replica_id, in_flight=busy.get(replica_id, 0), is_used=replica_id in fresh | busy.keys())
            for replica_id in sorted(busy.keys() | fresh | self._told)
        ]
        waiting = dict.fromkeys(self._told_waiting, 0) | dict(self._waiting)
        try:
            async with self._database.transaction() as tx:
                others = await use_store.lease(tx, self._frontend_id, LEASE_S, used, waiting)
                if self._passes % PASSES_PER_TIDY == PASSES_PER_TIDY - 1:
                    await use_store.forget(tx)
        except BaseException:
            # Told at the next pass; until then the leases that are written hold.
            self._remember_fresh(fresh)
            if self._clock.monotonic() >= self._others_until:
                self._seats.hear({})
            raise
        self._passes += 1
        self._told, self._told_waiting = set(busy), {model for model, count in waiting.items() if count}
        self._others_until = self._clock.monotonic() + LEASE_S
        self._seats.hear(others)
        return len(used)

    @property
    def is_quiet(self) -> bool:
        """There is nothing to tell."""
        is_used = any(seat.own or seat.is_used for seat in self._seats)
        return not (is_used or self._waiting or self._told or self._told_waiting)

    async def withdraw(self) -> None:
        """This frontend stops: the others need not wait for its leases to run out."""
        if self._passes:
            async with self._database.transaction() as tx:
                await use_store.withdraw(tx, self._frontend_id)

    def _forget_fresh(self) -> set[str]:
        fresh = {seat.replica.id for seat in self._seats if seat.is_used}
        for seat in self._seats:
            seat.is_used = False
        return fresh

    def _remember_fresh(self, replica_ids: set[str]) -> None:
        for replica_id in replica_ids:
            seat = self._seats.find(replica_id)
            if seat is not None:
                seat.is_used = True
