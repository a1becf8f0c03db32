"""MCP clients of the official library, over HTTP and over standard streams."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client

from tests.support.frontends import ADMIN_KEY, RunningFrontend

# What clients speak today: one request after the other without a handshake, and the handshake of before.
MODES = ("2026-07-28", "legacy")
# Far above what an answer takes on a busy machine; a hanging call fails the test instead of the run.
READ_LIMIT_S = 60.0


@asynccontextmanager
async def connect(
    frontend: RunningFrontend, key: str = ADMIN_KEY, *, mode: str = "auto", others: Sequence[RunningFrontend] = ()
) -> AsyncIterator[Client]:
    """Connect over HTTP. With `others`, each request goes to the next frontend in turn."""
    transport = AlternatingTransport([frontend, *others])
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, transport=transport, timeout=READ_LIMIT_S) as http,
        Client(
            streamable_http_client(f"{frontend.url}/mcp", http_client=http),
            mode=mode,
            read_timeout_seconds=READ_LIMIT_S,
        ) as client,
    ):
        yield client
    assert not others or len(transport.reached) == len(others) + 1


class AlternatingTransport(httpx2.AsyncHTTPTransport):
    """Sends each request to the next of several frontends, as a load balancer without affinity does."""

    def __init__(self, frontends: Sequence[RunningFrontend]) -> None:
        super().__init__()
        self._urls = [httpx2.URL(frontend.url) for frontend in frontends]
        self._count = 0
        self.reached: set[str] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target = self._urls[self._count % len(self._urls)]
        self._count += 1
        self.reached.add(str(target))
        request.url = request.url.copy_with(host=target.host, port=target.port)
        return await super().handle_async_request(request)


@asynccontextmanager
async def connect_by_command(
    home: Path, *options: str, url: str, key: str | None = ADMIN_KEY, mode: str = "auto"
) -> AsyncIterator[Client]:
    """Connect to a `corral mcp-server` that the client starts."""
    environment = {"CORRAL_URL": url, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    if key is not None:
        environment["CORRAL_KEY"] = key
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "corral", "mcp-server", *options], env=environment, cwd=home
    )
    async with Client(command, mode=mode, read_timeout_seconds=READ_LIMIT_S) as client:
        yield client


async def list_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def call(client: Client, name: str, /, **arguments: Any) -> Any:
    """Call a tool that succeeds, and return its structured result; the text has to be the same."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, types.CallToolResult)
    assert not result.is_error, result
    return result.structured_content


async def fail(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that is refused, and return the error; its text names message, hint and code."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, types.CallToolResult)
    assert result.is_error, result
    error: dict[str, Any] = result.structured_content["error"]
    (text,) = [part.text for part in result.content if isinstance(part, types.TextContent)]
    assert error["message"] in text
    assert f"Code: {error['code']}" in text
    assert error["hint"] is None or f"Hint: {error['hint']}" in text
    return error
