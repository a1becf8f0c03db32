"""The fetcher keeps its limits, against a real server."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from aiohttp import web

from corral.domain.errors import Unavailable
from corral.ports.files import FetchRequest
from tests.backends.sites import fetcher, site


async def refusal(request: FetchRequest) -> str:
    async with fetcher() as http:
        with pytest.raises(Unavailable) as caught:
            await http.fetch(request)
    assert caught.value.slug == "source_unavailable"
    return caught.value.message


async def test_answer_is_given_whatever_its_status() -> None:
    async with site() as place, fetcher() as http:
        url = place.text("/a", "hello", status=418, X_Mark="1")
        answer = await http.fetch(FetchRequest(url=url, headers={"If-None-Match": "x"}))
        assert (answer.status, answer.body, answer.headers["x-mark"]) == (418, b"hello", "1")
        assert place.requests[0].headers["If-None-Match"] == "x"


async def test_body_over_the_limit_is_dropped_also_when_it_says_no_length() -> None:
    async with site() as place:

        async def endless(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x" * 65536)

        place.answers["/endless"] = endless
        assert "larger than 1000 bytes" in await refusal(FetchRequest(url=f"{place.url}/endless", limit_bytes=1000))
        url = place.text("/long", "x" * 1001)
        assert "larger than 1000 bytes" in await refusal(FetchRequest(url=url, limit_bytes=1000))


async def test_packed_body_is_measured_unpacked() -> None:
    async with site() as place:

        async def packed(_: web.Request) -> web.Response:
            return web.Response(body=gzip.compress(b"x" * 10_000_000), headers={"Content-Encoding": "gzip"})

        place.answers["/packed"] = packed
        assert "larger than 100000 bytes" in await refusal(FetchRequest(url=f"{place.url}/packed", limit_bytes=100_000))


async def test_server_that_does_not_end_is_left_after_the_time_limit() -> None:
    async with site() as place:

        async def silent(_: web.Request) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")

        place.answers["/silent"] = silent
        assert "no complete response within 0.2 s" in await refusal(
            FetchRequest(url=f"{place.url}/silent", timeout_s=0.2)
        )


async def test_redirects_are_followed_a_few_times() -> None:
    async with site() as place, fetcher() as http:
        place.text("/end", "here")
        place.text("/once", "", status=302, Location="/end")
        place.text("/round", "", status=302, Location="/round")
        assert (await http.fetch(FetchRequest(url=f"{place.url}/once"))).body == b"here"
        assert "redirected too often" in await refusal(FetchRequest(url=f"{place.url}/round"))


async def test_cut_answer_is_a_failure() -> None:
    async with site() as place:

        async def cut(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b"half")
            assert request.transport is not None
            request.transport.close()
            return response

        place.answers["/cut"] = cut
        assert "the connection broke" in await refusal(FetchRequest(url=f"{place.url}/cut"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://u:hunter22@127.0.0.1:1/x?token=hunter22", "Connection refused"),
        ("http://hunter22@no-such-name.invalid/hunter22", "no-such-name.invalid"),
        ("http://hunter22@[x/", "invalid address"),
        ("ftp://u:hunter22@h/x", "h: "),
    ],
)
async def test_fetch_error_does_not_contain_the_password_of_the_url(url: str, why: str) -> None:
    message = await refusal(FetchRequest(url=url))
    assert why in message
    assert "hunter22" not in message
