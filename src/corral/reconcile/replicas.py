"""Replicas that nobody has listed for a while are asked about, and rows that slipped through are put right.

Workers push what they run; this is for when such a report is missing, and for a node that was lost and is back: what
runs there is adopted at once, not with its next report. Guarantee: a node is asked once in a pass, and
one that does not answer loses nothing. What is marked here is ended by the one stop, like everything else. Files of
models that were deleted while their node was no node are owed to be removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from corral.domain.cluster import Event
from corral.domain.node import NodeId
from corral.reconcile.leader import Leader
from corral.store import replicas as replica_store
from corral.store import staged as store
from corral.store.database import Database

INTERVAL_S = 30.0
UNCONFIRMED_S = 120.0
# Files of a model that nobody knows stay so long: whoever puts back an older database may put back the model as well.
FORGOTTEN_S = 3600.0
# One pass stays short; the rest is for the next one.
NODES_PER_PASS = 50
# A node is back, or can be asked again.
_CALLS = frozenset({"node.alive", "node.bus_changed"})


class ReplicaCheck:
    """`ask` asks one node what it runs and takes the answer in; false if there was none."""

    def __init__(self, database: Database, leader: Leader, ask: Callable[[NodeId], Awaitable[bool]]) -> None:
        self._database = database
        self._leader = leader
        self._ask = ask

    @staticmethod
    def is_called_by(events: Sequence[Event]) -> bool:
        return any(event.kind in _CALLS for event in events)

    async def tick(self) -> int:
        """How many nodes have answered."""
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            await replica_store.unload_strays(tx)
            await store.release_left_over(tx)
            await store.owe_forgotten(tx, age_s=FORGOTTEN_S)
            silent = await store.nodes_unconfirmed(tx, age_s=UNCONFIRMED_S, limit=NODES_PER_PASS)
        return sum([await self._ask(node_id) for node_id in silent])
