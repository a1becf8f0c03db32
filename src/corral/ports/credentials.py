"""Credentials for the bus, as the registry needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from corral.domain.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class BusCredential:
    """A signed token for the holder of a key; the key itself stays with its owner."""

    token: str
    expires_in_s: float


class BusCredentials(Protocol):
    def mint(self, node: Node, public_key: str) -> BusCredential:
        """A token that allows this node its own subjects and nothing else."""
        ...

    async def revoke(self, public_key: str) -> None:
        """Cut the holder off the bus now, if that is possible here; otherwise its token runs out by itself."""
        ...
