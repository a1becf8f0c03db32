"""Bus credentials of nodes: minted from the account's seed, revoked in the background when a node is removed.

Tickets for files and for loads are signed with the same seed.
"""

from __future__ import annotations

import math

import structlog

from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.nats.revocation import CredentialRevoker
from corral.bus.subjects import BusRole
from corral.domain.errors import CorralError
from corral.domain.node import Node, NodeType
from corral.ports.credentials import ANY_AUDIENCE, BusCredential
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.transfer.tickets import Ticket, sign_ticket, verify_ticket

log = structlog.get_logger(__name__)


class NodeCredentialIssuer:
    """Issues and revokes the bus credentials of nodes, and signs tickets with the same seed. Implements
    `BusCredentialIssuer`."""

    name = "node credentials"

    def __init__(self, minter: UserTokenIssuer, revoker: CredentialRevoker, *, ttl_s: float, clock: Clock) -> None:
        self._minter = minter
        self._revoker = revoker
        self._ttl_s = ttl_s
        self._clock = clock
        self._tasks = TaskSet("revocations")

    def mint(self, node: Node, public_key: str) -> BusCredential:
        role = BusRole.AGENT if node.type is NodeType.AGENT else BusRole.WORKER
        token = self._minter.mint(
            role, public_key, subject_id=node.id, name=node.name, ttl_s=self._ttl_s, now=self._clock.wall()
        )
        return BusCredential(token=token, expires_in_s=self._ttl_s)

    async def revoke(self, *public_keys: str) -> None:
        """Start to revoke the credential in the background; does not wait for the server's confirmation."""
        if self._revoker.can_revoke:
            self._tasks.start(self._revoke(public_keys), name="revoke")
        else:
            log.info("bus credential not revoked: no operator seed; it runs out by itself", within_s=self._ttl_s)

    def issue_ticket(self, reader: str, scope: str, *, audience: str = ANY_AUDIENCE, ttl_s: float) -> str:
        expires_at = math.ceil(self._clock.wall().timestamp() + ttl_s)
        ticket = Ticket(reader=reader, scope=scope, expires_at=expires_at, audience=audience)
        return sign_ticket(ticket, self._minter.sign)

    def is_valid_ticket(self, text: str, *, reader: str, scope: str, audience: str) -> bool:
        try:
            ticket = verify_ticket(
                text, self._minter.account_public, audience=audience, scopes=(scope,), now=self._clock.wall()
            )
        except CorralError:
            return False
        return ticket.reader == reader

    def get_ticket_key(self) -> str:
        return self._minter.account_public

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._tasks.join()

    async def _revoke(self, public_keys: tuple[str, ...]) -> None:
        outcome = await attempt(lambda: self._revoker.revoke(*public_keys))
        if isinstance(outcome, AttemptFailure):
            log.warning("bus credential not revoked; it runs out by itself", error=outcome.sentence)
