"""Buffers heartbeats, so that a thousand nodes are one statement a second, not a thousand transactions.

`record` only touches memory, so the answer does not wait for PostgreSQL. `flush` writes what has arrived since.
While PostgreSQL is away the buffer keeps the newest heartbeat of each node and tries again; that is its bound. A
frontend that is killed with a full buffer loses at most one interval of heartbeats, which the next ones repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from corral.domain.node import NodeId
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction

# How many rows one statement writes; larger batches only hold locks longer.
BATCH_MAX = 2000


class HeartbeatBuffer:
    """Keeps the newest heartbeat of each node in a frontend's memory and writes them to PostgreSQL in batches."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database = database
        self._lease_s = lease_s
        self._waiting: dict[NodeId, dict[str, Any]] = {}
        # Nodes that are back, until their pending changes have been woken.
        self._returned_nodes: set[NodeId] = set()
        self._write_lock = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def record(self, node_id: NodeId, reading: Mapping[str, Any]) -> None:
        """Keep the newest value of each field; an absent field leaves the previous value."""
        newer = {"node_id": node_id} | {key: value for key, value in reading.items() if value is not None}
        self._waiting[node_id] = _merge_readings(self._waiting.get(node_id), newer)

    async def flush(self) -> int:
        """Write the waiting heartbeats and return the number of nodes. Later ones are for the next flush.

        Every heartbeat recorded before this call is in the registry when it returns, also those that an earlier call
        is still writing."""
        async with self._write_lock:
            return await self._flush()

    async def _flush(self) -> int:
        waiting = list(self._waiting)
        for start in range(0, len(waiting), BATCH_MAX):
            nodes = waiting[start : start + BATCH_MAX]
            batch = {node_id: self._waiting.pop(node_id) for node_id in nodes if node_id in self._waiting}
            try:
                async with self._database.transaction() as tx:
                    returned_nodes = await self._write(tx, batch)
            except BaseException:
                self._put_back(batch)
                raise
            self._returned_nodes.update(returned_nodes)
        await self._wake()
        return len(waiting)

    def _put_back(self, batch: dict[NodeId, dict[str, Any]]) -> None:
        for node_id, reading in batch.items():
            newer = self._waiting.get(node_id)
            self._waiting[node_id] = reading if newer is None else _merge_readings(reading, newer)

    async def _wake(self) -> None:
        """Wake pending changes in a transaction of its own: none waits for an operation while it locks nodes."""
        if self._returned_nodes:
            returned_nodes = sorted(self._returned_nodes)
            async with self._database.transaction() as tx:
                await assignment_store.wake_nodes(tx, returned_nodes)
            self._returned_nodes.difference_update(returned_nodes)

    async def _write(self, tx: Transaction, batch: dict[NodeId, dict[str, Any]]) -> list[NodeId]:
        """Write a batch and return the nodes that are back, or whose state on the bus has changed."""
        changes = await node_store.apply_heartbeats(tx, batch.values(), self._lease_s)
        returned = [(c.node_id, {"name": c.name}) for c in changes if c.came_back]
        await outbox.append_many(tx, "node.alive", [(str(key), data) for key, data in returned])
        bus = [c for c in changes if c.bus_changed and not c.came_back]
        await outbox.append_many(tx, "node.bus_changed", [(c.node_id, {"name": c.name}) for c in bus])
        for change in changes:
            if change.hardware_changed:
                await node_store.refresh_automatic_labels(tx, await node_store.get_node(tx, change.node_id))
                await outbox.append(tx, "node.hardware_changed", change.node_id, {"name": change.name})
        if any(change.came_back or change.hardware_changed for change in changes):
            await rule_store.clear_unsatisfiable(tx)
        return [change.node_id for change in changes if change.came_back or change.bus_changed]


def _merge_readings(older: dict[str, Any] | None, newer: dict[str, Any]) -> dict[str, Any]:
    """Merge two readings field by field, unless they come from two processes: the older one's values say nothing
    about the newer."""
    if older is None or older.get("boot_id") != newer.get("boot_id"):
        return newer
    return older | newer
