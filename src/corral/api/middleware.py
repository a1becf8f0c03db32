"""Outermost ASGI middleware: request ids, limits on bodies, CORS, metrics, and 503 while the frontend starts.

Plain ASGI, because the middleware of the framework would buffer streams.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable

import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.api.deps import ApiDeps
from corral.api.dialects.error_envelopes import OLLAMA_PATHS, find_envelope
from corral.api.dialects.uploads import UPLOAD_ROUTES
from corral.api.errors import TOO_LARGE_HINT
from corral.api.metrics import FrontendMetrics
from corral.api.openai.asgi import ClientDisconnected, parse_declared_length, receive_body, release_body, send_error
from corral.api.openai.routes import MCP_CHAT_PATHS
from corral.api.page.routes import is_page
from corral.domain.errors import CorralError, NotAllowed, StoreUnavailable, TooLarge, Unavailable
from corral.gateway.connection.connection_limits import DRAINED_BYTES_MAX, INFERENCE_BODY_BYTES_MAX
from corral.gateway.connection.http_messages import NO_SNIFF
from corral.gateway.errors import make_envelope
from corral.gateway.request.request_body import check_body_in_slices, check_decodable_in_slices
from corral.runs.artifacts import FILE_BYTES_MAX

log = structlog.get_logger(__name__)
# The level is checked before a line is built: debug logging is nearly always off.
_access = logging.getLogger(__name__)

BODY_BYTES_MAX = 1024 * 1024
# Audio uploads, which are streamed to the engine.
AUDIO_BODY_BYTES_MAX = 1024 * 1024 * 1024
# Model files, which are streamed to the disk.
UPLOAD_BODY_BYTES_MAX = 50 * 1024 * 1024 * 1024
# Files of users, which are streamed to the registry; the form around one takes some bytes, too.
FILE_BODY_BYTES_MAX = FILE_BYTES_MAX + 1024 * 1024
# Paths below /v1 that are FastAPI's and need the registry.
_STORED_PATHS = ("/v1/files", "/v1/batches", "/v1/mcp/servers/", "/v1/mcp/prompts/", "/v1/mcp/resources/")
# Recordings are sent to these paths.
_UPLOAD_PATHS = frozenset(route.path for route in UPLOAD_ROUTES)
# What workers deliver of a batch, files of tools, skills of a repository, and documents.
_BATCH_ANSWERS_PATH = re.compile(r"/api/node/[^/]+/runs/[^/]+/(batch/answers|files|skills|document/chunks)")
# Archives with skills, and forms around files of skills.
_SKILL_FILES_PATH = re.compile(r"/api/agents/skills/(import|[^/]+/resources(/.+)?)")
# Documents of collections, which are streamed to the registry.
_DOCUMENT_PATH = re.compile(r"/api/agents/collections/[^/]+/upload")
# Jobs come with pictures and other attachments, which go into a request to a model.
JOBS_PATH = "/api/agent/jobs/execute"
FILES_PATH = "/v1/files"
_NO_STORE = (b"cache-control", b"no-store")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_NO_REGISTRY = "PostgreSQL does not respond, and this frontend has started without it: only inference works."
# Two paths for one route; clients of vLLM, SGLang and llama.cpp use the first.
_HEALTH = ("/health", "/healthz")
_ALWAYS_SERVED = (*_HEALTH, "/readyz", "/metrics")
# Paths that are served without the registry.
# `/mcp` only passes calls on, each of which is served or refused by its own path.
_SERVED_FROM_MEMORY = frozenset({*_ALWAYS_SERVED, "/api/cluster", "/api/me", "/api/session", "/mcp"})


class EdgeMiddleware:
    """The outermost ASGI layer of the API: request ids, limits on bodies, CORS and metrics.

    It also refuses requests while the frontend is not ready.
    """

    def __init__(self, app: ASGIApp, metrics: FrontendMetrics, deps: ApiDeps) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = deps.clock
        self._ids = deps.ids
        self._get_not_ready_reason = deps.get_not_ready_reason
        self._health = deps.health
        self._budget = deps.gateway.body_budget
        self._slice_runner = deps.slice_runner
        self._cors_policy = deps.cors_policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _parse_request_id(scope) or self._ids.new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = self._clock.monotonic()
        status = 500
        origin = _get_header(scope, b"origin") if self._cors_policy.is_on and _is_cors_path(scope["path"]) else b""
        cors_lines = self._cors_policy.render_response_headers(origin) if origin else []

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    *_list_safe_headers(message.get("headers", ())),
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
            self._metrics.count_response(scope["method"], route, status, seconds)
            if _access.isEnabledFor(logging.DEBUG):
                took_ms = round(seconds * 1000, 1)
                log.debug("answered", method=scope["method"], path=scope["path"], status=status, took_ms=took_ms)

    async def _answer_preflight(self, scope: Scope, send: Send, origin: bytes) -> None:
        """Reply to a CORS preflight request. No key is needed, because browsers send none with it."""
        try:
            lines = self._cors_policy.render_preflight_headers(origin, dict(scope["headers"]))
        except NotAllowed as error:
            await send_error(send, scope["path"], error, scope["state"]["request_id"])
            return
        await send({"type": "http.response.start", "status": 204, "headers": lines})
        await send({"type": "http.response.body", "body": b""})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = None if _is_always_served(scope["path"]) else self._get_not_ready_reason()
        if reason is not None:
            await _refuse(scope, send, _make_unavailable_error(*_explain_not_ready(reason)))
            return
        if self._health.saved_as_of is not None and not _is_from_memory(scope["path"]):
            await _refuse(scope, send, _make_unavailable_error(StoreUnavailable.code, _NO_REGISTRY))
            return
        declared, limit = parse_declared_length(scope), _get_body_limit(scope["path"])
        if declared is not None and declared > limit:
            await _drain(receive)
            await _refuse(scope, send, TooLarge(_describe_too_large(limit), hint=TOO_LARGE_HINT))
            return
        receive = _limit_receive(receive, limit)
        if _is_body_read_here(scope, declared):
            replay = await self._read_body(scope, receive, send)
            if replay is None:
                return
            receive = replay
        await self._app(scope, receive, send)

    async def _read_body(self, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Read a body that a route will decode, and check its size, its nesting, and that the client stays connected.
        Return None if a response was sent here, or the client has disconnected."""
        try:
            body = await receive_body(scope, receive, self._budget)
            check = check_decodable_in_slices if _is_json(scope) else check_body_in_slices
            await check(body, self._slice_runner)
        except ClientDisconnected:
            return None
        except CorralError as error:
            await _refuse(scope, send, error)
        else:
            return _make_replay(body, receive)
        return None


def _list_safe_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the security headers that are added to a response. A JSON response without a `cache-control` of its own
    gets `no-store`."""
    found = {name.lower(): value for name, value in headers}
    lines = [] if NO_SNIFF[0] in found else [NO_SNIFF]
    if _NO_STORE[0] not in found and found.get(b"content-type", b"").startswith(b"application/json"):
        lines.append(_NO_STORE)
    return lines


def _is_always_served(path: str) -> bool:
    """Return whether a path is served even while the frontend starts. The web page is: it shows the progress of the
    start."""
    return path in _ALWAYS_SERVED or is_page(path)


def _is_from_memory(path: str) -> bool:
    return _is_inference(path) or path in _SERVED_FROM_MEMORY or is_page(path)


def _is_cors_path(path: str) -> bool:
    """Return whether web pages of other origins may call a path: calls that models answer, lists of models, health.

    Files, batches, and prompts and resources of MCP servers outlast a page or reach programs: they are for programs.
    """
    return _is_inference(path) or path in _HEALTH


def _get_header(scope: Scope, name: bytes) -> bytes:
    found: bytes = dict(scope["headers"]).get(name, b"")
    return found


def _is_inference(path: str) -> bool:
    if path in OLLAMA_PATHS or path in MCP_CHAT_PATHS:
        return True
    return path.startswith("/v1/") and not path.startswith(_STORED_PATHS)


def _get_body_limit(path: str) -> int:
    if path.startswith("/api/files/"):
        return UPLOAD_BODY_BYTES_MAX
    if path in _UPLOAD_PATHS:
        return AUDIO_BODY_BYTES_MAX
    if path == FILES_PATH or _DOCUMENT_PATH.fullmatch(path):
        return FILE_BODY_BYTES_MAX
    if path == JOBS_PATH or _BATCH_ANSWERS_PATH.fullmatch(path) or _SKILL_FILES_PATH.fullmatch(path):
        return INFERENCE_BODY_BYTES_MAX
    return INFERENCE_BODY_BYTES_MAX if _is_inference(path) else BODY_BYTES_MAX


def _is_body_read_here(scope: Scope, declared: int | None) -> bool:
    """Return whether a body is read here: those of FastAPI's routes are, which would decode them whole. Inference
    routes read their own bodies, and uploads are streamed."""
    path = scope["path"]
    if _is_inference(path) or path == FILES_PATH or path.startswith("/api/files/") or _DOCUMENT_PATH.fullmatch(path):
        return False
    return bool(declared) or any(name == b"transfer-encoding" for name, _ in scope["headers"])


def _is_json(scope: Scope) -> bool:
    """Return whether a body is decoded as JSON. YAML can begin with the same brackets, and has limits of its own."""
    content_type = _get_header(scope, b"content-type").lower()
    return not content_type or b"json" in content_type


def _make_replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` for the application that delivers the whole body first, and then the client's disconnect."""
    is_sent = False

    async def receive_again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _describe_too_large(limit: int) -> str:
    return f"The body is larger than {limit // 1024} KiB."


def _limit_receive(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that counts the bytes that arrive, for bodies without a declared length."""
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # After the last piece, `receive` waits until the client disconnects.
            if message.get("more_body"):
                await _drain(receive)
            # FastAPI passes on only its own kind of error; any other would become a plain 400.
            raise HTTPException(413, _describe_too_large(limit))
        return message

    return receive_counted


async def _drain(receive: Receive) -> None:
    drained = 0
    while drained < DRAINED_BYTES_MAX:
        message = await receive()
        drained += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return


def _explain_not_ready(reason: str) -> tuple[str, str]:
    if reason == "stopping":
        return "stopping", "This frontend is stopping."
    return "starting", f"This frontend is starting: {reason}"


def _parse_request_id(scope: Scope) -> str | None:
    given = dict(scope["headers"]).get(b"x-request-id")
    return given.decode() if given and _REQUEST_ID.fullmatch(given) else None


def _make_unavailable_error(code: str, sentence: str) -> Unavailable:
    return Unavailable(sentence, hint="Try again in a second, or ask another frontend.", code=code)


async def _refuse(scope: Scope, send: Send, error: CorralError) -> None:
    path, request_id = scope["path"], scope["state"]["request_id"]
    own = find_envelope(path)
    if own is not None:
        text = own.render_error(path, error, request_id)
    else:
        text = json.dumps(
            make_envelope(path, error.slug, error.message, hint=error.hint, request_id=request_id)
        ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    if error.status == Unavailable.status:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
