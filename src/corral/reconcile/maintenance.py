"""Keeps the registry true without requests: presence of frontends, lost nodes, unreported replicas, tables that grow.

`LivenessChecker` marks nodes whose lease has run out as *lost*, in the database's time. Guarantee: approval, drain,
labels and overrides stay as they are; the next heartbeat brings the node back. Limit: no node is declared lost before
the leaders have watched without a gap for one lease. After an outage of PostgreSQL or of all frontends every lease
looks old, from which nothing follows for the nodes.

`ReplicaChecker` asks nodes about replicas that no report has listed for a while, and repairs inconsistent rows. Workers
push their reports; this loop is for a missing report, and for a node that was lost and is back: its running processes
are adopted at once, not with its next report. Guarantee: a node is queried once in a pass, and one that does not answer
loses nothing. Replicas that are marked here are ended by the replica stopper, like all others. Files of models that
were deleted while their node was not registered become pending removals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.domain.cluster import OutboxEvent
from corral.domain.node import NodeId
from corral.reconcile.leader import LeaderElector
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.store import access as access_store
from corral.store import agents as agent_store
from corral.store import artifacts as artifact_store
from corral.store import cluster as cluster_store
from corral.store import collections as collection_store
from corral.store import holdings as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import runs as run_store
from corral.store import tasks as task_store
from corral.store import usage as usage_store
from corral.store.database import Database, Transaction

DAY_S = 24 * 3600.0
# A frontend that has not been seen for this long is shown as gone ...
FRONTEND_ALIVE_S = 20.0
# ... and is deleted after this long.
FRONTEND_KEPT_S = 3600.0
ANSWERS_KEPT_S = DAY_S
AUDIT_KEPT_S = 365 * DAY_S
REMOVED_NODES_KEPT_S = 365 * DAY_S
# Retention of the operation history: by age and by number.
OPERATIONS_KEPT_S = 30 * DAY_S
OPERATIONS_KEPT = 5000
# A year, and a month to bill for it.
USAGE_KEPT_S = 400 * DAY_S
RUNS_KEPT_S = 30 * DAY_S
THREADS_KEPT_S = 365 * DAY_S
MEMORIES_KEPT_S = 365 * 86400.0
# Deletions of one kind of rows in one pass of the pruner. More rows than a hundred thousand in ten minutes are left to
# the next one.
PRUNE_ROUNDS_MAX = 200
# Limits one pass, so that it stays short; the rest is for the next one.
LOST_PER_PASS = 200
REPLICA_CHECK_INTERVAL_S = 30.0
UNCONFIRMED_S = 120.0
# Files of an unknown model stay so long: an operator who restores an older database may restore the model as well.
FORGOTTEN_S = 3600.0
# Limits one pass, so that it stays short; the rest is for the next one.
NODES_PER_PASS = 50
# Events after which a node is back, or can be queried again.
_CALLS = frozenset({"node.alive", "node.bus_changed"})


class FrontendPresence:
    """Writes the row in PostgreSQL that says that this frontend is alive and connected to NATS, and reads the others'.

    Guarantee: work that needs workers is left to peers only while one of them is known to be on the bus. If NATS is
    unreachable for all frontends, none of them hands its work over.
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
class PruneResult:
    """Counts the rows in PostgreSQL that one pruning pass deleted, by table."""

    events: int
    answers: int
    audit: int
    frontends: int
    operations: int
    usage: int
    removed_nodes: int
    runs: int
    threads: int
    memories: int
    media: int
    artifacts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """Says how long those rows in PostgreSQL are kept for which operators have a setting."""

    outbox_s: float
    usage_s: float = USAGE_KEPT_S
    runs_s: float = RUNS_KEPT_S
    threads_s: float = THREADS_KEPT_S
    memories_s: float = MEMORIES_KEPT_S


class Pruner:
    """Deletes rows in PostgreSQL that are older than their retention. Runs on the leading frontend.

    Each deletion is a transaction of its own, of rows of one kind that fit into it; it is repeated until none are left.
    A kind of rows that cannot be deleted keeps no other.
    """

    def __init__(self, database: Database, leader: LeaderElector, retention: RetentionOptions) -> None:
        self._database = database
        self._leader = leader
        self._retention = retention

    async def tick(self) -> PruneResult:
        """Delete what is too old, and return how much. Raises the first error, after all kinds of rows were tried."""
        kept = self._retention
        prunes: dict[str, Callable[[Transaction], Awaitable[int]]] = {
            "events": partial(outbox.prune, retention_s=kept.outbox_s),
            "answers": partial(access_store.prune_answers, age_s=ANSWERS_KEPT_S),
            "audit": partial(access_store.prune_audit, age_s=AUDIT_KEPT_S),
            "frontends": partial(cluster_store.prune_frontends, age_s=FRONTEND_KEPT_S),
            "operations": partial(operation_store.prune, age_s=OPERATIONS_KEPT_S, most=OPERATIONS_KEPT),
            "usage": partial(usage_store.prune, age_s=kept.usage_s),
            "removed_nodes": partial(node_store.prune_removed, age_s=REMOVED_NODES_KEPT_S),
            "runs": partial(run_store.prune, age_s=kept.runs_s),
            "threads": partial(agent_store.prune_threads, age_s=kept.threads_s),
            "memories": partial(collection_store.prune_memories, age_s=kept.memories_s),
            "media": task_store.prune_media,
            "artifacts": artifact_store.prune,
        }
        outcomes = {name: await attempt(partial(self._prune_all, prune)) for name, prune in prunes.items()}
        for outcome in outcomes.values():
            if isinstance(outcome, AttemptFailure):
                raise outcome.error
        return PruneResult(
            **{name: outcome.value for name, outcome in outcomes.items() if isinstance(outcome, AttemptSuccess)}
        )

    async def _prune_all(self, prune: Callable[[Transaction], Awaitable[int]]) -> int:
        """Delete rows of one kind, as long as there are some and within the rounds of a pass; return how many."""
        total = 0
        for _ in range(PRUNE_ROUNDS_MAX):
            async with self._database.transaction() as tx:
                await self._leader.fence(tx)
                deleted = await prune(tx)
            total += deleted
            if not deleted:
                break
        return total


class LivenessChecker:
    """Marks nodes whose workers' heartbeats have stopped as lost. Runs on the leading frontend."""

    def __init__(self, database: Database, leader: LeaderElector, lease_s: float) -> None:
        self._database = database
        self._leader = leader
        self._lease_s = lease_s

    async def tick(self) -> list[str]:
        """Mark the nodes whose lease has run out as lost, and return their names."""
        async with self._database.transaction() as tx:
            lease = await self._leader.fence(tx)
            if not await cluster_store.has_watched_for(tx, lease, self._lease_s):
                return []
            lost = await node_store.expire_leases(tx, LOST_PER_PASS)
            for node_id, name in sorted(lost):
                await replica_store.remove_replicas(tx, node_id, "its node was lost")
                await outbox.append(tx, "node.lost", node_id, {"name": name})
        return [name for _, name in lost]


class ReplicaChecker:
    """Asks workers about replicas that no report has confirmed lately, and repairs their rows in PostgreSQL."""

    def __init__(
        self, database: Database, leader: LeaderElector, query_node: Callable[[NodeId], Awaitable[bool]]
    ) -> None:
        self._database = database
        self._leader = leader
        self._query_node = query_node

    @staticmethod
    def is_called_by(events: Sequence[OutboxEvent]) -> bool:
        return any(event.kind in _CALLS for event in events)

    async def tick(self) -> int:
        """Ask the due nodes and repair rows; return how many nodes have answered."""
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            await replica_store.unload_strays(tx)
            await store.release_leftovers(tx)
            await store.assign_forgotten_removals(tx, age_s=FORGOTTEN_S)
            silent = await store.list_unconfirmed_nodes(tx, age_s=UNCONFIRMED_S, limit=NODES_PER_PASS)
        return sum([await self._query_node(node_id) for node_id in silent])
