"""The control plane over real HTTP: which frontend is called, with which key, and what errors become."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.errors import InvalidRequest, NameTaken, NotAuthenticated, NotFound, StoreUnavailable, Unavailable
from corral.wire.nodes import HeartbeatIn, RegisterIn
from corral.worker.control_plane import HttpControlPlane, parse_frontend_urls
from tests.support.ports import find_free_port

CREDENTIAL = "cn_" + "c" * 43
BEAT_ANSWER = {"approved": True, "draining": False, "heartbeat_interval_s": 10}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[tuple[str, str | None]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path, request.headers.get("Authorization")))
        return await self.answer(request)


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[Site]:
    site = Site(answer)
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", site.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        await runner.cleanup()


@asynccontextmanager
async def control_of(*urls: str, timeout_s: float = 10.0) -> AsyncIterator[HttpControlPlane]:
    control = HttpControlPlane(urls, CREDENTIAL, clock=SystemClock(), ids=SystemIdGenerator(), timeout_s=timeout_s)
    try:
        yield control
    finally:
        await control.close()


async def good(request: web.Request) -> web.StreamResponse:
    return web.json_response(BEAT_ANSWER)


def refusal(status: int, code: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": code, "message": "No.", "hint": "Do this."}}, status=status)

    return answer


async def test_next_frontend_is_tried_when_one_does_not_answer_and_then_stays_the_first():
    async with served(good) as site, control_of(f"http://127.0.0.1:{find_free_port()}", site.url) as control:
        for _ in range(2):
            assert (await control.send_heartbeat("n1", HeartbeatIn())).approved
        assert control._frontends[0].authenticated.url == site.url


async def test_frontend_that_hangs_or_says_503_is_passed_over():
    released = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    async with (
        served(hang) as stuck,
        served(refusal(503, "store_unavailable")) as sick,
        served(good) as well,
        control_of(stuck.url, sick.url, well.url, timeout_s=1.0) as control,
    ):
        await control.send_heartbeat("n1", HeartbeatIn())
        released.set()
        assert (len(stuck.seen), len(sick.seen), len(well.seen)) == (1, 1, 1)


async def test_refusal_of_one_frontend_is_not_retried_at_another():
    async with served(refusal(404, "node_not_found")) as first, served(good) as second:
        async with control_of(first.url, second.url) as control:
            with pytest.raises(NotFound) as caught:
                await control.send_heartbeat("n1", HeartbeatIn())
        assert caught.value.hint == "Do this."
        assert not second.seen


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "join_token_expired", NotAuthenticated),
        (409, "name_taken", NameTaken),
        (400, "invalid_request", InvalidRequest),
        (503, "store_unavailable", StoreUnavailable),
    ],
)
async def test_envelope_becomes_the_error_that_the_frontend_raised(status: int, code: str, kind: type[Exception]):
    async with served(refusal(status, code)) as site, control_of(site.url) as control:
        with pytest.raises(kind):
            await control.register(RegisterIn(name="a", credential=CREDENTIAL, boot_id="boot-0001"))


async def test_control_plane_call_raises_unavailable_without_a_reachable_frontend():
    urls = [f"http://127.0.0.1:{find_free_port()}" for _ in range(2)]
    async with control_of(*urls) as control:
        with pytest.raises(Unavailable, match=urls[0]):
            await control.drain("n1", "boot-0001")


async def test_control_plane_calls_except_registration_carry_the_nodes_credential():
    async with served(refusal(404, "node_not_found")) as site, control_of(site.url) as control:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: control.register(RegisterIn(name="a", credential=CREDENTIAL, boot_id="boot-0001")),
            lambda: control.send_heartbeat("a/b", HeartbeatIn()),
            lambda: control.refresh_credentials("n1", "U"),
            lambda: control.drain("n1", "b"),
            lambda: control.resume("n1", "b"),
            lambda: control.deregister("n1", "b"),
        ]
        for call in calls:
            with pytest.raises(NotFound):
                await call()
        own = f"Bearer {CREDENTIAL}"
        assert site.seen == [
            ("/api/node/register", None),
            ("/api/node/a/b/heartbeat", own),
            ("/api/node/n1/credentials", own),
            ("/api/node/n1/drain", own),
            ("/api/node/n1/resume", own),
            ("/api/node/n1/deregister", own),
        ]


def test_addresses_are_parted_by_commas_and_each_is_checked():
    assert parse_frontend_urls("http://a:1/, https://b") == ("http://a:1", "https://b")
    with pytest.raises(InvalidRequest):
        parse_frontend_urls("http://a:1,b:2")
    with pytest.raises(InvalidRequest):
        parse_frontend_urls("http://a:99999")
    with pytest.raises(InvalidRequest):
        parse_frontend_urls(" , ")
