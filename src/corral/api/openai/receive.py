"""Receives the whole body of a request, within the bytes that its key and its frontend may have under way.

Guarantee: a body that says how long it is takes its bytes from the budget before the first of them is kept, one that
does not takes them as they come. They are given back when the request ends (`release_body`). A client that leaves in
the middle of its body is no error of ours: `ClientLeft`, which nobody logs and nobody answers.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from corral.api.errors import TOO_LARGE_HINT
from corral.domain.errors import TooLarge
from corral.runtime.byte_budget import ByteBudget, ByteLease

# Smaller bodies are not counted: what they take is bounded by the number of connections.
UNCOUNTED_BYTES = 64 * 1024
_LEASE = "body_lease"


class ClientLeft(Exception):
    """The client went away before its request was whole."""


async def receive_body(scope: Scope, receive: Receive, budget: ByteBudget, key_id: str = "") -> bytes:
    """All of it. `LimitReached`, `Unavailable`: too much is under way."""
    lease = scope["state"][_LEASE] = ByteLease(budget, key_id)
    declared = declared_length(scope) or 0
    if declared > UNCOUNTED_BYTES:
        lease.take(declared)
    pieces: list[bytes] = []
    size_bytes, has_more = 0, True
    while has_more:
        message = await _next(receive)
        if message["type"] == "http.disconnect":
            raise ClientLeft
        if piece := message.get("body", b""):
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > UNCOUNTED_BYTES:
                lease.grow_to(size_bytes, UNCOUNTED_BYTES)
        has_more = message.get("more_body", False)
    return b"".join(pieces)


async def _next(receive: Receive) -> Message:
    try:
        return await receive()
    except HTTPException as error:
        if error.status_code != TooLarge.status:
            raise
        # A body that did not say how long it is.
        raise TooLarge(error.detail, hint=TOO_LARGE_HINT) from error


def release_body(scope: Scope) -> None:
    """The request has ended."""
    lease: ByteLease | None = scope["state"].pop(_LEASE, None)
    if lease is not None:
        lease.release()


def declared_length(scope: Scope) -> int | None:
    """The length that the head of a request says its body has."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None
