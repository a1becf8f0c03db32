"""Counts the requests in flight at each replica (`replica_pool.py`) and shares the counts between frontends by leases.

The counts of other frontends are added while they are fresh; when PostgreSQL is down, a frontend uses its own counts
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from corral.gateway.routing.replica_pool import ReplicaCheckout, ReplicaPools
from corral.ports.runtime import Clock
from corral.store import replica_use as use_store
from corral.store.database import Database
from corral.store.replica_use import ReplicaUse

__all__ = ("INTERVAL_S", "LEASE_S", "InFlightLeases", "ReplicaCheckout")

INTERVAL_S = 2.0
# Several passes may fail before other frontends take this one for dead.
LEASE_S = 15.0
# Passes between two deletions of the rows of dead frontends; about an hour.
PASSES_PER_CLEANUP = 1800


class InFlightLeases:
    """Shares the numbers of open requests at each replica between frontends, through PostgreSQL."""

    def __init__(self, database: Database, clock: Clock, frontend_id: str, pools: ReplicaPools) -> None:
        self._database = database
        self._clock = clock
        self._frontend_id = frontend_id
        self._pools = pools
        self._waiting: Counter[str] = Counter()
        # Until when the counts of other frontends are fresh.
        self._others_until = 0.0
        # This frontend's counts in the registry that are not zero.
        self._reported_ids: set[str] = set()
        self._reported_waiting: set[str] = set()
        self._passes = 0

    def count_in_flight(self, replica_id: str) -> int:
        """Return the requests in flight at a replica over all frontends, as far as this one knows."""
        routable = self._pools.find(replica_id)
        return routable.in_flight_here + routable.in_flight_elsewhere if routable else 0

    def count_own_by_replica(self) -> dict[str, int]:
        """Return this frontend's requests in flight, by replica."""
        return {routable.replica.id: routable.in_flight_here for routable in self._pools if routable.in_flight_here}

    @contextmanager
    def count_waiting(self, model: str) -> Iterator[None]:
        """Count a request as waiting for a model while the block runs. Scaling uses this count."""
        self._waiting[model] += 1
        try:
            yield
        finally:
            self._waiting[model] -= 1
            if not self._waiting[model]:
                del self._waiting[model]

    async def tick(self) -> int:
        """Report this frontend's counts and read those of the others. Return how many replicas were reported."""
        busy, fresh = self.count_own_by_replica(), self._clear_used()
        used = [
            ReplicaUse(
                replica_id=replica_id, in_flight=busy.get(replica_id, 0), is_used=replica_id in fresh | busy.keys()
            )
            for replica_id in sorted(busy.keys() | fresh | self._reported_ids)
        ]
        waiting = dict.fromkeys(self._reported_waiting, 0) | dict(self._waiting)
        try:
            async with self._database.transaction() as tx:
                others = await use_store.write_use(tx, self._frontend_id, LEASE_S, used, waiting)
                if self._passes % PASSES_PER_CLEANUP == PASSES_PER_CLEANUP - 1:
                    await use_store.prune_use(tx)
        except BaseException:
            # Reported at the next pass; until then the written leases hold.
            self._restore_used(fresh)
            if self._clock.monotonic() >= self._others_until:
                self._pools.apply_other_leases({})
            raise
        self._passes += 1
        self._reported_ids, self._reported_waiting = set(busy), {model for model, count in waiting.items() if count}
        self._others_until = self._clock.monotonic() + LEASE_S
        self._pools.apply_other_leases(others)
        return len(used)

    @property
    def is_quiet(self) -> bool:
        """Return whether there is nothing to report."""
        is_used = any(routable.in_flight_here or routable.is_used for routable in self._pools)
        return not (is_used or self._waiting or self._reported_ids or self._reported_waiting)

    async def withdraw(self) -> None:
        """Delete this frontend's leases when it stops, so that the others need not wait for them to expire."""
        if self._passes:
            async with self._database.transaction() as tx:
                await use_store.withdraw_frontend(tx, self._frontend_id)

    def _clear_used(self) -> set[str]:
        fresh = {routable.replica.id for routable in self._pools if routable.is_used}
        for routable in self._pools:
            routable.is_used = False
        return fresh

    def _restore_used(self, replica_ids: set[str]) -> None:
        for replica_id in replica_ids:
            routable = self._pools.find(replica_id)
            if routable is not None:
                routable.is_used = True
