"""This frontend's own presence, and the leader's broom: everything that grows is cut back here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from corral.reconcile.leader import Leader
from corral.store import access as access_store
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store import usage as usage_store
from corral.store.database import Database

DAY_S = 24 * 3600.0
# A frontend that has not been seen for this long is shown as gone ...
FRONTEND_ALIVE_S = 20.0
# ... and forgotten after this.
FRONTEND_KEPT_S = 3600.0
ANSWERS_KEPT_S = DAY_S
AUDIT_KEPT_S = 365 * DAY_S
REMOVED_NODES_KEPT_S = 365 * DAY_S
# The record of operations: so long, and so many.
OPERATIONS_KEPT_S = 30 * DAY_S
OPERATIONS_KEPT = 5000
# A year, and a month to write the bill of it.
USAGE_KEPT_S = 400 * DAY_S


class Presence:
    """The row that says: this frontend is here, and whether it is on the bus.

    Guarantee: work that needs workers is left to peers only while one of them is known to be on the bus. When NATS is
    away from everybody, nobody leaves it to anybody.
    """

    def __init__(self, database: Database, row: dict[str, Any], is_on_bus: Callable[[], bool] = lambda: False) -> None:
        self._database = database
        self._row = row
        self._is_on_bus = is_on_bus
        self._has_peer_on_bus = False

    def leaves_to_peers(self) -> bool:
        """Return True while this frontend is off the bus and a peer is on it: the peer reaches the workers."""
        return self._has_peer_on_bus and not self._is_on_bus()

    async def tick(self) -> None:
        async with self._database.transaction() as tx:
            await cluster_store.put_frontend(tx, self._row | {"bus_ok": self._is_on_bus()})
            self._has_peer_on_bus = await cluster_store.has_peer_on_bus(tx, self._row["id"], FRONTEND_ALIVE_S)

    async def withdraw(self) -> None:
        async with self._database.transaction() as tx:
            await cluster_store.delete_frontend(tx, self._row["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    events: int
    answers: int
    audit: int
    frontends: int
    operations: int
    usage: int
    removed_nodes: int


class Pruner:
    def __init__(
        self, database: Database, leader: Leader, outbox_retention_s: float, usage_retention_s: float = USAGE_KEPT_S
    ) -> None:
        self._database = database
        self._leader = leader
        self._outbox_retention_s = outbox_retention_s
        self._usage_retention_s = usage_retention_s

    async def tick(self) -> Pruned:
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            return Pruned(
                events=await outbox.prune(tx, self._outbox_retention_s),
                answers=await access_store.prune_answers(tx, ANSWERS_KEPT_S),
                audit=await access_store.prune_audit(tx, AUDIT_KEPT_S),
                frontends=await cluster_store.prune_frontends(tx, FRONTEND_KEPT_S),
                operations=await operation_store.prune(tx, age_s=OPERATIONS_KEPT_S, most=OPERATIONS_KEPT),
                usage=await usage_store.prune(tx, self._usage_retention_s),
                removed_nodes=await node_store.prune_removed(tx, REMOVED_NODES_KEPT_S),
            )
