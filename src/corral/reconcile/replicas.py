"""Replicas that nobody has listed for a while are asked about, and rows that slipped through are put right.

Workers push what they run; this is for when such a report is missing. Guarantee: a node is asked once in a pass, and
one that does not answer loses nothing. What is marked here is ended by the one stop, like everything else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from corral.domain.node import NodeId
from corral.reconcile.leader import Leader
from corral.store import replicas as replica_store
from corral.store import staged as store
from corral.store.database import Database

INTERVAL_S = 30.0
UNCONFIRMED_S = 120.0
# One pass stays short; the rest is for the next one.
NODES_PER_PASS = 50


class ReplicaCheck:
    """`ask` asks one node what it runs and takes the answer in; false if there was none."""

    def __init__(self, database: Database, leader: Leader, ask: Callable[[NodeId], Awaitable[bool]]) -> None:
        self._database = database
        self._leader = leader
        self._ask = ask

    async def tick(self) -> int:
        """How many nodes have answered."""
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            await replica_store.unload_strays(tx)
            await store.release_left_over(tx)
            silent = await store.nodes_unconfirmed(tx, age_s=UNCONFIRMED_S, limit=NODES_PER_PASS)
        return sum([await self._ask(node_id) for node_id in silent])
