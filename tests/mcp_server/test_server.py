"""The limits of a tool's call and result."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.client.transport import ApiRequest, ApiTransport
from corral.mcp_server.catalog import ApiTool, build_catalog
from corral.mcp_server.server import ToolOptions, ToolServer
from tests.api.operations import described
from tests.mcp_server.clients import fail
from tests.support.frontends import ADMIN_KEY, RunningFrontend

CATALOG = build_catalog(described())


class AllTools:
    """A `ToolDirectory` of a caller who may do everything."""

    async def list_tools(self, *, is_read_only: bool) -> list[ApiTool]:
        return list(CATALOG)

    async def find_tool(self, name: str) -> ApiTool | None:
        return CATALOG.find_tool(name)


class HangingDirectory(AllTools):
    """A `ToolDirectory` whose frontend never answers."""

    async def list_tools(self, *, is_read_only: bool) -> list[ApiTool]:
        await asyncio.Event().wait()
        raise AssertionError


class HangingSender:
    """An `ApiSender` that never gets an answer."""

    async def send(self, request: ApiRequest) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.behaviour("MCP-5")
async def test_call_that_takes_too_long_ends_with_a_hint() -> None:
    options = ToolOptions(call_limit_s=0.01)
    async with Client(ToolServer(AllTools(), HangingSender(), options).make_server()) as client:
        error = await fail(client, "show_cluster")
    assert (error["code"], error["message"]) == ("timeout", "The call did not end within 0.01 s.")
    assert "list_operations" in error["hint"]


@pytest.mark.behaviour("MCP-5")
async def test_list_that_takes_too_long_ends_with_an_error() -> None:
    options = ToolOptions(call_limit_s=0.01)
    async with Client(ToolServer(HangingDirectory(), HangingSender(), options).make_server()) as client:
        with pytest.raises(MCPError, match="did not end within") as caught:
            await client.list_tools()
    assert caught.value.data["code"] == "timeout"


@pytest.mark.behaviour("MCP-5")
async def test_cut_result_names_the_arguments_that_narrow_it(frontend: RunningFrontend) -> None:
    transport = ApiTransport(frontend.url, ADMIN_KEY, timeout_s=30, clock=SystemClock(), ids=SystemIdGenerator())
    options = ToolOptions(result_bytes_max=10)
    async with transport, Client(ToolServer(AllTools(), transport, options).make_server()) as client:
        result = await client.call_tool("list_audit_entries", {})
    assert isinstance(result, types.CallToolResult)
    shown, sentence = [part.text for part in result.content if isinstance(part, types.TextContent)]
    assert len(shown) == 10
    assert sentence.startswith("Cut: these are the first 10 of ")
    assert sentence.endswith("Narrow it with limit, before.")
