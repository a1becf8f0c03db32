"""The request for an operation about a model as a value, stored whole with the operation, so that a retry repeats
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.operation import OperationKind

COUNT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperationSpec:
    """Specifies an operation about a model: kind, model, nodes, number of replicas. Stored whole with the operation."""

    kind: OperationKind
    # The model's own name, or an alias.
    model: str
    # For a load: how many more replicas; on different nodes if that is as good, else one after the other on one.
    count: int = 1
    # Names or ids of nodes. None: the best nodes for a load, or all nodes that have the model.
    nodes: tuple[str, ...] | None = None
    # Why the model is needed, as text.
    reason: str = ""
    # The model's run hash at the time of the request.
    run_hash: str = ""
    # For a load: an existing replica is enough.
    if_cold: bool = False
    # For the load of a rule: this many replicas in total are enough, however they were created.
    enough: int | None = None
    # For an unloading: running requests are not waited for.
    is_forced: bool = False
    # For an unloading: these nodes also remove their copies of the model's files. The model itself stays.
    removes_files: bool = False

    @property
    def subject(self) -> str:
        return self.model

    @property
    def deadline_s(self) -> float | None:
        """Return None: a load extends a deadline of its own as it progresses, and the others have none."""
        return None

    def check(self) -> None:
        """Raise if the request is invalid by itself, without a look at the registry."""
        if not 1 <= self.count <= COUNT_MAX:
            raise InvalidRequest(f"Between 1 and {COUNT_MAX} replicas can be requested.", code="bad_count")
        if self.nodes is not None and not self.nodes:
            raise InvalidRequest(
                "The list of nodes is empty.",
                hint="Leave the list out to let Corral choose, or to mean all of them.",
                code="no_nodes",
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "model": self.model,
            "count": self.count,
            "nodes": None if self.nodes is None else list(self.nodes),
            "reason": self.reason,
            "run_hash": self.run_hash,
            "if_cold": self.if_cold,
            "enough": self.enough,
            "is_forced": self.is_forced,
            "removes_files": self.removes_files,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ModelOperationSpec:
        nodes = value.get("nodes")
        return cls(
            kind=OperationKind(value["kind"]),
            model=value["model"],
            count=value.get("count", 1),
            nodes=None if nodes is None else tuple(nodes),
            reason=value.get("reason", ""),
            run_hash=value.get("run_hash", ""),
            if_cold=value.get("if_cold", False),
            enough=value.get("enough"),
            is_forced=value.get("is_forced", False),
            removes_files=value.get("removes_files", False),
        )
