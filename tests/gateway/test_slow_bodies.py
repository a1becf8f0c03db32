"""Bodies that come slowly, are too many, or are left: bounded on every route, with and without a key."""

from __future__ import annotations

import json
import logging
from contextlib import AsyncExitStack
from ipaddress import ip_network

import pytest

from corral.domain.errors import LimitReached, Unavailable
from corral.gateway.connection import connection_limits
from corral.gateway.connection.connection_limits import (
    BODY_BYTES_PER_S,
    BODY_WINDOW_S,
    WHOLE_BODY_S,
    BodyProgress,
    ConnectionCounter,
    ConnectionLimits,
    Network,
)
from corral.runtime.byte_budget import MIB, ByteBudget, ByteLease, ByteLimits
from tests.gateway.scene import AUTHORISED, PATH, ask, request, wire
from tests.gateway.test_connections import board, busy, sweep_until
from tests.support.engines import EngineBehaviour, MisbehavingEngine, encode_chunk
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

ROUTES = (
    PATH,
    "/v1/messages",
    "/v1/audio/transcriptions",
    "/api/session",
    "/api/node/register",
    "/api/node/some/heartbeat",
    "/api/keys",
)


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_connection_is_closed_when_its_body_does_not_come_on_any_route(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch, path: str, framing: str
) -> None:
    monkeypatch.setattr(connection_limits, "BODY_WINDOW_S", 0.05)
    kind = "Content-Type: multipart/form-data; boundary=b"
    async with wire(frontend) as opened:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{AUTHORISED}\r\n{kind}\r\n{framing}\r\n\r\n"
        opened.write(head.encode() + (b"--" if "Length" in framing else encode_chunk(b"--")))

        async def has_come() -> bool:
            return bool(busy(frontend))

        await eventually(has_come)
        await sweep_until(frontend, lambda: not busy(frontend))
        assert (await opened.answer()).status == 408
        assert await opened.is_closed()


def test_body_is_late_by_its_recent_progress_and_not_by_what_has_come() -> None:
    progress = BodyProgress(0.0)
    progress.add(32 * MIB)
    assert not progress.check_late(BODY_WINDOW_S, is_buffered=True)
    assert not progress.check_late(BODY_WINDOW_S + 1, is_buffered=True)
    progress.add(10)
    assert not progress.check_late(2 * BODY_WINDOW_S, is_buffered=True)
    assert progress.check_late(2 * BODY_WINDOW_S + 2, is_buffered=True)


def test_body_that_is_passed_on_may_take_long_and_one_that_is_kept_may_not() -> None:
    kept, passed_on, now = BodyProgress(0.0), BodyProgress(0.0), 0.0
    late = []
    while now < WHOLE_BODY_S + 2 * BODY_WINDOW_S:
        now += BODY_WINDOW_S + 1
        for progress in (kept, passed_on):
            progress.add(int((BODY_WINDOW_S + 1) * BODY_BYTES_PER_S))
        late.append((kept.check_late(now, is_buffered=True), passed_on.check_late(now, is_buffered=False)))
    assert late[0] == (False, False)
    assert late[-1] == (True, False)


def test_time_in_which_a_client_was_held_back_is_not_its_own() -> None:
    progress = BodyProgress(0.0)
    progress.pause(10 * BODY_WINDOW_S)
    assert not progress.check_late(11 * BODY_WINDOW_S, is_buffered=True)
    assert progress.check_late(11 * BODY_WINDOW_S + 1, is_buffered=True)


@pytest.mark.behaviour("GW-218")
async def test_large_bodies_of_a_key_are_429_when_too_many_bytes_are_under_way(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    frontend.core.gateway.body_budget.limits = ByteLimits(total_bytes=64 * MIB, key_bytes=3 * MIB)
    whole = request(json.dumps({"model": "chat", "prompt": "x" * 2 * MIB}).encode())
    for path in (PATH, f"{PATH}?by=uvicorn", "/v1/messages"):
        async with wire(frontend) as first, wire(frontend) as second:
            first.write(whole[: MIB // 2])

            async def is_taken() -> bool:
                return frontend.core.gateway.body_budget.taken_bytes > 0

            await eventually(is_taken)
            second.write(whole.replace(PATH.encode(), path.encode(), 1))
            answer = await second.answer()
            assert (answer.status, "MiB of request bodies under way" in answer.body.decode()) == (429, True), path
            assert "retry-after" in answer.headers
            first.write(whole[MIB // 2 :])
            assert (await first.answer()).status == 200

        async def is_given_back() -> bool:
            return frontend.core.gateway.body_budget.taken_bytes == 0

        await eventually(is_given_back)
    assert len(engine.received) == 3


@pytest.mark.behaviour("GW-218")
async def test_bytes_of_a_large_body_are_given_back_when_its_stream_begins(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    engine.queued = [EngineBehaviour.STALLS]
    budget = frontend.core.gateway.body_budget
    body = json.dumps({"model": "chat", "prompt": "x" * MIB, "stream": True}).encode()
    async with wire(frontend) as opened:
        opened.write(request(body))
        assert b"data: " in await opened.read()
        # The stream is open: its body is not kept for that long.
        assert frontend.core.gateway.open_exchanges
        assert budget.taken_bytes == 0


@pytest.mark.behaviour("GW-218")
async def test_bytes_of_a_client_that_leaves_are_given_back(frontend: RunningFrontend) -> None:
    budget = frontend.core.gateway.body_budget
    whole = request(b'{"model": "chat", "prompt": "' + b"x" * MIB)
    for path in (PATH, f"{PATH}?by=uvicorn", "/v1/messages"):
        async with wire(frontend) as opened:
            opened.write(whole.replace(PATH.encode(), path.encode(), 1)[:-9])

            async def is_taken() -> bool:
                return budget.taken_bytes > 0

            await eventually(is_taken)

        async def is_given_back() -> bool:
            return budget.taken_bytes == 0

        await eventually(is_given_back)


@pytest.mark.behaviour("GW-218")
def test_budget_refuses_by_key_with_429_and_in_all_with_503() -> None:
    budget = ByteBudget(ByteLimits(total_bytes=10 * MIB, key_bytes=4 * MIB), "of request bodies")
    first, other = ByteLease(budget, "a"), ByteLease(budget, "b")
    # Alone, a body may be larger than what several may have.
    first.take(5 * MIB)
    with pytest.raises(LimitReached):
        ByteLease(budget, "a").take(1)
    other.take(4 * MIB)
    with pytest.raises(Unavailable):
        ByteLease(budget, "c").take(2 * MIB)
    first.release()
    first.release()
    assert (budget.taken_bytes, budget._by_key) == (4 * MIB, {"b": 4 * MIB})


def test_connections_are_bounded_in_all_and_by_address_but_not_for_proxies() -> None:
    proxies: tuple[Network, ...] = (ip_network("10.0.0.0/8"),)
    counter = ConnectionCounter(ConnectionLimits(total=7, per_address=2, trusted_proxies=proxies))
    assert [bool(counter.add("192.0.2.1")) for _ in range(3)] == [False, False, True]
    counter.remove("192.0.2.1")
    assert not any(counter.add(address) for address in ("127.0.0.1", "10.1.2.3", "10.1.2.3", "::ffff:10.1.2.3"))
    assert not counter.add("::1")
    assert "connections" in counter.add("192.0.2.9")


async def test_connection_above_the_limit_gets_503_and_is_closed(frontend: RunningFrontend) -> None:
    counter = board(frontend).counter
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(wire(frontend))
        first.send()
        assert (await first.answer()).status == 200
        counter._limits = ConnectionLimits(total=counter.count)
        second = await stack.enter_async_context(wire(frontend))
        assert (await second.answer()).status == 503
        assert await second.is_closed()
        first.send()
        assert (await first.answer()).status == 200


async def test_client_that_leaves_in_its_body_is_not_logged(
    frontend: RunningFrontend, caplog: pytest.LogCaptureFixture, engine: MisbehavingEngine
) -> None:
    engine.answer = EngineBehaviour.FINE
    caplog.set_level(logging.INFO)
    for path in (PATH, "/v1/messages", "/api/node/some/heartbeat", "/api/session"):
        async with wire(frontend) as opened:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{AUTHORISED}\r\nTransfer-Encoding: chunked\r\n\r\n"
            opened.write(head.encode() + encode_chunk(b"{"))

            async def has_come() -> bool:
                return bool(busy(frontend))

            await eventually(has_come)
    async with wire(frontend) as opened:
        opened.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        await opened.answer()
    assert (await ask(frontend)).status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
