"""What was asked for, as a value: kept whole with the operation, so that a retry asks for exactly the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.domain.operation import OperationKind, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    kind: OperationKind
    # As it was written: a meta, a concrete, an alias, or gallery@name. With a `uri` it is the name to install it under.
    backend: str
    # Names or ids of nodes. None: every node that may have it; an empty tuple is refused, it never means "all".
    nodes: tuple[str, ...] | None = None
    version: str = ""
    # A source outside every gallery.
    uri: str = ""
    alias: str = ""
    sha256: str = ""
    # Install a build although the node's hardware does not ask for it.
    ignores_capability: bool = False
    # How long an absent node may owe it; None: for ever.
    deadline_s: float | None = None
    strategy: Strategy = field(default_factory=Strategy)

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
    def from_json(cls, value: Mapping[str, Any]) -> Asked:
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
            strategy=Strategy(
                waves=tuple(strategy.get("waves", ())),
                stops_on_failure=strategy.get("stops_on_failure", False),
                rolls_back=strategy.get("rolls_back", False),
            ),
        )
