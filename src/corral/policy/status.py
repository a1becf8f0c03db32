"""From the facts about a node to the one word that people see, and to whether it may get work.

The order of the questions is the order of the answers:
  1 not approved?               pending
  2 drained (by anyone)?        draining     (a dead node that was drained stays drained: the reason says it is away)
  3 lost or left?               offline
  4 off the bus?                joining      (just approved, and never on it so far)
                                unhealthy    (not known yet is not off: the first command or heartbeat will tell)
  5 otherwise                   healthy
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from corral.domain.node import Liveness, Node, NodeStatus

# How long the way to the bus may take after an approval: a heartbeat, a credential and a connection, and more.
JOINING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFact:
    name: str
    holds: bool | None
    since: datetime | None
    reason: str


def status_of(node: Node) -> NodeStatus:
    if node.approved_at is None:
        return NodeStatus.PENDING  # 1
    if node.drained_at is not None or node.self_drained_at is not None:
        return NodeStatus.DRAINING  # 2
    if node.liveness is not Liveness.ALIVE:
        return NodeStatus.OFFLINE  # 3
    if node.bus_ok is False:
        return NodeStatus.JOINING if is_joining(node) else NodeStatus.UNHEALTHY  # 4
    return NodeStatus.HEALTHY  # 5


def is_joining(node: Node) -> bool:
    """Whether the node was approved so recently that it need not be on the bus yet.

    The last heartbeat stands for the present: a node without heartbeats is offline before this is asked.
    """
    if node.bus_joined_at is not None or node.approved_at is None:
        return False
    last = node.last_heartbeat_at or node.approved_at
    return last - node.approved_at <= timedelta(seconds=JOINING_S)


def is_schedulable(node: Node) -> bool:
    """Whether new work may be placed on the node."""
    return status_of(node) is NodeStatus.HEALTHY


def reason_of(node: Node) -> str:
    """One sentence for the status, with what to do when an admin can do something."""
    match status_of(node):
        case NodeStatus.PENDING:
            return "Waits for approval by an admin"
        case NodeStatus.DRAINING:
            who = f"Drained by {node.drained_by}" if node.drained_at else "Its worker is shutting down"
            away = "" if node.liveness is Liveness.ALIVE else f", and {_liveness_sentence(node).lower()}"
            return f"{who}{away}"
        case NodeStatus.OFFLINE:
            return _liveness_sentence(node)
        case NodeStatus.JOINING:
            return "Approved, and on its way to the bus"
        case NodeStatus.UNHEALTHY:
            return _bus_sentence(node)
        case NodeStatus.HEALTHY:
            return "Approved, alive and on the bus" if node.bus_ok else "Approved and alive; not seen on the bus yet"


def conditions_of(node: Node) -> tuple[ConditionFact, ...]:
    drained_since = node.drained_at or node.self_drained_at
    return (
        ConditionFact(
            name="approved",
            holds=node.approved_at is not None,
            since=node.approved_at,
            reason=f"Approved by {node.approved_by}" if node.approved_at else "Nobody has approved it yet",
        ),
        ConditionFact(
            name="alive",
            holds=node.liveness is Liveness.ALIVE,
            since=node.liveness_since,
            reason=_liveness_sentence(node),
        ),
        ConditionFact(name="on_bus", holds=_is_on_bus(node), since=node.bus_since, reason=_bus_sentence(node)),
        ConditionFact(
            name="draining",
            holds=drained_since is not None,
            since=drained_since,
            reason=_drain_sentence(node),
        ),
    )


def _liveness_sentence(node: Node) -> str:
    match node.liveness:
        case Liveness.ALIVE:
            return "Heartbeats arrive"
        case Liveness.LOST:
            return "No heartbeat within its lease"
        case Liveness.LEFT:
            return "Its worker has stopped"


def _is_on_bus(node: Node) -> bool | None:
    """Whether commands reach the node; None while nothing is heard from it, whatever was true before."""
    return node.bus_ok if node.liveness is Liveness.ALIVE else None


def _bus_sentence(node: Node) -> str:
    if node.liveness is not Liveness.ALIVE:
        return "Not known while the node is away"
    if node.bus_ok is None:
        return "Not seen on the bus yet"
    if node.bus_ok:
        return "Commands reach it"
    return "Heartbeats arrive, but the node is not on the bus: commands cannot reach it"


def _drain_sentence(node: Node) -> str:
    if node.drained_at is not None:
        return f"Drained by {node.drained_by}"
    if node.self_drained_at is not None:
        return "Its worker is shutting down"
    if node.liveness is not Liveness.ALIVE:
        return "Takes new work when it is back"
    return "Takes new work"
