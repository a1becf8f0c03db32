"""The request for a backend operation as a value, stored whole with the operation, so that a retry repeats it.

scope    the family of kinds, the backend, the nodes: two active operations never share it, so installing and removing
         the same backend there are rivals
intent   every other option of the request: the same scope and the same intent is the same request
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.node import NodeId
from corral.domain.operation import OperationKind, RolloutStrategy
from corral.policy.operation_plan import check_waves

NAME_LENGTH_MAX = 255
NODES_MAX = 10_000
FLEET = "fleet"
# More ids than fit here become a hash: the key stays short and still identifies exactly these nodes.
_IDS_LENGTH_MAX = 160
# The spelling of a request is no intent, and its destination is the scope.
_NOT_COMPARED = frozenset({"backend", "nodes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOperationSpec:
    """Specifies a backend operation: kind, backend, nodes, version and strategy. Stored whole with the operation."""

    kind: OperationKind
    # The backend as the user wrote it: a meta, a concrete, an alias, or gallery@name. With a `uri`, the name to install
    # it under.
    backend: str
    # Names or ids of nodes. None: every node that may have it; an empty tuple is refused, it never means "all".
    nodes: tuple[str, ...] | None = None
    version: str = ""
    # The address of a source outside every gallery.
    uri: str = ""
    alias: str = ""
    sha256: str = ""
    # Install the build although the node's hardware does not match it.
    ignores_capability: bool = False
    # How long the change may stay pending for an absent node; None: without limit.
    deadline_s: float | None = None
    strategy: RolloutStrategy = field(default_factory=RolloutStrategy)

    @property
    def subject(self) -> str:
        return self.backend

    def check(self) -> None:
        """Raise if the request is invalid by itself, without a look at the registry."""
        name = self.backend
        if not name.strip() or len(name) > NAME_LENGTH_MAX or not name.isprintable():
            raise InvalidRequest(
                f"A backend's name has 1 to {NAME_LENGTH_MAX} printable characters.", code="bad_backend_name"
            )
        if self.nodes is not None and not 0 < len(self.nodes) <= NODES_MAX:
            raise InvalidRequest(
                "The list of nodes is empty." if not self.nodes else f"At most {NODES_MAX} nodes can be named.",
                hint="Leave the list out for every node that can install it.",
                code="no_nodes",
            )
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise InvalidRequest("The deadline must be in the future.", hint="For example 1h.", code="bad_deadline")
        if self.uri and self.kind in (OperationKind.BACKEND_DELETE, OperationKind.BACKEND_ROLLBACK):
            raise InvalidRequest(
                "This operation takes no address: it acts on an installed backend.", code="bad_backend_name"
            )
        if self.version and self.kind is OperationKind.BACKEND_ROLLBACK:
            raise InvalidRequest(
                "A rollback goes to the previous version and to no other.",
                hint=f"corral backends upgrade {self.backend} --version {self.version}",
                code="unknown_version",
            )
        check_waves(self.strategy.waves)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "backend": self.backend,
            "nodes": None if self.nodes is None else list(self.nodes),
            "version": self.version,
            "uri": self.uri,
            "alias": self.alias,
            "sha256": self.sha256,
            "ignores_capability": self.ignores_capability,
            "deadline_s": self.deadline_s,
            "strategy": {
                "waves": list(self.strategy.waves),
                "stops_on_failure": self.strategy.stops_on_failure,
                "rolls_back": self.strategy.rolls_back,
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackendOperationSpec:
        nodes, strategy = value.get("nodes"), value.get("strategy") or {}
        return cls(
            kind=OperationKind(value["kind"]),
            backend=value["backend"],
            nodes=None if nodes is None else tuple(nodes),
            version=value.get("version", ""),
            uri=value.get("uri", ""),
            alias=value.get("alias", ""),
            sha256=value.get("sha256", ""),
            ignores_capability=value.get("ignores_capability", False),
            deadline_s=value.get("deadline_s"),
            strategy=RolloutStrategy(
                waves=tuple(strategy.get("waves", ())),
                stops_on_failure=strategy.get("stops_on_failure", False),
                rolls_back=strategy.get("rolls_back", False),
            ),
        )


def strip_gallery(backend: str) -> str:
    """Return the name without its gallery: `gallery@name` and `name` are installed to the same place."""
    return backend.rpartition("@")[2] or backend


def make_scope_key(spec: BackendOperationSpec, node_ids: Collection[NodeId] | None) -> str:
    """Return the scope key of a request. `node_ids` None: the whole fleet. The name comes last, since it may hold any
    character."""
    return f"{spec.kind.pool}:{_format_nodes(node_ids)}:{strip_gallery(spec.backend).lower()}"


def _format_nodes(node_ids: Collection[NodeId] | None) -> str:
    if node_ids is None:
        return FLEET
    joined = ",".join(sorted(set(node_ids)))
    if len(joined) > _IDS_LENGTH_MAX:
        joined = hashlib.sha256(joined.encode()).hexdigest()
    return f"nodes={joined}"


def is_same_request(spec: BackendOperationSpec, stored_request: Mapping[str, Any]) -> bool:
    return _get_compared_fields(spec.to_json()) == _get_compared_fields(
        BackendOperationSpec.from_json(stored_request).to_json()
    )


def _get_compared_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key not in _NOT_COMPARED}
