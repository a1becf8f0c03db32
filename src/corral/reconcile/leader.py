"""Which frontend runs the loops that must run once: a lease with a term that grows.

Guarantee: a write that is fenced by `Leader.fence` happens only while this very term holds. A frontend that may not
lead, because a peer reaches the workers and it does not, gives the lease back and takes none. Limit: `is_leader` is an
optimisation; between a look at it and the write the lease may be gone, which is what the fence is for.
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


class Leader:
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

    @property
    def held(self) -> Lease | None:
        """The lease, as long as this process has reason to think that it holds."""
        if self._held is None or self._clock.monotonic() - self._renewed_monotonic > self._lease_s * 0.8:
            return None
        return self._held

    def is_leader(self) -> bool:
        return self.held is not None

    @property
    def is_led(self) -> bool:
        """Somebody has held the lease lately, whoever it was; no new frontend has had time to find out."""
        return self._clock.monotonic() - self._led_monotonic < 2 * self._lease_s

    async def tick(self) -> Lease | None:
        """Renew what is held, or try to take it."""
        # Measured from before the statement: the database may have granted it any time after this.
        started = self._clock.monotonic()
        if self._leaves_to_peers():
            await self.release()
            async with self._database.transaction() as tx:
                if await store.is_lease_held(tx, LEASE_NAME):
                    self._led_monotonic = started
            return None
        if self._held is not None:
            try:
                async with self._database.transaction() as tx:
                    self._held = await store.renew_lease(tx, self._held, self._lease_s)
                self._renewed_monotonic = self._led_monotonic = started
            except LeaseLost:
                self._held = None
            else:
                return self._held
        async with self._database.transaction() as tx:
            lease = await store.acquire_lease(tx, LEASE_NAME, self._frontend_id, self._lease_s)
            if lease is not None:
                await outbox.append(tx, "leader.changed", self._frontend_id, {"term": lease.term})
        if lease is not None:
            self._held, self._renewed_monotonic = lease, started
        # Not given to us means that another one has it.
        self._led_monotonic = started
        return self._held

    async def fence(self, tx: Transaction) -> Lease:
        """Make this transaction fail unless the lease holds until it commits."""
        if self._held is None:
            raise LeaseLost("This frontend is not the leader.")
        await store.require_lease(tx, self._held)
        return self._held

    async def release(self) -> None:
        """Hand it over at once instead of letting it run out."""
        held, self._held = self._held, None
        if held is not None:
            async with self._database.transaction() as tx:
                await store.release_lease(tx, held)
