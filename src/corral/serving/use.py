"""Who is being served where: counted in this frontend's memory, told to the others by leases.

Guarantee: a request is counted once from the pick to its end, whichever way it ends; letting go twice counts once.
What the others say is added as long as it is fresh; when PostgreSQL is away, a frontend goes by its own numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from corral.domain.replica import Replica
from corral.ports.runtime import Clock
from corral.store import use as use_store
from corral.store.database import Database
from corral.store.use import Used

INTERVAL_S = 2.0
# Several passes may fail before anybody takes this frontend for dead.
LEASE_S = 15.0
# A replica that could not be reached is tried last for so long.
REST_S = 5.0
# Passes between two looks for rows of frontends that are long gone; about an hour.
PASSES_PER_TIDY = 1800


class Held:
    """One request at one replica. A context manager: leaving it lets go."""

    def __init__(self, use: Use, replica: Replica, node_name: str) -> None:
        self._use = use
        self._is_held = True
        self.replica = replica
        self.node_name = node_name

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._use.let_go(self.replica.id)

    def succeeded(self, seconds: float, first_byte_s: float) -> None:
        """It has answered: after so long the first byte, after so long all. What is learnt from it goes into picks."""
        del seconds, first_byte_s

    def failed(self) -> None:
        """The engine is to blame: lost, an error of its own, or no first byte in time. Busy (503) is none of these."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Use:
    def __init__(self, database: Database, clock: Clock, frontend_id: str) -> None:
        self._database = database
        self._clock = clock
        self._frontend_id = frontend_id
        self._in_flight: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._picked: dict[str, int] = {}
        self._picks = 0
        self._resting: dict[str, float] = {}
        self._others: dict[str, int] = {}
        self._others_until = 0.0
        # Used since the last pass; and what the registry has of us that is not zero.
        self._fresh: set[str] = set()
        self._told: set[str] = set()
        self._told_waiting: set[str] = set()
        self._passes = 0

    def take(self, replica: Replica, node_name: str) -> Held:
        self._picks += 1
        self._picked[replica.id] = self._picks
        self._in_flight[replica.id] += 1
        self._fresh.add(replica.id)
        return Held(self, replica, node_name)

    def let_go(self, replica_id: str) -> None:
        self._in_flight[replica_id] -= 1
        assert self._in_flight[replica_id] >= 0, f"replica {replica_id} was let go more often than taken"
        if not self._in_flight[replica_id]:
            del self._in_flight[replica_id]

    def in_flight(self, replica_id: str) -> int:
        """Over all frontends, as far as is known here."""
        others = self._others.get(replica_id, 0) if self._clock.monotonic() < self._others_until else 0
        return self._in_flight[replica_id] + others

    def own(self, replica_id: str) -> int:
        return self._in_flight[replica_id]

    def picked(self, replica_id: str) -> int:
        return self._picked.get(replica_id, 0)

    def rest(self, replica_id: str) -> None:
        """It could not be reached: others first, for a while."""
        self._resting[replica_id] = self._clock.monotonic() + REST_S

    def is_resting(self, replica_id: str) -> bool:
        return self._resting.get(replica_id, 0.0) > self._clock.monotonic()

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

    def forget_others(self, known: Collection[str]) -> None:
        """Keep what is remembered of these replicas and of no others."""
        kept = set(known) | set(self._in_flight)
        self._picked = {replica_id: number for replica_id, number in self._picked.items() if replica_id in kept}
        self._resting = {
            replica_id: until for replica_id, until in self._resting.items() if self.is_resting(replica_id)
        }

    async def tick(self) -> int:
        """Tell what this frontend does and hear what the others do; how many replicas were told of."""
        busy, fresh = dict(self._in_flight), self._fresh
        used = [
            Used(replica_id=replica_id, in_flight=busy.get(replica_id, 0), is_used=replica_id in fresh | busy.keys())
            for replica_id in sorted(busy.keys() | fresh | self._told)
        ]
        waiting = dict.fromkeys(self._told_waiting, 0) | dict(self._waiting)
        self._fresh = set()
        try:
            async with self._database.transaction() as tx:
                others = await use_store.lease(tx, self._frontend_id, LEASE_S, used, waiting)
                if self._passes % PASSES_PER_TIDY == PASSES_PER_TIDY - 1:
                    await use_store.forget(tx)
        except BaseException:
            # Told at the next pass; until then the leases that are written hold.
            self._fresh |= fresh
            raise
        self._passes += 1
        self._told, self._told_waiting = set(busy), {model for model, count in waiting.items() if count}
        self._others, self._others_until = others, self._clock.monotonic() + LEASE_S
        return len(used)

    @property
    def is_quiet(self) -> bool:
        """There is nothing to tell."""
        return not (self._in_flight or self._waiting or self._fresh or self._told or self._told_waiting)

    async def withdraw(self) -> None:
        """This frontend stops: the others need not wait for its leases to run out."""
        if self._passes:
            async with self._database.transaction() as tx:
                await use_store.withdraw(tx, self._frontend_id)
