"""What the fetcher of small documents keeps from one request to the next: connections, and nothing of what was said."""

from __future__ import annotations

import pytest
from aiohttp import web

from corral.adapters.http import HttpFetcher
from corral.ports.files import FetchRequest
from tests.tasks.scene import serving


@pytest.mark.behaviour("TASK-26")
@pytest.mark.parametrize("is_public_only", [False, True])
async def test_cookie_of_one_response_is_not_sent_with_the_next_request(
    monkeypatch: pytest.MonkeyPatch, is_public_only: bool
) -> None:
    # The loopback stands for an address of the internet; cookies are kept for names only.
    monkeypatch.setattr("corral.adapters.http.is_private_address", lambda _: False)
    received: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        received.append(request.headers.get("Cookie", ""))
        return web.Response(headers={"Set-Cookie": "session=of-one-user; Path=/"})

    fetcher = HttpFetcher(uses_proxies=False)
    try:
        async with serving("/", serve) as url:
            named = url.replace("127.0.0.1", "localhost")
            for _ in range(2):
                await fetcher.fetch(FetchRequest(url=named, is_public_only=is_public_only))
    finally:
        await fetcher.stop()
    assert received == ["", ""]
