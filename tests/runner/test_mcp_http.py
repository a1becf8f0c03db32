"""The HTTP client for MCP servers that users name: no connection into the network of the worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from corral.runner import mcp_http
from tests.runner.scene import Scene

HOST = "mcp.example.com"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def resolve_to(monkeypatch: pytest.MonkeyPatch, addresses: Sequence[str]) -> None:
    """Let every name lead to these addresses once, as its name service would say, and then to nothing."""
    has_answered = False

    async def look_up(host: object, port: int, **_: Any) -> list[Any]:
        nonlocal has_answered
        if has_answered:
            raise OSError("the name leads elsewhere by now")
        has_answered = True
        return [(2, 1, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)


@pytest.mark.behaviour("RUNNER-20")
@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["10.1.2.3"], ["93.184.216.34", "169.254.169.254"], ["::1"]])
async def test_name_that_leads_to_a_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    resolve_to(monkeypatch, addresses)
    async with mcp_http.make_http_client(is_public_only=True) as client:
        with pytest.raises(httpx2.ConnectError, match="private network"):
            await client.post(f"https://{HOST}/mcp")


@pytest.mark.behaviour("RUNNER-20")
async def test_name_is_judged_behind_a_proxy_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    resolve_to(monkeypatch, ["10.1.2.3"])
    async with mcp_http.make_http_client(is_public_only=True) as client:
        with pytest.raises(httpx2.ConnectError, match="private network"):
            await client.post(f"https://{HOST}/mcp")


@asynccontextmanager
async def run_echo() -> AsyncIterator[BaseTestServer]:
    """Run a server that answers with the host and the address that each request names."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.host} {request.raw_path}")

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    async with TestServer(application) as server:
        yield server


def let_loopback_be_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loopback stand for an address of the internet."""
    monkeypatch.setattr(mcp_http, "is_private_address", lambda _: False)


@pytest.mark.behaviour("RUNNER-20")
@pytest.mark.parametrize(
    "environment",
    [{}, {"NO_PROXY": "localhost"}, {"HTTPS_PROXY": "http://127.0.0.1:9"}]
    + [{"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": name} for name in (HOST, "example.com", "*")],
)
async def test_connection_is_made_to_the_address_that_was_judged_with_the_name_in_its_head(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with run_echo() as server:
        resolve_to(monkeypatch, ["127.0.0.1"])
        let_loopback_be_public(monkeypatch)
        async with mcp_http.make_http_client(is_public_only=True) as client:
            response = await client.post(f"http://{HOST}:{server.port}/mcp")
        assert response.text == f"{HOST}:{server.port} /mcp"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
async def test_proxy_is_given_the_name_that_was_judged(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    async with run_echo() as proxy:
        monkeypatch.setenv(variable, f"127.0.0.1:{proxy.port}")
        resolve_to(monkeypatch, ["127.0.0.1"])
        let_loopback_be_public(monkeypatch)
        async with mcp_http.make_http_client(is_public_only=True) as client:
            response = await client.post(f"http://{HOST}/mcp")
        assert response.text == f"{HOST} http://{HOST}/mcp"


@pytest.mark.behaviour("RUNNER-20")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_server_of_a_user_in_a_private_network_is_left_out_with_the_reason(scene: Scene, transport: str) -> None:
    server = {"name": "net", "transport": transport, "url": "http://127.0.0.1:9/mcp", "is_public_only": True}
    answer = await scene.mcp("list", server | {"connect_s": 5})
    assert "private network" in str(answer)
