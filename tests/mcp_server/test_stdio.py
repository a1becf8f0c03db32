"""`corral mcp-server` as MCP clients start it, against a real frontend."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError

from corral.domain.access import Scope
from corral.mcp_server.tool_spec import ToolEffect
from corral.mcp_server.tool_table import TOOLS
from tests.api.test_authentication import make_key
from tests.mcp_server.clients import MODES, call, connect_by_command, fail, list_names
from tests.support.cuttable_proxy import run_cuttable_proxy
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import join_node

READERS = {spec.name for spec in TOOLS if spec.effect is ToolEffect.READ}
# The list of all tools is one line.
LINE_BYTES_MAX = 2**20
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.behaviour("MCP-9")
@pytest.mark.parametrize("mode", MODES)
async def test_command_lists_tools_reads_and_writes(frontend: RunningFrontend, tmp_path: Path, mode: str) -> None:
    node = await join_node(frontend, "mini")
    async with connect_by_command(tmp_path, url=frontend.url, mode=mode) as client:
        assert await list_names(client) == {spec.name for spec in TOOLS}
        assert await call(client, "show_node", node="mini") == await node.read_as_admin()
        assert (await call(client, "drain_node", node="mini"))["id"] == node.id
        assert (await fail(client, "show_node", node="gone"))["code"] == "node_not_found"
        assert (await fail(client, "show_node", nod="mini"))["code"] == "unknown_argument"
        with pytest.raises(MCPError, match="There is no tool make_coffee"):
            await client.call_tool("make_coffee", {})


@pytest.mark.behaviour("MCP-2")
async def test_command_lists_the_tools_that_its_key_may_use(frontend: RunningFrontend, tmp_path: Path) -> None:
    key = (await make_key(frontend, name="shop", scope="infer"))["key"]
    async with connect_by_command(tmp_path, url=frontend.url, key=key) as client:
        assert await list_names(client) == {spec.name for spec in TOOLS if spec.scope is Scope.INFER}
        error = await fail(client, "list_nodes")
    assert (error["code"], error["message"]) == ("not_allowed", "shop may only ask models.")


@pytest.mark.behaviour("MCP-3")
async def test_read_only_command_lists_and_runs_only_tools_that_read(frontend: RunningFrontend, tmp_path: Path) -> None:
    await join_node(frontend, "mini")
    async with connect_by_command(tmp_path, "--read-only", url=frontend.url) as client:
        assert await list_names(client) == READERS
        assert (await fail(client, "drain_node", node="mini"))["code"] == "mcp_read_only"
        assert (await call(client, "show_node", node="mini"))["name"] == "mini"


@pytest.mark.behaviour("MCP-9")
async def test_command_with_a_wrong_key_says_so_at_every_call(frontend: RunningFrontend, tmp_path: Path) -> None:
    async with connect_by_command(tmp_path, url=frontend.url, key="ck_nobody") as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools()
        assert caught.value.data["code"] == "not_authenticated"
        assert (await fail(client, "show_cluster"))["code"] == "not_authenticated"


@pytest.mark.behaviour("MCP-9")
async def test_command_says_that_the_frontend_is_away_and_goes_on_when_it_is_back(
    frontend: RunningFrontend, tmp_path: Path
) -> None:
    address = urlsplit(frontend.url)
    assert address.hostname is not None
    assert address.port is not None
    async with run_cuttable_proxy(address.hostname, address.port) as wire:
        await wire.cut()
        async with connect_by_command(tmp_path, url=f"http://{wire.address}") as client:
            with pytest.raises(MCPError, match="does not respond") as caught:
                await client.list_tools()
            assert caught.value.data["code"] == "unreachable"
            assert (await fail(client, "show_caller"))["code"] == "unreachable"
            await wire.restore()
            assert (await call(client, "show_caller"))["scope"] == "admin"
            assert "list_nodes" in await list_names(client)


@pytest.mark.behaviour("MCP-9")
async def test_standard_output_has_the_protocol_and_nothing_else(frontend: RunningFrontend, tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [
        HANDSHAKE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "show_cluster", "arguments": {}}},
    ]
    answers = []
    async with _started(frontend, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(f"{json.dumps(message)}\n".encode())
            if "id" in message:
                answers.append(json.loads(await process.stdout.readline()))
        # The end of its input ends the command.
        process.stdin.close()
        rest, errors = await process.communicate()
    assert (process.returncode, rest) == (0, b"")
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert all(answer["jsonrpc"] == "2.0" and "result" in answer for answer in answers)
    assert answers[0]["result"]["serverInfo"]["name"] == "corral"
    assert errors.decode().startswith(f"Serving {frontend.url} as MCP tools")
    assert "Traceback" not in errors.decode()


@pytest.mark.behaviour("MCP-9")
async def test_command_ends_with_130_at_ctrl_c(frontend: RunningFrontend, tmp_path: Path) -> None:
    async with _started(frontend, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(HANDSHAKE)}\n".encode())
        # From here on it waits for its input.
        assert "result" in json.loads(await process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, errors = await process.communicate()
    assert (process.returncode, rest) == (130, b"")
    assert b"Traceback" not in errors


@asynccontextmanager
async def _started(frontend: RunningFrontend, home: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
    environment = kept | {"CORRAL_URL": frontend.url, "CORRAL_KEY": ADMIN_KEY, "HOME": str(home)}
    command = (sys.executable, "-m", "corral", "mcp-server")
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, limit=LINE_BYTES_MAX
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
