"""Nodes whose lease has run out become *lost*. The leader decides, in the database's time.

Guarantee: approval, drain, labels and overrides stay as they are; the next heartbeat brings the node back.
Limit: nobody is declared lost before the leaders have watched without a gap for one lease. After an outage of
PostgreSQL or of all frontends every lease looks old, and that says nothing about the nodes.
"""

from __future__ import annotations

from corral.reconcile.leader import Leader
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store.database import Database

# One pass stays short; the rest is for the next one.
LOST_PER_PASS = 200


class LivenessCheck:
    def __init__(self, database: Database, leader: Leader, lease_s: float) -> None:
        self._database = database
        self._leader = leader
        self._lease_s = lease_s

    async def tick(self) -> list[str]:
        """The names of the nodes that were found lost."""
        async with self._database.transaction() as tx:
            lease = await self._leader.fence(tx)
            if not await cluster_store.has_watched_for(tx, lease, self._lease_s):
                return []
            lost = await node_store.expire_leases(tx, LOST_PER_PASS)
            for node_id, name in sorted(lost):
                await replica_store.remove_replicas(tx, node_id, "its node was lost")
                await outbox.append(tx, "node.lost", node_id, {"name": name})
        return [name for _, name in lost]
