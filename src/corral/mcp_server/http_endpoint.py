"""Answers one POST of an MCP client over streamable HTTP, without a session: any frontend answers any request.

A tool calls the route in this process, through the same ASGI application and with the caller's own credentials, so that
scopes, limits, audit and errors are those of the API. Each request has a server and a session manager of its own, which
end with it. Limit: a response is one JSON document and never a stream; no request is sent to the client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.client.transport import (
    RESPONSE_BYTES_MAX,
    ApiRequest,
    make_error_from_response,
    make_unexpected_response_error,
)
from corral.domain.access import Scope as KeyScope
from corral.domain.errors import CorralError
from corral.mcp_server.catalog import ApiTool, ToolCatalog, build_catalog
from corral.mcp_server.server import NAME, ToolOptions, ToolServer
from corral.runtime.attempt import AttemptFailure, attempt

# What makes the inner request one of the same caller. Everything else of the outer request stays outside.
_PASSED_HEADERS = frozenset({b"authorization", b"x-api-key", b"cookie", b"x-corral-request", b"host", b"user-agent"})


class InProcessTransport:
    """Calls API routes inside the frontend in the name of the caller of an MCP tool.

    Implements `server.ApiSender`.
    """

    def __init__(self, app: ASGIApp, outer: Scope) -> None:
        self._app = app
        self._outer = outer

    async def send(self, request: ApiRequest) -> bytes:
        body = _render_body(request.body)
        response = _ResponseCollector()
        outcome = await attempt(lambda: self._app(self._make_scope(request, body), _make_receive(body), response.send))
        if response.overflow is not None:
            raise response.overflow
        # The framework answers an unexpected error with 500 and raises it again, for the log of the server.
        if isinstance(outcome, AttemptFailure) and not response.is_error:
            raise outcome.error
        if not response.is_success:
            raise make_error_from_response(response.status, response.body, origin=NAME)
        return response.body

    def _make_scope(self, request: ApiRequest, body: bytes) -> Scope:
        headers = [(name, value) for name, value in self._outer["headers"] if name in _PASSED_HEADERS]
        headers += [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
        headers += [(b"accept", b"application/json"), (b"content-length", str(len(body)).encode())]
        if body:
            headers.append((b"content-type", b"application/json"))
        # Log lines of the tool have the id of the request that called it.
        request_id = self._outer.get("state", {}).get("request_id")
        if request_id:
            headers.append((b"x-request-id", request_id.encode()))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": self._outer.get("scheme", "http"),
            "path": unquote(request.path),
            "raw_path": request.path.encode(),
            "root_path": "",
            "query_string": urlencode(request.parameters).encode(),
            "headers": headers,
            "client": self._outer.get("client"),
            "server": self._outer.get("server"),
            "state": {},
        }


class _ResponseCollector:
    """Collects status and body of a response, up to the size that a client of the API accepts."""

    def __init__(self) -> None:
        # 0 until the response begins.
        self.status = 0
        # Set, and raised into the application to end it, when the response is too large.
        self.overflow: CorralError | None = None
        self._parts: list[bytes] = []
        self._size_bytes = 0

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_error(self) -> bool:
        return self.status >= 400

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        part = message.get("body", b"")
        self._size_bytes += len(part)
        if self._size_bytes > RESPONSE_BYTES_MAX:
            self.overflow = make_unexpected_response_error(NAME, "the response is larger than any of Corral")
            raise self.overflow
        self._parts.append(part)


def _make_receive(body: bytes) -> Receive:
    messages: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        for message in messages:
            return message
        # The caller stays until the response is there.
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def _render_body(body: BaseModel | Mapping[str, Any] | None) -> bytes:
    assert not isinstance(body, BaseModel), "tools send mappings"
    return b"" if body is None else json.dumps(body).encode()


@dataclass(frozen=True, slots=True)
class _CallerToolDirectory:
    """The tools of this frontend, and the scope of the caller of one request. Implements `server.ToolDirectory`."""

    catalog: ToolCatalog
    scope: KeyScope

    async def list_tools(self, *, is_read_only: bool) -> list[ApiTool]:
        return self.catalog.list_visible(self.scope, is_read_only=is_read_only)

    async def find_tool(self, name: str) -> ApiTool | None:
        return self.catalog.find_tool(name)


class HttpToolEndpoint:
    """Answers MCP requests to the frontend's own MCP server at `/mcp`, which a route has authenticated.

    Made once for each application, from its OpenAPI document; `app` gets the calls of the tools.
    """

    def __init__(self, document: Mapping[str, Any], app: ASGIApp, options: ToolOptions) -> None:
        self._catalog = build_catalog(document)
        self._app = app
        self._options = options

    async def answer(self, caller_scope: KeyScope, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST of a caller with this scope."""
        directory = _CallerToolDirectory(self._catalog, caller_scope)
        tools = ToolServer(directory, InProcessTransport(self._app, scope), self._options)
        manager = StreamableHTTPSessionManager(tools.make_server(), json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)
