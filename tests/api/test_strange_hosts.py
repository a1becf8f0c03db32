"""What a request says of its host and of who sent it is not believed."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from starlette.types import Receive, Scope, Send

from corral.app.http_server import HttpServer
from corral.app.process_group import listen
from tests.gateway.conftest import engine, frontend
from tests.gateway.scene import AUTHORISED, wire
from tests.support.frontends import RunningFrontend

__all__ = ("engine", "frontend")


async def test_path_with_a_slash_at_its_end_is_no_redirect_to_the_named_host(frontend: RunningFrontend) -> None:
    async with wire(frontend) as opened:
        opened.write(f"GET /api/keys/ HTTP/1.1\r\nHost: evil.example\r\n{AUTHORISED}\r\n\r\n".encode())
        answer = await opened.answer()
    assert answer.status == 404
    assert "location" not in answer.headers


@pytest.mark.behaviour("MCP-28")
async def test_proxy_of_localai_for_browsers_does_not_exist(frontend: RunningFrontend) -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        seen.append(scope["path"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listener = listen("127.0.0.1", 0)
    server = HttpServer(app, listener)
    await server.start()
    target = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    for method in ("GET", "POST"):
        status, _ = await frontend.call(method, f"/api/cors-proxy?url={quote(target)}")
        assert status == 404
    await server.stop()
    assert seen == []


async def test_json_answers_are_neither_sniffed_nor_stored(frontend: RunningFrontend) -> None:
    async with wire(frontend) as opened:
        opened.write(f"GET /api/keys HTTP/1.1\r\nHost: x\r\n{AUTHORISED}\r\n\r\n".encode())
        answer = await opened.answer()
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        opened.send()
        assert (await opened.answer()).headers["x-content-type-options"] == "nosniff"


async def test_forwarded_addresses_are_not_believed_without_trusted_proxies(frontend: RunningFrontend) -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        seen.append((scope["client"][0], scope["scheme"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    for proxies in ((), ("127.0.0.1/32",)):
        listener = listen("127.0.0.1", 0)
        server = HttpServer(app, listener, trusted_proxies=proxies)
        await server.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        headers = {"x-forwarded-for": "192.0.2.7", "x-forwarded-proto": "https"}
        async with frontend.http.get(address, headers=headers) as answer:
            assert answer.status == 204
        await server.stop()
    assert seen == [("127.0.0.1", "http"), ("192.0.2.7", "https")]
