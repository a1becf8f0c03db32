"""Around every request: an id, a limit on the body, numbers, and *not yet* while the frontend starts.

Pure ASGI, because the framework's own middleware would buffer streams.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable

import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.api.dialects.envelopes import OLLAMA_PATHS, envelope_for
from corral.api.errors import TOO_LARGE_HINT, envelope
from corral.api.metrics import Metrics
from corral.api.openai import errors as openai_errors
from corral.api.openai.body import check_in_slices
from corral.api.openai.receive import ClientLeft, declared_length, receive_body, release_body
from corral.api.page.routes import is_page
from corral.api.parts import Parts
from corral.domain.errors import CorralError, NotAllowed, StoreUnavailable, TooLarge, Unavailable

log = structlog.get_logger(__name__)
# Asked before a line is built: nearly always nobody wants it.
_access = logging.getLogger(__name__)

BODY_BYTES_MAX = 1024 * 1024
# Chats carry pictures and long documents.
INFERENCE_BODY_BYTES_MAX = 32 * 1024 * 1024
# Recordings; they go to the engine as they come.
AUDIO_BODY_BYTES_MAX = 1024 * 1024 * 1024
# Files of models; they go to the disk as they come.
UPLOAD_BODY_BYTES_MAX = 50 * 1024 * 1024 * 1024
# A client that sends too much reads the answer only when it is done sending; this much we let it.
DRAINED_BYTES_MAX = 64 * 1024 * 1024
# A browser takes an answer for what it says it is.
NO_SNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_NO_REGISTRY = "PostgreSQL cannot be reached, and this frontend has started without it: it can only serve models."
# Two names for one answer; the first is what clients of vLLM, SGLang and llama.cpp ask for.
_HEALTH = ("/health", "/healthz")
_ALWAYS_SERVED = (*_HEALTH, "/readyz", "/metrics")
# What is answered without the registry.
_FROM_MEMORY = frozenset({*_ALWAYS_SERVED, "/api/cluster", "/api/me", "/api/session"})


class Edge:
    """The outermost layer of the API."""

    def __init__(self, app: ASGIApp, metrics: Metrics, parts: Parts) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = parts.clock
        self._ids = parts.ids
        self._not_ready = parts.not_ready
        self._health = parts.health
        self._budget = parts.gateway.body_budget
        self._slices = parts.slices
        self._origins = parts.origins

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
        origin = _header(scope, b"origin") if self._origins.is_on and _is_open_to_pages(scope["path"]) else b""
        cors_lines = self._origins.response_lines(origin) if origin else []

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    *_safe_lines(message.get("headers", ())),
                    (b"x-request-id", request_id.encode()),
                    *cors_lines,
                ]
                if self._health.is_stopping:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            if origin and scope["method"] == "OPTIONS":
                await self._answer_preflight(scope, send_with_id, origin)
            else:
                await self._serve(scope, receive, send_with_id)
        finally:
            release_body(scope)
            route = getattr(scope.get("route"), "path", "other")
            seconds = self._clock.monotonic() - started
            self._metrics.answered(scope["method"], route, status, seconds)
            if _access.isEnabledFor(logging.DEBUG):
                took_ms = round(seconds * 1000, 1)
                log.debug("answered", method=scope["method"], path=scope["path"], status=status, took_ms=took_ms)

    async def _answer_preflight(self, scope: Scope, send: Send, origin: bytes) -> None:
        """Tell a browser what a page of this origin may send, without a key: browsers send none with this question."""
        try:
            lines = self._origins.preflight_lines(origin, dict(scope["headers"]))
        except NotAllowed as error:
            await openai_errors.answer(send, scope["path"], error, scope["state"]["request_id"])
            return
        await send({"type": "http.response.start", "status": 204, "headers": lines})
        await send({"type": "http.response.body", "body": b""})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = None if _is_always_served(scope["path"]) else self._not_ready()
        if reason is not None:
            await _refuse(scope, send, _unavailable(*_why_not(reason)))
            return
        if self._health.kept_as_of is not None and not _is_from_memory(scope["path"]):
            await _refuse(scope, send, _unavailable(StoreUnavailable.code, _NO_REGISTRY))
            return
        declared, limit = declared_length(scope), _limit(scope["path"])
        if declared is not None and declared > limit:
            await _drain(receive)
            await _refuse(scope, send, TooLarge(_too_large(limit), hint=TOO_LARGE_HINT))
            return
        receive = _limited(receive, limit)
        if _is_read_here(scope, declared):
            replay = await self._read(scope, receive, send)
            if replay is None:
                return
            receive = replay
        await self._app(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Read a body that a route decodes, before it does: its size, its shape, and whether its client stays. None: it
        was answered here, or nobody waits for an answer."""
        try:
            body = await receive_body(scope, receive, self._budget)
            if body.lstrip()[:1] in (b"{", b"["):
                await check_in_slices(body, self._slices)
        except ClientLeft:
            return None
        except CorralError as error:
            await _refuse(scope, send, error)
        else:
            return _replayed(body, receive)
        return None


def _safe_lines(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """What every answer says beside its own lines; one of JSON is kept by nobody unless it says otherwise."""
    found = {name.lower(): value for name, value in headers}
    lines = [] if NO_SNIFF[0] in found else [NO_SNIFF]
    if _NO_STORE[0] not in found and found.get(b"content-type", b"").startswith(b"application/json"):
        lines.append(_NO_STORE)
    return lines


def _is_always_served(path: str) -> bool:
    """Also while the frontend starts: the page tells whoever looks what is going on."""
    return path in _ALWAYS_SERVED or is_page(path)


def _is_from_memory(path: str) -> bool:
    return _is_inference(path) or path in _FROM_MEMORY or is_page(path)


def _is_open_to_pages(path: str) -> bool:
    return _is_inference(path) or path in _HEALTH


def _header(scope: Scope, name: bytes) -> bytes:
    found: bytes = dict(scope["headers"]).get(name, b"")
    return found


def _is_inference(path: str) -> bool:
    return path.startswith("/v1/") or path in OLLAMA_PATHS


def _limit(path: str) -> int:
    if path.startswith("/api/files/"):
        return UPLOAD_BODY_BYTES_MAX
    if path.startswith("/v1/audio/"):
        return AUDIO_BODY_BYTES_MAX
    return INFERENCE_BODY_BYTES_MAX if _is_inference(path) else BODY_BYTES_MAX


def _is_read_here(scope: Scope, declared: int | None) -> bool:
    """Whether a body is for a route of the framework, which would decode it whole. Models' calls read their own, and
    files are written as they come."""
    path = scope["path"]
    if _is_inference(path) or path.startswith("/api/files/"):
        return False
    return bool(declared) or any(name == b"transfer-encoding" for name, _ in scope["headers"])


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body at once, and then whether its client leaves."""
    is_told = False

    async def receive_again() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _too_large(limit: int) -> str:
    return f"The body is larger than {limit // 1024} KiB."


def _limited(receive: Receive, limit: int) -> Receive:
    """Count what arrives, for bodies that do not say how long they are."""
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # Whoever waits for more after the last piece waits until the client leaves.
            if message.get("more_body"):
                await _drain(receive)
            # The framework passes on its own kind of error only; any other would become a plain 400.
            raise HTTPException(413, _too_large(limit))
        return message

    return receive_counted


async def _drain(receive: Receive) -> None:
    drained = 0
    while drained < DRAINED_BYTES_MAX:
        message = await receive()
        drained += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return


def _why_not(reason: str) -> tuple[str, str]:
    if reason == "stopping":
        return "stopping", "This frontend is stopping."
    return "starting", f"This frontend is starting: {reason}"


def _request_id(scope: Scope) -> str | None:
    given = dict(scope["headers"]).get(b"x-request-id")
    return given.decode() if given and _REQUEST_ID.fullmatch(given) else None


def _unavailable(code: str, sentence: str) -> Unavailable:
    return Unavailable(sentence, hint="Try again in a second, or ask another frontend.", code=code)


async def _refuse(scope: Scope, send: Send, error: CorralError) -> None:
    path, request_id = scope["path"], scope["state"]["request_id"]
    own = envelope_for(path)
    if own is not None:
        text = own.rendered(path, error, request_id)
    else:
        text = json.dumps(envelope(path, error.slug, error.message, hint=error.hint, request_id=request_id)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    if error.status == Unavailable.status:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
