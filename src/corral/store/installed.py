"""What nodes report to have installed. A report is everything at once; only what differs is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import delete, select, tuple_, update
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
    return (await replace_many(tx, {node_id: reported}))[node_id]


async def replace_many(
    tx: Transaction, reported: Mapping[NodeId, Iterable[InstalledBackend]]
) -> dict[NodeId, list[str]]:
    """The same for many nodes, in as many statements as for one. The caller keeps others from doing it meanwhile."""
    before = await list_installed(tx, only=reported.keys())
    gone: list[tuple[NodeId, str]] = []
    newer: list[dict[str, Any]] = []
    names: dict[NodeId, list[str]] = {}
    for node_id, items in sorted(reported.items()):
        was = {item.name: item for item in before.get(node_id, ())}
        now = {item.name: item for item in items}
        lost = sorted(was.keys() - now.keys())
        changed = [item for name, item in sorted(now.items()) if was.get(name) != item]
        gone += [(node_id, name) for name in lost]
        newer += [asdict(item) | {"node_id": node_id} for item in changed]
        names[node_id] = sorted({*lost, *(item.name for item in changed)})
    if gone:
        place = tuple_(installed_backends.c.node_id, installed_backends.c.name)
        await tx.execute(delete(installed_backends).where(place.in_(gone)))
    if newer:
        statement = insert(installed_backends)
        values: dict[str, Any] = {name: statement.excluded[name] for name in _COLUMNS}
        await tx.execute(
            statement.on_conflict_do_update(index_elements=["node_id", "name"], set_=values | {"reported_at": NOW}),
            newer,
        )
    return names


async def note_reports(tx: Transaction, node_ids: Collection[NodeId]) -> None:
    """These nodes have told what they have: from now on their lists are known, also those that are empty."""
    await tx.execute(update(nodes).where(nodes.c.id.in_(list(node_ids))).values(backends_at=NOW))
