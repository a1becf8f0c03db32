"""Credentials for the bus, and tickets for files between nodes and for loads, as the registry needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from corral.domain.node import Node

# The rights that a ticket can grant, and the audience "any node".
BLOB_READ_SCOPE = "blobs:read"
# The audience of tickets with which frontends read each other's contents.
FRONTENDS_AUDIENCE = "frontends"
ANY_AUDIENCE = "*"


def make_file_write_scope(key: str) -> str:
    """Return the right to put one file into a node's inbox, and to read it there; with a `/` at the end, all files
    below it."""
    return f"files:write:{key}"


def make_model_run_scope(model: str, index: int, run_hash: str) -> str:
    """Return the right to run one replica of a model as it is with this run hash. Tickets with it are shown to
    `FRONTENDS`."""
    return f"models:run:{index}:{run_hash}:{model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusCredential:
    """Holds a signed bus token for the holder of a key; the key itself stays with its owner."""

    token: str
    expires_in_s: float


class BusCredentialIssuer(Protocol):
    """Issues and revokes the bus tokens of nodes, and issues and checks tickets for files and loads."""

    def mint(self, node: Node, public_key: str) -> BusCredential:
        """Return a token that allows this node its own subjects and nothing else."""
        ...

    async def revoke(self, *public_keys: str) -> None:
        """Disconnect the holders from the bus now, if that is possible here; otherwise their tokens expire by
        themselves."""
        ...

    def issue_ticket(self, reader: str, scope: str, *, audience: str = ANY_AUDIENCE, ttl_s: float) -> str:
        """Return a ticket that grants the node `reader` this right at the node `audience`. It cannot be revoked, so
        keep `ttl_s` short."""
        ...

    def is_valid_ticket(self, text: str, *, reader: str, scope: str, audience: str) -> bool:
        """Return whether this cluster has signed this ticket for `reader`, with this right, and it has not expired."""
        ...

    def get_ticket_key(self) -> str:
        """Return the public key that every node checks tickets with."""
        ...
