"""Tickets signed by the control plane: a right to read or write files at another machine, or proof of a requested load.

    ct1.<claims>.<signature>      both in base64 without padding; claims are JSON

A ticket names its reader, one right, until when, and at which node (`*`: any). It is signed with the Ed25519 key of the
frontends' account on the bus, which every node knows the public half of; what is signed begins with words that no token
of the bus begins with. Guarantee: `verify_ticket` returns what the control plane has signed for this node and this
moment, or raises. Limit: every holder of a ticket can use it, so those for files are short-lived; and the clock of the
verifying machine decides, with a minute's grace.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import nacl.exceptions
import nacl.signing

from corral.domain.errors import InvalidRequest, NotAllowed, NotAuthenticated
from corral.ports.credentials import ANY_AUDIENCE

TicketSigner = Callable[[bytes], bytes]

_TICKET_PREFIX = "ct1"
_SIGNATURE_PREFIX = b"corral ticket 1\n"
# Clocks of machines differ a little.
GRACE_S = 60.0
# Far above the size of a real ticket, so that no client makes us parse more.
MAX_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A signed permission to read or write model files at another machine, or proof that a load was requested."""

    reader: str
    scope: str
    # Seconds since 1970.
    expires_at: int
    audience: str = ANY_AUDIENCE


def sign_ticket(ticket: Ticket, sign: TicketSigner) -> str:
    claims = {"sub": ticket.reader, "scope": ticket.scope, "exp": ticket.expires_at, "aud": ticket.audience}
    body = _encode(json.dumps(claims, separators=(",", ":"), sort_keys=True).encode())
    return f"{_TICKET_PREFIX}.{body}.{_encode(sign(_SIGNATURE_PREFIX + body.encode()))}"


def verify_ticket(text: str, public_key: str, *, audience: str, scopes: tuple[str, ...], now: datetime) -> Ticket:
    """Return the ticket, if it gives one of these rights, here and now."""
    ticket = read_ticket(text, public_key, audience=audience, now=now)
    if ticket.scope not in scopes:
        raise NotAllowed("This ticket is for something else.", code="ticket_scope")
    return ticket


def read_ticket(text: str, public_key: str, *, audience: str, now: datetime) -> Ticket:
    """Return the ticket, if it is valid here and now, whatever right it gives."""
    if not public_key:
        raise NotAuthenticated(
            "This node has not received the key that tickets are checked with.",
            hint="The key comes with its bus credential: check the node's connection to the frontends.",
            code="no_ticket_key",
        )
    ticket = _parse_ticket(text, public_key)
    if ticket.expires_at + GRACE_S < now.timestamp():
        raise NotAuthenticated("This ticket has expired.", hint="Request a new one.", code="ticket_expired")
    if ticket.audience not in (ANY_AUDIENCE, audience):
        raise NotAllowed("This ticket is for another node.", code="ticket_elsewhere")
    return ticket


def _parse_ticket(text: str, public_key: str) -> Ticket:
    parts = text.split(".") if len(text) <= MAX_CHARACTERS else []
    if len(parts) != 3 or parts[0] != _TICKET_PREFIX:
        raise NotAuthenticated("A ticket is needed here.", code="ticket_needed")
    key = _load_verify_key(public_key)
    try:
        key.verify(_SIGNATURE_PREFIX + parts[1].encode(), _decode(parts[2]))
        claims = json.loads(_decode(parts[1]))
        return Ticket(
            reader=str(claims["sub"]),
            scope=str(claims["scope"]),
            expires_at=int(claims["exp"]),
            audience=str(claims["aud"]),
        )
    except (binascii.Error, ValueError, KeyError, TypeError, nacl.exceptions.CryptoError) as error:
        raise NotAuthenticated("This ticket was not signed by this cluster.", code="ticket_forged") from error


def _load_verify_key(public_key: str) -> nacl.signing.VerifyKey:
    try:
        # A public nkey: prefix byte, 32 bytes of key, two bytes of checksum.
        raw = base64.b32decode(public_key)
        # The library refuses any other length than that of a key.
        return nacl.signing.VerifyKey(raw[1:-2])
    except (binascii.Error, ValueError, nacl.exceptions.CryptoError) as error:
        raise InvalidRequest("The key that tickets are checked with is damaged.", code="bad_ticket_key") from error


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
