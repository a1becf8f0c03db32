"""What the directory knows as plain data, for a frontend that has to start without its registry.

Hashes only: whoever reads it learns names, not secrets. Ends are told by the wall clock, because the other one does not
outlive a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from corral.access.entries import Holder, NodeEntry
from corral.domain.access import KeyLimit, Principal, Scope
from corral.domain.node import NodeType

# Named here, because `asdict` copies whatever it meets: fifty times as slow, while requests wait.
_OF_PRINCIPAL = tuple(field.name for field in fields(Principal))
_OF_NODE = tuple(field.name for field in fields(NodeEntry))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Both clocks at once, to turn the one into the other."""

    monotonic: float
    wall: datetime

    def to_wall(self, monotonic: float | None) -> float | None:
        return None if monotonic is None else self.wall.timestamp() + monotonic - self.monotonic

    def to_monotonic(self, wall_s: float | None) -> float | None:
        return None if wall_s is None else self.monotonic + wall_s - self.wall.timestamp()


def holders_to_kept(holders: Mapping[str, Holder], now: Moment) -> list[dict[str, Any]]:
    return [
        {
            "hash": hashed,
            "principal": _principal_to_kept(holder.principal),
            "expires_at": now.to_wall(holder.expires_monotonic),
        }
        for hashed, holder in holders.items()
    ]


def holders_from_kept(rows: Iterable[Mapping[str, Any]], now: Moment) -> dict[str, Holder]:
    return {row["hash"]: Holder(_principal(row["principal"]), now.to_monotonic(row["expires_at"])) for row in rows}


def nodes_to_kept(nodes: Iterable[NodeEntry]) -> list[dict[str, Any]]:
    return [{name: getattr(node, name) for name in _OF_NODE} for node in nodes]


def nodes_from_kept(rows: Iterable[Mapping[str, Any]]) -> dict[str, NodeEntry]:
    return {row["id"]: NodeEntry(**{**row, "type": NodeType(row["type"])}) for row in rows}


def _principal_to_kept(principal: Principal) -> dict[str, Any]:
    plain = {name: getattr(principal, name) for name in _OF_PRINCIPAL}
    if principal.limits:
        plain["limits"] = [asdict(limit) for limit in principal.limits]
    return plain


def _principal(kept: Mapping[str, Any]) -> Principal:
    models = kept["models"]
    changes = {
        "scope": Scope(kept["scope"]),
        "models": None if models is None else tuple(models),
        "limits": tuple(KeyLimit(**limit) for limit in kept["limits"]),
    }
    return Principal(**{**kept, **changes})
