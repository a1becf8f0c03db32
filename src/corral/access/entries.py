"""What the directory holds of each caller: as much as a call is checked against."""

from __future__ import annotations

from dataclasses import dataclass

from corral.domain.access import Principal
from corral.domain.node import NodeId, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """What a call by a node is checked against."""

    id: NodeId
    name: str
    type: NodeType
    credential_hash: str
    boot_id: str
    is_approved: bool
    is_draining: bool
    has_left: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a secret, and until when."""

    principal: Principal
    expires_monotonic: float | None

    def is_valid(self, now: float) -> bool:
        return self.expires_monotonic is None or self.expires_monotonic > now
