"""Serves the tools of a cluster on standard input and output, through its HTTP API: `corral mcp-server`.

The OpenAPI document comes from the frontend, so that the tools are those of its version; it is read again for every
`tools/list`. Guarantee: only the protocol is written to standard output. A frontend that is away is an error of the
call, and the next call tries again.
"""

from __future__ import annotations

from typing import Any

from mcp.server.stdio import stdio_server

from corral.client.transport import ApiRequest, ApiTransport
from corral.domain.access import Scope
from corral.mcp_server.catalog import ApiTool, ToolCatalog, build_catalog
from corral.mcp_server.server import ToolOptions, ToolServer
from corral.wire.access import CallerOut


class FrontendToolDirectory:
    """Reads the MCP tools that a frontend offers, and the scope of the key, over the API.

    Implements `server.ToolDirectory`.
    """

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport
        self._catalog: ToolCatalog | None = None

    async def list_tools(self, *, is_read_only: bool) -> list[ApiTool]:
        self._catalog = await self._read_catalog()
        caller = await self._transport.fetch(ApiRequest(method="GET", path="/api/me"), CallerOut)
        # A scope that this version does not know is treated as the least one.
        scope = Scope(caller.scope) if caller.scope in set(Scope) else Scope.INFER
        return self._catalog.list_visible(scope, is_read_only=is_read_only)

    async def find_tool(self, name: str) -> ApiTool | None:
        if self._catalog is None:
            self._catalog = await self._read_catalog()
        return self._catalog.find_tool(name)

    async def _read_catalog(self) -> ToolCatalog:
        request = ApiRequest(method="GET", path="/openapi.json")
        return build_catalog(await self._transport.fetch(request, dict[str, Any]))


async def serve_stdio(transport: ApiTransport, options: ToolOptions) -> None:
    """Serve until standard input ends."""
    server = ToolServer(FrontendToolDirectory(transport), transport, options).make_server()
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
