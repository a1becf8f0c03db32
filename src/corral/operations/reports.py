"""A worker reports what it has installed, and what its node owed and now has is settled.

Only the present process of a node is heard. A report that says nothing new writes nothing but its time. The report and
the settling are two transactions: nobody waits for an operation while holding a node. Should a frontend die between
them, the next report settles the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC

from corral.domain.backend import InstalledBackend
from corral.domain.errors import BootSuperseded
from corral.domain.node import NodeId, NodeType
from corral.domain.operation import OperationId
from corral.policy.assignments import is_satisfied
from corral.store import assignments as assignment_store
from corral.store import installed as installed_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a report changed: names of backends, and the operations that it brought further."""

    changed: tuple[str, ...] = ()
    settled: tuple[OperationId, ...] = ()


async def take(
    database: Database,
    node_id: NodeId,
    boot_id: str,
    installed: Iterable[InstalledBackend],
    removed: Mapping[str, int],
) -> Taken:
    """`removed`: backends that are gone, with the generation of their removal."""
    there = {item.name: _with_zone(item) for item in installed}
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, node_id)
        if boot_id != node.boot_id:
            raise BootSuperseded(
                f"A newer worker process of node {node.name} has registered; this one is no longer heard."
            )
        if node.approved_at is None or node.type is not NodeType.BACKEND:
            return Taken()
        changed = await installed_store.replace(tx, node.id, there.values())
        await installed_store.note_report(tx, node.id)
        if changed:
            data = {"name": node.name, "backends": changed}
            await outbox.append(tx, "node.backends_changed", node.id, data)
    async with database.transaction() as tx:
        owed = await assignment_store.list_assignments(tx, node_id=node.id)
        satisfied = [item.assignment for item in owed if is_satisfied(item.assignment, there, removed)]
        settled = await assignment_store.settle(tx, node.id, satisfied)
        if changed:
            await assignment_store.wake_nodes(tx, [node.id])
    return Taken(changed=tuple(changed), settled=tuple(settled))


def _with_zone(item: InstalledBackend) -> InstalledBackend:
    """A time without a zone is the worker's UTC."""
    if item.installed_at is None or item.installed_at.tzinfo is not None:
        return item
    return replace(item, installed_at=item.installed_at.replace(tzinfo=UTC))
