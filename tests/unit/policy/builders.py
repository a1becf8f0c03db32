"""Nodes and replicas for tests of decisions: healthy unless said otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from corral.domain.node import Hardware, Label, LabelSource, Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState

GIB = 1024**3
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def a_node(name: str = "node-1", *, labels: dict[str, str] | None = None, **changes: Any) -> Node:
    """Approved, alive and on the bus. Fields of the hardware can be given like those of the node."""
    of_hardware = {key: changes.pop(key) for key in list(changes) if key in Hardware.__dataclass_fields__}
    values: dict[str, Any] = {
        "id": NodeId(name),
        "name": name,
        "type": NodeType.BACKEND,
        "credential_hash": "",
        "boot_id": "boot",
        "approved_at": THEN,
        "approved_by": "a test",
        "liveness_since": THEN,
        "bus_ok": True,
        "bus_joined_at": THEN,
        "created_at": THEN,
        "updated_at": THEN,
        "hardware": Hardware(**of_hardware),
        "labels": tuple(Label(key=k, value=v, source=LabelSource.ADMIN) for k, v in (labels or {}).items()),
    }
    return Node(**values | changes)


def a_replica(node: str, index: int = 0, *, model: str = "m", **changes: Any) -> Replica:
    values: dict[str, Any] = {
        "id": f"{node}/{model}/{index}",
        "node_id": NodeId(node),
        "model": model,
        "index": index,
        "state": ReplicaState.LOADED,
    }
    return Replica(**values | changes)
