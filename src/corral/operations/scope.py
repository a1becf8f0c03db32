"""What an operation is about, as a key: two active operations never have the same one.

scope    the family of kinds, the backend, the nodes: installing and removing the same thing there are rivals
intent   everything else that was asked for: the same scope and the same intent is the same request
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from corral.domain.node import NodeId
from corral.operations.request import Asked

FLEET = "fleet"
# More ids than fit in here become a hash: the key stays short and still says exactly these nodes.
_IDS_LENGTH_MAX = 160
# How something was spelled is no intent, and where it goes is the scope.
_NOT_INTENT = frozenset({"backend", "nodes"})


def plain_name(backend: str) -> str:
    """Without its gallery: `gallery@name` and `name` are installed to the same place."""
    return backend.rpartition("@")[2] or backend


def scope_key(asked: Asked, node_ids: Collection[NodeId] | None) -> str:
    """`node_ids` None: the whole fleet. The name stands last, since it may hold any character."""
    return f"{asked.kind.pool}:{_nodes(node_ids)}:{plain_name(asked.backend).lower()}"


def _nodes(node_ids: Collection[NodeId] | None) -> str:
    if node_ids is None:
        return FLEET
    joined = ",".join(sorted(set(node_ids)))
    if len(joined) > _IDS_LENGTH_MAX:
        joined = hashlib.sha256(joined.encode()).hexdigest()
    return f"nodes={joined}"


def is_same_intent(asked: Asked, stored_request: Mapping[str, Any]) -> bool:
    return _intent(asked.to_json()) == _intent(Asked.from_json(stored_request).to_json())


def _intent(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key not in _NOT_INTENT}
