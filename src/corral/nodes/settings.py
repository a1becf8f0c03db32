"""Changes the settings of a node: labels, replica slots, the VRAM budget. All of them survive registrations."""

from __future__ import annotations

from collections.abc import Mapping

from corral.domain.errors import Conflict, NotFound
from corral.domain.node import LabelSource, Node
from corral.nodes.lifecycle import select_agreed_labels
from corral.policy.budget import check_runs_engines, parse_budget
from corral.policy.labels import check_labels, check_not_reserved, format_labels, is_reserved
from corral.store import access as access_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction


async def put_labels(database: Database, reference: str, labels: Mapping[str, str], actor: str) -> Node:
    """Make the admin's labels exactly these.

    A pair that the machine or the worker gives anyway is left to them: reading all labels and putting them back
    must not turn an automatic label into one that is never refreshed again.
    """
    check_labels(labels)
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        given = {label.key: label.value for label in node.labels if label.source is not LabelSource.ADMIN}
        own = {key: value for key, value in labels.items() if given.get(key) != value}
        check_not_reserved(key for key, value in own.items() if _get_admin_labels(node).get(key) != value)
        return await _write_labels(tx, node, own, actor)


async def patch_labels(database: Database, reference: str, labels: Mapping[str, str], actor: str) -> Node:
    """Set these labels of a node and leave the others."""
    check_labels(labels)
    check_not_reserved(labels)
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        merged = _get_admin_labels(node) | dict(labels)
        check_labels(merged)
        return await _write_labels(tx, node, merged, actor)


async def delete_label(database: Database, reference: str, key: str, actor: str) -> Node:
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        label = next((label for label in node.labels if label.key == key), None)
        if label is None:
            raise NotFound(f"Node {node.name} has no label {key[:60]!r}.", code="label_not_found")
        if label.source is not LabelSource.ADMIN:
            origin = "the worker's settings" if label.source is LabelSource.WORKER else "the machine itself"
            raise Conflict(
                f"Label {key} comes from {origin} and would come back.",
                hint="It describes the machine."
                if is_reserved(key)
                else f"Set a value of your own instead: corral nodes label {node.name} {key}=…",
                code="label_not_yours",
            )
        own = _get_admin_labels(node)
        del own[key]
        return await _write_labels(tx, node, own, actor)


async def approve_labels(
    database: Database, reference: str, actor: str, shown_labels: Mapping[str, str] | None = None
) -> Node:
    """Approve labels that the worker sends and that wait for an admin; `shown_labels`: only those of these pairs."""
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        if node.approved_at is None:
            raise Conflict(
                f"Node {node.name} is not approved yet.",
                hint=f"Its labels are approved with it: corral nodes approve {node.name}",
                code="node_pending",
            )
        agreed = select_agreed_labels(node, shown_labels)
        if not agreed:
            return node
        await node_store.update_node(tx, node.id, {"approved_labels": {**node.approved_labels, **agreed}})
        return await _record_change(
            tx, node, "node.labels", actor, detail=f"{node.name}: approved {format_labels(agreed)}"
        )


def _get_admin_labels(node: Node) -> dict[str, str]:
    return {label.key: label.value for label in node.labels if label.source is LabelSource.ADMIN}


async def _write_labels(tx: Transaction, node: Node, labels: Mapping[str, str], actor: str) -> Node:
    await node_store.replace_labels(tx, node.id, LabelSource.ADMIN, labels)
    return await _record_change(tx, node, "node.labels", actor)


async def set_slots(database: Database, reference: str, slots: int | None, actor: str) -> Node:
    """Set the admin's number of replica slots; None gives control back to the worker."""
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        if slots is not None:
            check_runs_engines(node, "replica slots")
        await node_store.update_node(tx, node.id, {"slots_override": slots})
        return await _record_change(tx, node, "node.slots", actor)


async def set_budget(database: Database, reference: str, budget: str | None, actor: str) -> Node:
    """Set the admin's VRAM budget ("" for no cap); None gives control back to the worker."""
    if budget is not None:
        parse_budget(budget)
        budget = budget.strip()
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        if budget is not None:
            check_runs_engines(node, "VRAM budget")
        await node_store.update_node(tx, node.id, {"budget_override": budget})
        return await _record_change(tx, node, "node.budget", actor)


async def _record_change(tx: Transaction, node: Node, what: str, actor: str, *, detail: str = "") -> Node:
    """Apply what every change of settings needs: derived labels, another look at rules, an audit entry, an event."""
    await node_store.refresh_automatic_labels(tx, await node_store.get_node(tx, node.id))
    await rule_store.clear_unsatisfiable(tx)
    await access_store.record_audit(tx, actor, what, node.id, detail or node.name)
    await outbox.append(tx, f"{what}_changed", node.id, {"name": node.name, "by": actor})
    return await node_store.get_node(tx, node.id)
