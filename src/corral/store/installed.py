"""What nodes report to have installed. A report is everything at once; only what differs is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.backend import InstalledBackend
from corral.domain.node import NodeId
from corral.store.database import Transaction
from corral.store.operation_rows import to_installed
from corral.store.schema import NOW, installed_backends, nodes

_COLUMNS = tuple(field.name for field in fields(InstalledBackend) if field.name != "name")


async def list_installed(
    tx: Transaction, *, only: Collection[NodeId] | None = None
) -> dict[NodeId, tuple[InstalledBackend, ...]]:
    """By node; a node without any is not in it. Of these nodes only, if some are given."""
    statement = select(installed_backends).order_by(installed_backends.c.node_id, installed_backends.c.name)
    if only is not None:
        statement = statement.where(installed_backends.c.node_id.in_(list(only)))
    found: dict[NodeId, list[InstalledBackend]] = {}
    for row in await tx.execute(statement):
        found.setdefault(NodeId(row.node_id), []).append(to_installed(row))
    return {node_id: tuple(items) for node_id, items in found.items()}


async def replace(tx: Transaction, node_id: NodeId, reported: Iterable[InstalledBackend]) -> list[str]:
    """Make the rows of a node what it reports; the names that came, went or changed."""
    before = {item.name: item for item in (await list_installed(tx, only=[node_id])).get(node_id, ())}
    now = {item.name: item for item in reported}
    gone = sorted(before.keys() - now.keys())
    changed = [item for name, item in sorted(now.items()) if before.get(name) != item]
    if gone:
        await tx.execute(
            delete(installed_backends).where(
                installed_backends.c.node_id == node_id, installed_backends.c.name.in_(gone)
            )
        )
    if changed:
        statement = insert(installed_backends).values([asdict(item) | {"node_id": node_id} for item in changed])
        newer: dict[str, Any] = {name: statement.excluded[name] for name in _COLUMNS}
        await tx.execute(
            statement.on_conflict_do_update(index_elements=["node_id", "name"], set_=newer | {"reported_at": NOW})
        )
    return sorted({*gone, *(item.name for item in changed)})


async def note_report(tx: Transaction, node_id: NodeId) -> None:
    """The node has told what it has: from now on its list is known, also when it is empty."""
    await tx.execute(update(nodes).where(nodes.c.id == node_id).values(backends_at=NOW))
