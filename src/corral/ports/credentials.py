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
_MCP_CALL = "mcp:call:"


def make_file_write_scope(key: str) -> str:
    """Return the right to put one file into a node's inbox, and to read it there; with a `/` at the end, all files
    below it."""
    return f"files:write:{key}"


def make_mcp_call_scope(owner: str, server: str, model: str) -> str:
    """Return the right to learn how one MCP server of a model is reached for an owner. Tickets with it are shown to
    `FRONTENDS`."""
    return f"{_MCP_CALL}{owner}:{server}:{model}"


def parse_mcp_call_scope(scope: str) -> tuple[str, str, str] | None:
    """Return owner, server and model of a right to call an MCP server; None for any other right."""
    parts = scope.removeprefix(_MCP_CALL).split(":", 3)
    if not scope.startswith(_MCP_CALL) or len(parts) != 4:
        return None
    kind, owner_id, server, model = parts
    return f"{kind}:{owner_id}", server, model


@dataclass(frozen=True, slots=True, kw_only=True)
class BusCredential:
    """A signed token with which a node connects to NATS; the node's private key stays with the node."""

    token: str
    expires_in_s: float


class BusCredentialIssuer(Protocol):
    """Interface that issues and revokes the NATS tokens of nodes, and signs tickets for files and loads."""

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

    def find_ticket_scope(self, text: str, *, audience: str) -> tuple[str, float] | None:
        """Return the right that a ticket of this cluster grants and for how many more seconds; None if it is no valid
        ticket."""
        ...

    def get_ticket_key(self) -> str:
        """Return the public key that every node checks tickets with."""
        ...

    def derive_key(self, purpose: str) -> bytes:
        """Return 32 secret bytes for a purpose: the same on every frontend and at every time, and stored nowhere. They
        change with the account seed of the bus."""
        ...
