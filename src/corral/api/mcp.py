"""`/mcp`: the admin API as tools of the Model Context Protocol, over streamable HTTP without sessions.

The route authenticates as any other and refuses pages of foreign origins; `mcp_server` answers. It is imported at the
first request, in a thread, because that takes a third of a second. Limit: the route is not in the OpenAPI document. Its
successful responses and the errors of the protocol have the form of JSON-RPC, which the specification of MCP describes;
refusals before the protocol begins (401, 403, 413, 503) have the form of all other routes.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from corral.api.deps import AnyCallerIn, ApiDeps, DepsIn
from corral.domain.access import Scope
from corral.domain.errors import NotAllowed

if TYPE_CHECKING:
    from corral.mcp_server.http_endpoint import HttpToolEndpoint

router = APIRouter()
_PORTS = {"http": 80, "https": 443}


class McpEndpointLoader:
    """Makes the frontend's own MCP endpoint (`/mcp`) at its first request. `edge` gets the calls of the tools."""

    def __init__(self, app: FastAPI, edge: ASGIApp, deps: ApiDeps) -> None:
        self._app = app
        self._edge = edge
        self._is_read_only = deps.mcp_read_only
        self._endpoint: HttpToolEndpoint | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> HttpToolEndpoint:
        async with self._lock:
            if self._endpoint is None:
                self._endpoint = await asyncio.to_thread(self._make_endpoint)
            return self._endpoint

    def _make_endpoint(self) -> HttpToolEndpoint:
        from corral.mcp_server.http_endpoint import HttpToolEndpoint  # noqa: PLC0415 - takes a third of a second
        from corral.mcp_server.server import ToolOptions  # noqa: PLC0415 - the same

        options = ToolOptions(is_read_only=self._is_read_only)
        return HttpToolEndpoint(self._app.openapi(), self._edge, options)


class _McpResponse(Response):
    """The response to one MCP request, which the endpoint writes itself."""

    def __init__(self, endpoint: HttpToolEndpoint, caller_scope: Scope) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._caller_scope = caller_scope

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await self._endpoint.answer(self._caller_scope, scope, receive, send)


# GET and DELETE are 405, as the specification says for a server without streams and sessions.
@router.post("/mcp", include_in_schema=False)
async def answer_mcp(request: Request, deps: DepsIn, caller: AnyCallerIn) -> Response:
    """Answer one request of an MCP client."""
    _check_origin(request, deps)
    loader: McpEndpointLoader = request.app.state.mcp_loader
    return _McpResponse(await loader.load(), caller.scope)


def _check_origin(request: Request, deps: ApiDeps) -> None:
    """Refuse a page of a foreign origin. Programs send no origin.

    A name that a page has made to point here (DNS rebinding) is in the page's origin and in `Host` alike. So only an
    origin that is an address, which no name service redirects, counts as our own because it equals `Host`.
    """
    origin = request.headers.get("origin")
    if origin is None or deps.cors_policy.has_named(origin.encode("latin-1")):
        return
    given = _parse_origin(origin)
    own = [_parse_origin(deps.public_url)] if deps.public_url else []
    if _is_address(given.hostname or ""):
        own.append(_parse_origin(str(request.base_url)))
    if any(_make_key(given) == _make_key(one) for one in own):
        return
    raise NotAllowed(
        f"Pages of {origin[:200]} may not use MCP tools.",
        hint="Set public_url if this is the address of the frontends, or add the origin to the setting cors_origins.",
        code="origin_not_allowed",
    )


def _parse_origin(text: str) -> SplitResult:
    try:
        found = urlsplit(text)
        _ = found.port
    except ValueError:
        return urlsplit("")
    return found


def _make_key(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _is_address(host: str) -> bool:
    """Return whether a host is an IP address or `localhost`, which browsers do not look up."""
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
