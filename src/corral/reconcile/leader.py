"""Elects the frontend that runs the loops which must run once: a lease with a term that grows.

Guarantee: a write that is fenced by `LeaderElector.fence` happens only while this very term holds. A frontend that is
off the bus while a peer is on it acquires no lease, and gives the one that it holds back after `OFF_BUS_GRACE_S`.
Limit: `is_leader` is an optimisation; between a look at it and the write the lease may be gone, which is what the fence
is for.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.domain.cluster import Lease
from corral.domain.errors import LeaseLost
from corral.ports.runtime import Clock
from corral.store import cluster as store
from corral.store import outbox
from corral.store.database import Database, Transaction

LEASE_NAME = "leader"
# How long a leader may be off the bus before a peer on the bus leads instead. A restart of NATS takes one or two
# seconds, and a frontend tries to connect once a second: those outages end within this, and moving the lead for them
# would interrupt every cluster-wide loop for nothing.
OFF_BUS_GRACE_S = 5.0


class LeaderElector:
    """Acquires and renews the lease by which one frontend leads and runs cluster-wide loops.

    It also fences the leader's writes.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        frontend_id: str,
        lease_s: float,
        leaves_to_peers: Callable[[], bool] = lambda: False,
    ) -> None:
        self._leaves_to_peers = leaves_to_peers
        self._database = database
        self._clock = clock
        self._frontend_id = frontend_id
        self._lease_s = lease_s
        self._held: Lease | None = None
        self._renewed_monotonic = 0.0
        self._led_monotonic = clock.monotonic()
        # Since when a peer has been on the bus and this frontend not.
        self._off_bus_since: float | None = None

    @property
    def lease(self) -> Lease | None:
        """Return the lease, as long as this process has reason to think that it holds it."""
        if self._held is None or self._clock.monotonic() - self._renewed_monotonic > self._lease_s * 0.8:
            return None
        return self._held

    def is_leader(self) -> bool:
        return self.lease is not None

    @property
    def has_recent_leader(self) -> bool:
        """Return whether any frontend has held the lease lately; a frontend that has just started cannot know yet."""
        return self._clock.monotonic() - self._led_monotonic < 2 * self._lease_s

    async def tick(self) -> Lease | None:
        """Renew the held lease, or try to acquire it. Off the bus, only renew it, and release it after the grace."""
        # Measured from before the statement: the database may have granted the lease any time after this.
        started = self._clock.monotonic()
        leaves_to_peers = self._leaves_to_peers()
        if not leaves_to_peers:
            self._off_bus_since = None
        elif self._off_bus_since is None:
            self._off_bus_since = started
        elif started - self._off_bus_since >= OFF_BUS_GRACE_S:
            await self.release()
        if self._held is not None:
            try:
                async with self._database.transaction() as tx:
                    self._held = await store.renew_lease(tx, self._held, self._lease_s)
                self._renewed_monotonic = self._led_monotonic = started
            except LeaseLost:
                self._held = None
            else:
                return self._held
        if leaves_to_peers:
            await self._look_for_leader(started)
            return None
        async with self._database.transaction() as tx:
            lease = await store.acquire_lease(tx, LEASE_NAME, self._frontend_id, self._lease_s)
            if lease is not None:
                await outbox.append(tx, "leader.changed", self._frontend_id, {"term": lease.term})
        if lease is not None:
            self._held, self._renewed_monotonic = lease, started
        # A lease that was not granted to us is held by another frontend.
        self._led_monotonic = started
        return self._held

    async def _look_for_leader(self, started: float) -> None:
        async with self._database.transaction() as tx:
            if await store.is_lease_held(tx, LEASE_NAME):
                self._led_monotonic = started

    async def fence(self, tx: Transaction) -> Lease:
        """Make this transaction fail unless the lease holds until it commits."""
        if self._held is None:
            raise LeaseLost("This frontend is not the leader.")
        await store.require_lease(tx, self._held)
        return self._held

    async def release(self) -> None:
        """Release the lease at once instead of letting it run out."""
        held, self._held = self._held, None
        if held is not None:
            async with self._database.transaction() as tx:
                await store.release_lease(tx, held)
