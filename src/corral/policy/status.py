"""Computes the one status of a node that people see, and whether it may get work.

The order of the questions is the order of the answers:
  1 not approved?               pending
  2 drained (by anyone)?        draining     (a dead node that was drained stays drained: the reason says it is away)
  3 lost or left?               offline
  4 off the bus?                joining      (just approved, and never on it so far)
                                unhealthy    (not known yet is not off: the first command or heartbeat will show)
  5 otherwise                   healthy
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from corral.domain.node import Liveness, Node, NodeStatus

# How long a node may take to the bus after an approval: a heartbeat, a credential and a connection, and more.
JOINING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCondition:
    """Says whether one condition of a node, such as being unreachable, holds, since when, and why."""

    name: str
    holds: bool | None
    since: datetime | None
    reason: str


def compute_status(node: Node) -> NodeStatus:
    if node.approved_at is None:
        return NodeStatus.PENDING  # 1
    if node.drained_at is not None or node.self_drained_at is not None:
        return NodeStatus.DRAINING  # 2
    if node.liveness is not Liveness.ALIVE:
        return NodeStatus.OFFLINE  # 3
    if node.bus_ok is False:
        return NodeStatus.JOINING if is_joining(node) else NodeStatus.UNHEALTHY  # 4
    return NodeStatus.HEALTHY  # 5


def is_reachable(node: Node | None) -> bool:
    """Return whether a message may reach the node's worker. A drained node may still be at work, so it is queried."""
    return (
        node is not None
        and node.approved_at is not None
        and node.liveness is Liveness.ALIVE
        and node.bus_ok is not False
    )


def is_joining(node: Node) -> bool:
    """Return whether the node was approved so recently that it need not be on the bus yet.

    The last heartbeat stands for the present: a node without heartbeats is offline before this is checked.
    """
    if node.bus_joined_at is not None or node.approved_at is None:
        return False
    last = node.last_heartbeat_at or node.approved_at
    return last - node.approved_at <= timedelta(seconds=JOINING_S)


def is_schedulable(node: Node | None) -> bool:
    """Return whether new work may be placed on the node, or sent to it."""
    return node is not None and compute_status(node) is NodeStatus.HEALTHY


def describe_status(node: Node) -> str:
    """Return one sentence for the status, with what an admin can do about it."""
    match compute_status(node):
        case NodeStatus.PENDING:
            return "Waiting for approval by an admin"
        case NodeStatus.DRAINING:
            actor = f"Drained by {node.drained_by}" if node.drained_at else "Its worker is shutting down"
            away = "" if node.liveness is Liveness.ALIVE else f", and {_describe_liveness(node).lower()}"
            return f"{actor}{away}"
        case NodeStatus.OFFLINE:
            return _describe_liveness(node)
        case NodeStatus.JOINING:
            return "Approved, and connecting to the bus"
        case NodeStatus.UNHEALTHY:
            return _describe_bus(node)
        case NodeStatus.HEALTHY:
            return "Approved, alive and on the bus" if node.bus_ok else "Approved and alive; not seen on the bus yet"


def list_conditions(node: Node) -> tuple[NodeCondition, ...]:
    drained_since = node.drained_at or node.self_drained_at
    return (
        NodeCondition(
            name="approved",
            holds=node.approved_at is not None,
            since=node.approved_at,
            reason=f"Approved by {node.approved_by}" if node.approved_at else "Not approved yet",
        ),
        NodeCondition(
            name="alive",
            holds=node.liveness is Liveness.ALIVE,
            since=node.liveness_since,
            reason=_describe_liveness(node),
        ),
        NodeCondition(name="on_bus", holds=_find_bus_condition(node), since=node.bus_since, reason=_describe_bus(node)),
        NodeCondition(
            name="draining",
            holds=drained_since is not None,
            since=drained_since,
            reason=_describe_drain(node),
        ),
    )


def _describe_liveness(node: Node) -> str:
    match node.liveness:
        case Liveness.ALIVE:
            return "Heartbeats arrive"
        case Liveness.LOST:
            return "No heartbeat within its lease"
        case Liveness.LEFT:
            return "Its worker has stopped"


def _find_bus_condition(node: Node) -> bool | None:
    """Return whether commands reach the node; None while its heartbeats are missing, whatever was true before."""
    return node.bus_ok if node.liveness is Liveness.ALIVE else None


def _describe_bus(node: Node) -> str:
    if node.liveness is not Liveness.ALIVE:
        return "Not known while the node is away"
    if node.bus_ok is None:
        return "Not seen on the bus yet"
    if node.bus_ok:
        return "Commands reach it"
    return "Heartbeats arrive, but the node is not on the bus: commands cannot reach it"


def _describe_drain(node: Node) -> str:
    if node.drained_at is not None:
        return f"Drained by {node.drained_by}"
    if node.self_drained_at is not None:
        return "Its worker is shutting down"
    if node.liveness is not Liveness.ALIVE:
        return "Takes new work when it is back"
    return "Takes new work"
