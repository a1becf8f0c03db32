"""Receives the body of a request from an ASGI server, notices that the client has left, and sends errors.

Guarantee: a body with a declared length takes its bytes from the budget before the first of them is kept, one without
takes them as they come. They are given back when the request ends (`release_body`). A client that leaves in the middle
of its body is not our error: `ClientDisconnected`, which is neither logged nor answered. A body stays within the bytes
that its key and its frontend may have under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from corral.api.errors import TOO_LARGE_HINT
from corral.domain.errors import CorralError, TooLarge
from corral.gateway.errors import render_error, render_error_headers
from corral.runtime.byte_budget import ByteBudget, ByteLease
from corral.runtime.tasks import TaskSet

# Smaller bodies are not counted, because their memory is bounded by the number of connections.
UNCOUNTED_BYTES = 64 * 1024
_LEASE = "body_lease"


class ClientDisconnected(Exception):
    """Raised when the client disconnected before its request was complete."""


async def receive_body(scope: Scope, receive: Receive, budget: ByteBudget, key_id: str = "") -> bytes:
    """Return the whole body. Raises `LimitReached` or `Unavailable` if too much is under way.

    Bytes that this request has taken before are given back first, so that each request has one lease."""
    release_body(scope)
    lease = scope["state"][_LEASE] = ByteLease(budget, key_id)
    declared = parse_declared_length(scope) or 0
    if declared > UNCOUNTED_BYTES:
        lease.take(declared)
    pieces: list[bytes] = []
    size_bytes, has_more = 0, True
    while has_more:
        message = await _receive_next(receive)
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        if piece := message.get("body", b""):
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > UNCOUNTED_BYTES:
                lease.grow_to(size_bytes, UNCOUNTED_BYTES)
        has_more = message.get("more_body", False)
    return b"".join(pieces)


async def _receive_next(receive: Receive) -> Message:
    try:
        return await receive()
    except HTTPException as error:
        if error.status_code != TooLarge.status:
            raise
        # The body had no declared length.
        raise TooLarge(error.detail, hint=TOO_LARGE_HINT) from error


def release_body(scope: Scope) -> None:
    """Give the bytes of a body back to the budget when its request has ended."""
    lease: ByteLease | None = scope["state"].pop(_LEASE, None)
    if lease is not None:
        lease.release()


def parse_declared_length(scope: Scope) -> int | None:
    """Return the declared length of a request's body; None without one."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


async def run_until_disconnect(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Run the work until it is done, or cancel it when the client disconnects. The body must have been read before."""
    has_left = False
    watching = TaskSet("client")

    async def watch(scope: asyncio.Timeout) -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            continue
        has_left = True
        scope.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as scope:
            watching.start(watch(scope), name="watch")
            await work()
    except TimeoutError:
        if not has_left:
            raise
    finally:
        await watching.close()


async def send_error(send: Send, path: str, error: CorralError, request_id: str | None) -> None:
    """Send an error in OpenAI's shape."""
    body = render_error(path, error, request_id)
    plain = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error.status, "headers": plain + render_error_headers(error)})
    await send({"type": "http.response.body", "body": body})
