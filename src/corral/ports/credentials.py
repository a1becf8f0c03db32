"""Credentials for the bus, and tickets for files between nodes and for loads, as the registry needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from corral.domain.node import Node

# Rights that a ticket can give, and "at any node".
READS_BLOBS = "blobs:read"
# Whom a frontend's own tickets are for: what its peers hold is read with them.
FRONTENDS = "frontends"
ANYWHERE = "*"


def writes_file(key: str) -> str:
    """The right to put one file into a node's inbox, and to read it there; with a `/` at the end, all below it."""
    return f"files:write:{key}"


def runs_model(model: str, index: int, run_hash: str) -> str:
    """Return the right to run one replica of a model as it is with this run hash. Tickets with it are shown to
    `FRONTENDS`."""
    return f"models:run:{index}:{run_hash}:{model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusCredential:
    """A signed token for the holder of a key; the key itself stays with its owner."""

    token: str
    expires_in_s: float


class BusCredentials(Protocol):
    def mint(self, node: Node, public_key: str) -> BusCredential:
        """A token that allows this node its own subjects and nothing else."""
        ...

    async def revoke(self, *public_keys: str) -> None:
        """Cut the holders off the bus now, if that is possible here; otherwise their tokens run out by themselves."""
        ...

    def ticket(self, reader: str, scope: str, *, audience: str = ANYWHERE, ttl_s: float) -> str:
        """Lets the node `reader` do this at the node `audience`. It cannot be taken back: let it be short."""
        ...

    def is_valid_ticket(self, text: str, *, reader: str, scope: str, audience: str) -> bool:
        """Whether this cluster has signed this ticket for `reader`, with this right, and it has not run out."""
        ...

    def ticket_key(self) -> str:
        """What tickets are checked with: told to every node."""
        ...
