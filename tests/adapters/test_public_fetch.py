"""Requests for public addresses only: no private one is reached, by its text, by its name, or by a redirect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from corral.adapters import http
from corral.adapters.http import HttpFetcher
from corral.domain.errors import Unprocessable
from corral.ports.files import FetchRequest
from corral.tasks.media import FETCHES_MAX
from corral.tasks.webhook_sender import SENDING_MAX
from tests.support.polling import eventually
from tests.tasks.scene import serving, slow_source

pytestmark = pytest.mark.behaviour("TASK-13")
NAME = "hooks.example.com"


@pytest.fixture
async def fetcher() -> AsyncIterator[HttpFetcher]:
    made = HttpFetcher(uses_proxies=False)
    yield made
    await made.stop()


def lead_to_loopback(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every name lead to this machine, and return the names that were looked up."""
    looked_up: list[str] = []
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def resolve(host: str, port: Any, **options: Any) -> Any:
        looked_up.append(host)
        return await real("127.0.0.1" if host == NAME else host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    return looked_up


async def test_name_that_leads_to_a_private_address_is_refused_at_the_connection(
    fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        called.append(request.path)
        return web.Response(text="inside")

    looked_up = lead_to_loopback(monkeypatch)
    async with serving("/", serve) as url:
        named = url.replace("127.0.0.1", NAME)
        with pytest.raises(Unprocessable) as refused:
            await fetcher.fetch(FetchRequest(url=named, is_public_only=True))
        assert refused.value.slug == "private_address"
        assert called == []
        # The same request without the limit shows that only the limit was in the way.
        assert (await fetcher.fetch(FetchRequest(url=named))).body == b"inside"
    assert looked_up[0] == NAME


async def test_private_name_is_refused_without_looking_it_up(
    fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = lead_to_loopback(monkeypatch)
    for url in ("http://printer/", "http://127.0.0.1:1/", "http://[::1]/", "http://169.254.169.254/x"):
        with pytest.raises(Unprocessable):
            await fetcher.fetch(FetchRequest(url=url, is_public_only=True))
    assert looked_up == []


async def test_redirect_of_a_public_server_to_a_private_address_is_refused(
    fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        called.append(request.path)
        return web.Response(status=302, headers={"Location": f"http://127.0.0.1:{request.url.port}/inside"})

    # The server stands for a public one: the first connection is let through, and the one after it is judged.
    judge, opened = http._open_public_socket, []

    def open_socket(info: tuple[Any, ...]) -> socket.socket:
        opened.append(info)
        return socket.socket(family=info[0], type=info[1], proto=info[2]) if len(opened) == 1 else judge(info)

    monkeypatch.setattr(http, "_open_public_socket", open_socket)
    lead_to_loopback(monkeypatch)
    async with serving("/{path:.*}", serve) as url:
        with pytest.raises(Unprocessable) as refused:
            await fetcher.fetch(FetchRequest(url=url.replace("127.0.0.1", NAME) + "/first", is_public_only=True))
    assert refused.value.slug == "private_address"
    assert called == ["/first"]
    assert len(opened) == 2


async def test_redirect_is_not_followed_if_the_request_says_so(fetcher: HttpFetcher) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with serving("/", serve) as url:
        response = await fetcher.fetch(FetchRequest(url=url, follows_redirects=False))
        assert (response.status, response.headers["location"]) == (302, "/elsewhere")


async def test_body_is_left_where_it_is_if_the_request_does_not_read_it(fetcher: HttpFetcher) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 100_000)

    async with serving("/", serve) as url:
        response = await fetcher.fetch(FetchRequest(url=url, limit_bytes=10, reads_body=False))
        assert (response.status, response.body) == (200, b"")


@pytest.mark.behaviour("TASK-22")
async def test_no_webhook_or_attachment_waits_for_a_connection(fetcher: HttpFetcher) -> None:
    number = SENDING_MAX + FETCHES_MAX
    async with slow_source() as slow, asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(fetcher.fetch(FetchRequest(url=slow.media.url)))
        await eventually(lambda: slow.is_called(number))
        slow.released.set()
