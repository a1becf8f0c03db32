"""What was asked for of a model, as a value: kept whole with the operation, so that a retry asks for the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.domain.operation import OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    kind: OperationKind
    # Its own name, or an alias.
    model: str
    # Of a load: how many replicas more; on different nodes if that is as good, else one after the other on one.
    count: int = 1
    # Names or ids of nodes. None: wherever it is best, or wherever it is.
    nodes: tuple[str, ...] | None = None
    # Who needs it, in words.
    reason: str = ""
    # The model's run hash when it was asked for.
    run_hash: str = ""
    # Of a load: a replica that is there already is enough.
    if_cold: bool = False
    # Of a load for a rule: so many in all are enough, whoever has brought them.
    enough: int | None = None
    # Of an unloading: what is being answered is not waited for.
    is_forced: bool = False
    # Of an unloading: these nodes also remove their copies of the model's files. The model itself stays.
    removes_files: bool = False

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
    def from_json(cls, value: Mapping[str, Any]) -> Wanted:
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
