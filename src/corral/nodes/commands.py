"""Sends commands to one node over the bus, and records what the answers tell about the node.

An unanswered command because nobody subscribes is an observation: the node is off the bus. That is recorded; nothing
else of the node changes, because its replicas go on answering requests.
"""

from __future__ import annotations

from corral.bus.messages import DescribeNode, NodeDescription, StopNode, StopNodeReply, WakeNode
from corral.bus.subjects import NODE_DESCRIBE, NODE_STOP, NODE_WAKE
from corral.domain.errors import Conflict, CorralError, NodeUnreachable
from corral.domain.node import Node, NodeId
from corral.ports.bus import Bus
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Database


async def describe(database: Database, bus: Bus, reference: str) -> NodeDescription:
    """Ask the worker to describe itself."""
    node = await _get_commandable_node(database, reference)
    try:
        answer = await bus.request(NODE_DESCRIBE, DescribeNode(), node=node.id)
    except NodeUnreachable:
        await note_bus(database, node.id, is_on_bus=False)
        raise
    await note_bus(database, node.id, is_on_bus=True)
    return answer


async def stop(database: Database, bus: Bus, reference: str) -> StopNodeReply:
    """Ask the worker to finish its work and exit; the worker signs off itself."""
    node = await _get_commandable_node(database, reference)
    try:
        return await bus.request(NODE_STOP, StopNode(), node=node.id)
    except NodeUnreachable:
        await note_bus(database, node.id, is_on_bus=False)
        raise


async def wake(bus: Bus, node_id: NodeId) -> None:
    """Hint to a node that something about it has changed; without the hint its next heartbeat brings the news."""
    try:
        await bus.publish(NODE_WAKE, WakeNode(), node=node_id)
    except CorralError:
        return


async def note_bus(database: Database, node_id: NodeId, *, is_on_bus: bool) -> None:
    """Record whether the node is on the bus, and wake its pending changes when it is back."""
    async with database.transaction() as tx:
        node = await node_store.find_node(tx, node_id)
        has_changed = node is not None and await node_store.set_bus(tx, node_id, is_on_bus=is_on_bus)
        if node is not None and has_changed:
            await outbox.append(tx, "node.bus_changed", node_id, {"name": node.name, "on_bus": is_on_bus})
    if has_changed and is_on_bus:
        # A transaction of its own: nobody waits for an operation while holding the lock of a node.
        async with database.transaction() as tx:
            await assignment_store.wake_nodes(tx, [node_id])


async def _get_commandable_node(database: Database, reference: str) -> Node:
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, reference)
    if node.approved_at is None:
        raise Conflict(
            f"Node {node.name} is not approved and gets no commands.",
            hint=f"corral nodes approve {node.name}",
            code="node_pending",
        )
    return node
