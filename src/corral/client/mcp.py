"""Calls about MCP servers: those that admins declare for everybody, and those of models."""

from __future__ import annotations

from urllib.parse import quote

from corral.client.transport import ApiRequest, ApiTransport
from corral.wire.agents import DeclaredServerIn, DeclaredServerListOut, DeclaredServerOut
from corral.wire.model_servers import ModelServersOut

# A server may take a minute to connect, and a while to list what it has.
DESCRIBE_S = 150.0


class McpCalls:
    """Client-side calls of the HTTP API about MCP servers."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list_servers(self) -> list[DeclaredServerOut]:
        call = ApiRequest(method="GET", path="/api/mcp/servers")
        return (await self._transport.fetch(call, DeclaredServerListOut)).servers

    async def get_server(self, name: str) -> DeclaredServerOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path(name)), DeclaredServerOut)

    async def put_server(self, name: str, server: DeclaredServerIn) -> DeclaredServerOut:
        """Declare a server, and replace the previous one of this name."""
        call = ApiRequest(method="PUT", path=_format_path(name), body=server)
        return await self._transport.fetch(call, DeclaredServerOut)

    async def delete_server(self, name: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path(name)))

    async def describe_model(self, model: str, server: str = "") -> ModelServersOut:
        """Return the servers of a model with what each offers, or one of them."""
        path, parameters = f"/v1/mcp/servers/{quote(model, safe='')}", {"server": server} if server else {}
        call = ApiRequest(method="GET", path=path, parameters=parameters, timeout_s=DESCRIBE_S)
        return await self._transport.fetch(call, ModelServersOut)


def _format_path(name: str) -> str:
    return f"/api/mcp/servers/{quote(name, safe='')}"
