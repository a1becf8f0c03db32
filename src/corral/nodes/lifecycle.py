"""Changes nodes: their life cycle and their settings, as admins decide, and what a worker may say about itself.

Only admins change approval and drain. A worker can drain itself and undo that, and can leave; none of its calls
touches `approved_at` or `drained_at`. The settings are labels, replica slots and the VRAM budget; all of them survive
registrations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from corral.domain.errors import BootSuperseded, Conflict, InvalidRequest, NotFound
from corral.domain.node import LabelSource, Liveness, Node, NodeId
from corral.policy.budget import check_runs_engines, parse_budget
from corral.policy.labels import check_labels, check_not_reserved, format_labels, is_reserved
from corral.store import access as access_store
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction
from corral.store.schema import NOW

T = TypeVar("T")
# How long a running request may still take on a node that is taken out of service; there is no hurry.
DRAIN_GRACE_S = 600.0
# How often locks are taken again while new work for the node keeps arriving; after that PostgreSQL may have to
# arbitrate.
TRIES = 5


def select_agreed_labels(node: Node, shown_labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels that wait for an admin, as far as the admin has seen exactly these pairs. `shown_labels`
    None: all."""
    waiting = node.proposed_labels
    return {key: value for key, value in waiting.items() if shown_labels is None or shown_labels.get(key) == value}


async def approve(
    database: Database, reference: str, actor: str, shown_labels: Mapping[str, str] | None = None
) -> Node:
    """Approve a pending node with the labels that its worker sends; `shown_labels`: only those of these pairs."""
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        if node.approved_at is not None:
            raise InvalidRequest(f"Node {node.name} is approved already.", code="not_pending")
        agreed = select_agreed_labels(node, shown_labels)
        values = {"approved_at": NOW, "approved_by": actor, "approved_labels": agreed, "bus_joined_at": None}
        await node_store.update_node(tx, node.id, values)
        # A pending node has no credential for the bus, so it counts as off the bus until it reports otherwise.
        await node_store.set_bus(tx, node.id, is_on_bus=False)
        await rule_store.clear_unsatisfiable(tx)
        labels = f", labels {format_labels(agreed)}" if agreed else ""
        await access_store.record_audit(tx, actor, "node.approve", node.id, f"{node.name} at {node.address}{labels}")
        await outbox.append(tx, "node.approved", node.id, {"name": node.name, "by": actor})
        return await node_store.get_node(tx, node.id)


async def drain(database: Database, reference: str, actor: str) -> Node:
    """Drain a node: its replicas are no longer routed to, and running requests are finished.

    Targets of operations that the node has not begun end; the job that its worker runs is finished.
    """

    async def work(tx: Transaction, node: Node) -> Node:
        if node.drained_at is None:
            await node_store.update_node(tx, node.id, {"drained_at": NOW, "drained_by": actor})
            await assignment_store.end_for_node(tx, node.id, node.name, is_removed=False)
            replica_ids = [replica.id for replica in await replica_store.list_replicas(tx, node.id)]
            await replica_store.mark_unloading(tx, replica_ids, "the node was drained", grace_s=DRAIN_GRACE_S)
            await access_store.record_audit(tx, actor, "node.drain", node.id, node.name)
            await outbox.append(tx, "node.drained", node.id, {"name": node.name, "by": actor})
        return await node_store.get_node(tx, node.id)

    return await _take_out(database, reference, work)


async def _take_out(database: Database, reference: str, work: Callable[[Transaction, Node], Awaitable[T]]) -> T:
    """Lock everything that the removal or drain of a node touches, then run `work`: operations before the node, in
    the common lock order. Work that was assigned in between is seen, and the locks are taken again."""
    for tries_left in reversed(range(TRIES)):
        async with database.transaction() as tx:
            found = await node_store.get_node(tx, reference)
            locked = await assignment_store.lock_operations_of_node(tx, found.id)
            node = await node_store.lock_node(tx, found.id)
            if not tries_left or locked >= await assignment_store.list_operations_of_node(tx, node.id):
                return await work(tx, node)
    raise AssertionError("the last try returns or raises")


async def resume(database: Database, reference: str, actor: str) -> Node:
    """Undo a drain. Approval and liveness do not change."""
    async with database.transaction() as tx:
        node = await node_store.lock_node(tx, reference)
        if node.drained_at is not None:
            await node_store.update_node(tx, node.id, {"drained_at": None, "drained_by": None})
            await rule_store.clear_unsatisfiable(tx)
            await access_store.record_audit(tx, actor, "node.resume", node.id, node.name)
            await outbox.append(tx, "node.resumed", node.id, {"name": node.name, "by": actor})
        return await node_store.get_node(tx, node.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedNode:
    """A node that was removed from the cluster, with its NATS keys that have to be revoked."""

    node: Node
    bus_keys: tuple[str, ...]


async def remove(database: Database, reference: str, actor: str) -> RemovedNode:
    """Remove the node and all rows that depend on it."""

    async def work(tx: Transaction, node: Node) -> RemovedNode:
        keys = await node_store.list_bus_keys(tx, node.id)
        await assignment_store.end_for_node(tx, node.id, node.name, is_removed=True)
        await replica_store.remove_replicas(tx, node.id, "the node was removed")
        await node_store.delete_node(tx, node.id)
        await access_store.record_audit(tx, actor, "node.remove", node.id, node.name)
        await outbox.append(tx, "node.removed", node.id, {"name": node.name, "by": actor})
        return RemovedNode(node=node, bus_keys=tuple(keys))

    return await _take_out(database, reference, work)


async def drain_self(database: Database, node_id: NodeId, boot_id: str | None = None) -> None:
    async with database.transaction() as tx:
        node = await _lock_reporting_node(tx, node_id, boot_id)
        if node.self_drained_at is None:
            await node_store.update_node(tx, node.id, {"self_drained_at": NOW})
            await outbox.append(tx, "node.self_drained", node.id, {"name": node.name})


async def resume_self(database: Database, node_id: NodeId, boot_id: str | None = None) -> None:
    """Undo the worker's own drain only: an admin's drain stays."""
    async with database.transaction() as tx:
        node = await _lock_reporting_node(tx, node_id, boot_id)
        if node.self_drained_at is not None:
            await node_store.update_node(tx, node.id, {"self_drained_at": None})
            await outbox.append(tx, "node.self_resumed", node.id, {"name": node.name})


async def leave(database: Database, node_id: NodeId, boot_id: str | None = None) -> None:
    """Record that the worker has stopped. The node stays registered and approved; a late heartbeat does not bring it
    back."""
    async with database.transaction() as tx:
        node = await _lock_reporting_node(tx, node_id, boot_id)
        if node.liveness is not Liveness.LEFT:
            await node_store.set_liveness(tx, node.id, Liveness.LEFT)
            # The worker's own drain ends with it; all that is left to record is that the worker has gone.
            await node_store.update_node(tx, node.id, {"self_drained_at": None})
            await node_store.set_bus(tx, node.id, is_on_bus=None)
            await replica_store.remove_replicas(tx, node.id, "its worker has stopped")
            await outbox.append(tx, "node.left", node.id, {"name": node.name})


async def _lock_reporting_node(tx: Transaction, node_id: NodeId, boot_id: str | None) -> Node:
    """Lock and return the node, if the reporting process is its current one. Checked under the lock: a frontend's
    memory may be older than the registration of the newer process."""
    node = await node_store.lock_node(tx, node_id)
    if boot_id is not None and boot_id != node.boot_id:
        raise BootSuperseded(
            f"A newer worker process of node {node.name} has registered; messages of this one are ignored."
        )
    return node


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
