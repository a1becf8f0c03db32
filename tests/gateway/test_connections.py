"""Connections of clients: both kinds of requests mixed, in order, within limits, and nobody waited for without end."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from corral.gateway.connection import connection_limits, protocol
from corral.gateway.connection.connection_limits import INFERENCE_BODY_BYTES_MAX
from corral.gateway.connection.http_messages import HEAD_BYTES_MAX
from corral.gateway.connection.protocol import GatewayProtocol
from corral.gateway.exchange.gateway import ExchangeTimeouts
from tests.gateway.scene import AUTHORISED, CHAT, PATH, STREAMED, Records, ask, get, idle, request, wire
from tests.support.engines import (
    JSON_ANSWER,
    STREAM_HEAD,
    AfterResponse,
    EngineBehaviour,
    MisbehavingEngine,
    ResponseScript,
    encode_chunk,
    encode_event,
)
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

MIB = 1024 * 1024


def board(frontend: RunningFrontend) -> protocol.ConnectionRegistry:
    (sweep,) = frontend.core.gateway.sweepers
    shared = sweep.__self__  # type: ignore[attr-defined]
    assert isinstance(shared, protocol.ConnectionRegistry)
    return shared


def connections(frontend: RunningFrontend) -> list[GatewayProtocol]:
    return list(board(frontend).connections)


def busy(frontend: RunningFrontend) -> list[GatewayProtocol]:
    return [each for each in connections(frontend) if each.is_busy]


async def sweep_until(frontend: RunningFrontend, is_done: Callable[[], bool]) -> None:
    """Sweep until something is so. The frontend sweeps by itself, too: either sweep may end a late connection."""

    async def is_swept() -> bool:
        await frontend.core.gateway.tick()
        return is_done()

    await eventually(is_swept)


async def test_requests_of_both_kinds_are_answered_in_order_on_one_connection(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    async with wire(frontend) as opened:
        # Ahead of any answer, in one piece and in two.
        opened.write(request() + get("/v1/models") + request(STREAMED) + request(b"{nonsense") + get("/healthz")[:20])
        answers = [await opened.answer() for _ in range(4)]
        opened.write(get("/healthz")[20:] + request(CHAT, path="/v1/nothing"))
        answers += [await opened.answer() for _ in range(2)]
        opened.send()
        answers.append(await opened.answer())
    assert [answer.status for answer in answers] == [200, 200, 200, 400, 200, 404, 200]
    assert answers[0].body == answers[6].body == JSON_ANSWER
    assert answers[1].json()["data"][0]["id"] == "chat"
    assert answers[2].events()[-1] == "[DONE]"
    assert answers[3].json()["error"]["code"] == "malformed_json"
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)
    assert len(engine.received) == 3


async def test_request_that_the_gateway_leaves_to_uvicorn_gets_the_same_response(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    raw = json.dumps(CHAT).encode()
    chunked = encode_chunk(raw[:9]) + encode_chunk(raw[9:]) + encode_chunk(b"")
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{AUTHORISED}\r\n"
    async with wire(frontend) as opened:
        opened.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked)
        answers = [await opened.answer()]
        opened.write(f"{head}Expect: 100-continue\r\nContent-Length: {len(raw)}\r\n\r\n".encode())
        assert (await opened.read()).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        opened.write(raw)
        answers.append(await opened.answer())
        opened.send(STREAMED, path=f"{PATH}?beta=true")
        streamed = await opened.answer()
    for answer in answers:
        assert (answer.status, answer.body) == (200, JSON_ANSWER)
        assert answer.headers["x-corral-node"] == "node-1"
    assert streamed.events()[-1] == "[DONE]"
    engine.answer = EngineBehaviour.HALF_CHUNK
    broken = await ask(frontend, STREAMED, path=f"{PATH}?beta=true")
    assert [list(event)[-1] for event in broken.events()] == ["choices", "error"]
    assert [record.status for record in records.received] == [200, 200, 200, 200]
    assert {one.body for one in engine.received[:2]} == {raw}


async def test_http_1_0_clients_and_connection_close_get_their_response_and_then_the_end(
    frontend: RunningFrontend,
) -> None:
    for body, version, lines in (
        (CHAT, "HTTP/1.0", ()),
        (STREAMED, "HTTP/1.0", ("Connection: keep-alive",)),
        (CHAT, "HTTP/1.1", ("Connection: close",)),
        (STREAMED, "HTTP/1.1", ("Connection: close",)),
    ):
        async with wire(frontend) as opened:
            opened.send(body, *lines, version=version)
            answer = await opened.answer()
            assert answer.status == 200
            assert answer.headers["connection"] == "close"
            assert ("transfer-encoding" in answer.headers) == (body is STREAMED and version == "HTTP/1.1")
            assert answer.body == JSON_ANSWER or answer.events()[-1] == "[DONE]"
            assert await opened.is_closed()


async def test_hot_path_answers_other_methods_with_405(frontend: RunningFrontend) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert (await frontend.call(method, PATH))[0] == 405


async def test_head_may_have_32_kib_and_100_lines(frontend: RunningFrontend) -> None:
    assert (await ask(frontend, CHAT, "X-Long: " + "x" * (HEAD_BYTES_MAX - 1024))).status == 200
    assert (await ask(frontend, CHAT, *(f"X-{n}: x" for n in range(97)))).status == 200
    too_long = await ask(frontend, CHAT, "X-Long: " + "x" * HEAD_BYTES_MAX)
    assert (too_long.status, too_long.headers["connection"]) == (431, "close")
    assert (await ask(frontend, CHAT, *(f"X-{n}: x" for n in range(98)))).status == 400
    async with wire(frontend) as opened:
        # Of no other route either.
        opened.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")

        async def has_begun() -> bool:
            return bool(busy(frontend))

        await eventually(has_begun)
        opened.write(b"X-Long: " + b"x" * HEAD_BYTES_MAX)
        assert (await opened.answer()).status == 431


async def test_body_that_is_too_large_is_read_and_refused_without_being_kept(frontend: RunningFrontend) -> None:
    async with wire(frontend) as opened:
        opened.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{AUTHORISED}\r\n".encode())
        opened.write(b"Content-Length: %d\r\n\r\n" % (INFERENCE_BODY_BYTES_MAX + 1))
        for _ in range(INFERENCE_BODY_BYTES_MAX // MIB):
            opened.write(b"x" * MIB)
            await opened.writer.drain()
        (connection,) = busy(frontend)
        assert connection._pieces == []
        opened.write(b"x" + request())
        answer = await opened.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (413, "body_too_large")
        assert (await opened.answer()).status == 200


async def test_large_body_without_a_valid_key_is_refused_before_it_is_read(frontend: RunningFrontend) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ck_stranger\r\nContent-Length: {MIB}\r\n\r\n"
    async with wire(frontend) as opened:
        opened.write(head.encode() + b"{")
        answer = await opened.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.behaviour("GW-25")
async def test_connection_with_an_unfinished_head_or_body_is_closed(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.05)
    monkeypatch.setattr(connection_limits, "BODY_WINDOW_S", 0.05)
    whole = request()
    for sent in (b"P", whole[:40], whole[:-1], b"GET /heal"):
        async with wire(frontend) as opened:
            opened.write(sent)

            async def has_come() -> bool:
                return bool(busy(frontend))

            await eventually(has_come)
            await sweep_until(frontend, lambda: not busy(frontend))
            assert (await opened.answer()).status == 408
            assert await opened.is_closed()


@pytest.mark.behaviour("GW-25")
async def test_idle_connection_is_closed_after_the_keep_alive_time(frontend: RunningFrontend) -> None:
    async with wire(frontend) as used, wire(frontend) as fresh:
        used.send()
        assert (await used.answer()).status == 200

        async def both() -> bool:
            return len(connections(frontend)) >= 2

        await eventually(both)
        await frontend.core.gateway.tick()
        for connection in connections(frontend):
            connection.timeout_keep_alive = 0
        await sweep_until(frontend, lambda: not connections(frontend))
        assert await used.is_closed()
        assert await fresh.is_closed()


async def test_client_that_does_not_read_holds_its_engine_back_and_not_our_memory(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    large = encode_chunk(encode_event("x" * 64 * 1024))
    engine.answer = ResponseScript((STREAM_HEAD, *([large] * 1000)), AfterResponse.KEEP)
    async with wire(frontend) as opened:
        plug = opened.writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.writer.transport.pause_reading()  # type: ignore[attr-defined]
        opened.send(STREAMED)

        async def is_held_back() -> bool:
            return any(each.flow.write_paused for each in connections(frontend))

        await eventually(is_held_back)
        (connection,) = busy(frontend)
        (exchange,) = frontend.core.gateway.open_exchanges
        sent = exchange.events
        # What was on its way when it was held back, and no more however long it takes.
        await frontend.core.gateway.tick()
        assert exchange.events <= sent + 16
        assert connection.transport.get_write_buffer_size() < 4 * MIB
        frontend.core.gateway.timeouts = ExchangeTimeouts(client_stall_s=0.05)
        await sweep_until(frontend, lambda: not frontend.core.gateway.open_exchanges)
        record = await records.one()
        assert record.error_code == "client_stalled"

    async def is_gone() -> bool:
        return engine.open == 0 and not busy(frontend)

    await eventually(is_gone)
    await idle(frontend)


async def test_client_that_reads_slowly_gets_everything(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    pieces = [encode_chunk(encode_event(f"{number} " + "x" * 64 * 1024)) for number in range(64)]
    engine.answer = ResponseScript((STREAM_HEAD, *pieces, encode_chunk(b"")))
    async with wire(frontend) as opened:
        opened.send(STREAMED)
        events = (await opened.answer()).events()
    assert [event["choices"][0]["delta"]["content"].split()[0] for event in events] == [str(n) for n in range(64)]


async def test_client_that_does_not_read_gets_no_further_responses(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    body = json.dumps({"text": "x" * MIB}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    engine.answer = ResponseScript((head + body,))
    async with wire(frontend) as opened:
        opened.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(32):
            opened.send()

        async def is_held_back() -> bool:
            return any(each.flow.write_paused and not each.is_busy for each in connections(frontend))

        await eventually(is_held_back)
        assert len(engine.received) < 32
        opened.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(32):
            assert len((await opened.answer()).body) == len(body)
    assert len(engine.received) == 32


async def test_request_is_served_beside_a_thousand_idle_connections(frontend: RunningFrontend) -> None:
    async with AsyncExitStack() as stack:
        idle_ones = [await stack.enter_async_context(wire(frontend)) for _ in range(1000)]

        async def all_there() -> bool:
            return len(connections(frontend)) >= 1000

        await eventually(all_there)
        assert await frontend.core.gateway.tick() == 0
        assert (await ask(frontend)).status == 200
        idle_ones[500].send(STREAMED)
        assert (await idle_ones[500].answer()).status == 200


@pytest.mark.behaviour("GW-28")
async def test_responses_name_their_replica_unless_response_headers_are_off(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    named = await ask(frontend, CHAT, "X-Request-Id: mine-1")
    assert named.headers["x-request-id"] == "mine-1"
    assert named.headers["x-corral-node"] == "node-1"
    assert named.headers["x-corral-replica"]
    assert named.headers["x-corral-queue-ms"] == "0"
    assert engine.received[-1].headers["x-request-id"] == "mine-1"
    frontend.core.gateway.has_response_headers = False
    plain = await ask(frontend, CHAT, "X-Request-Id: no id!")
    assert not [name for name in plain.headers if name.startswith("x-corral")]
    assert plain.headers["x-request-id"] != "no id!"
