"""Around every request: an id, a limit on the body, numbers, and *not yet* while the frontend starts.

Pure ASGI, because the framework's own middleware would buffer streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.api.errors import envelope
from corral.api.metrics import Metrics
from corral.ports.runtime import Clock, Ids

log = structlog.get_logger(__name__)

BODY_BYTES_MAX = 1024 * 1024
# A client that sends too much reads the answer only when it is done sending; this much we let it.
DRAINED_BYTES_MAX = 64 * 1024 * 1024
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ALWAYS_SERVED = ("/healthz", "/readyz", "/metrics")


class _BodyTooLargeError(Exception):
    pass


class Edge:
    """The outermost layer of the API."""

    def __init__(
        self, app: ASGIApp, *, clock: Clock, ids: Ids, metrics: Metrics, not_ready: Callable[[], str | None]
    ) -> None:
        self._app = app
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._not_ready = not_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope) or self._ids.new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = self._clock.monotonic()
        status = 500
        has_begun = False

        async def send_with_id(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._serve(scope, receive, send_with_id)
        except _BodyTooLargeError:
            if not has_begun:
                await _refuse(send_with_id, 413, "body_too_large", _too_large_sentence(), request_id, scope)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.answered(scope["method"], route, status, self._clock.monotonic() - started)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = None if scope["path"] in _ALWAYS_SERVED else self._not_ready()
        if reason is not None:
            await _refuse(send, 503, "starting", f"This frontend is starting: {reason}", None, scope)
            return
        declared = _content_length(scope)
        if declared is not None and declared > BODY_BYTES_MAX:
            await _drain(receive)
            raise _BodyTooLargeError
        await self._app(scope, _limited(receive), send)


def _limited(receive: Receive) -> Receive:
    """Count what arrives, for bodies that do not say how long they are."""
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BODY_BYTES_MAX:
            await _drain(receive)
            raise _BodyTooLargeError
        return message

    return receive_counted


async def _drain(receive: Receive) -> None:
    drained = 0
    while drained < DRAINED_BYTES_MAX:
        message = await receive()
        drained += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return


def _too_large_sentence() -> str:
    return f"The body is larger than {BODY_BYTES_MAX // 1024} KiB."


def _request_id(scope: Scope) -> str | None:
    given = dict(scope["headers"]).get(b"x-request-id")
    return given.decode() if given and _REQUEST_ID.fullmatch(given) else None


def _content_length(scope: Scope) -> int | None:
    given = dict(scope["headers"]).get(b"content-length", b"")
    return int(given) if given.isdigit() else None


async def _refuse(send: Send, status: int, code: str, sentence: str, request_id: str | None, scope: Scope) -> None:
    body = json.dumps(envelope(scope["path"], code, sentence, request_id=request_id)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
