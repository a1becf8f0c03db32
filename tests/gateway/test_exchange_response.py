"""The side of an exchange for code that awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.domain.access import Principal
from corral.domain.errors import LimitReached
from corral.gateway.errors import AllReplicasFailed
from corral.gateway.exchange import exchange_response as asking_module
from corral.gateway.exchange.exchange_response import ResponseInterrupted, open_exchange
from corral.gateway.exchange.gateway import CLIENT_LEFT, InferenceRequest
from corral.ports.requests import NoLimits
from tests.gateway.scene import Records, idle
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

CLIENT = Principal(key_id="key", name="anybody")
MIB = 1024 * 1024


def make_request(frontend: RunningFrontend, body: bytes = b'{"model":"chat"}', **more: Any) -> InferenceRequest:
    model = frontend.core.router.snapshot.find("chat")
    assert model is not None
    return InferenceRequest(
        model=model, call="chat", path="/v1/chat/completions", body=body, principal=CLIENT, request_id="1", **more
    )


async def test_whole_answer_a_stream_and_a_failure(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    gateway = frontend.core.gateway
    async with open_exchange(gateway, make_request(frontend)) as answer:
        assert (answer.status, answer.content_type, answer.node_name) == (200, "application/json", "node-1")
        assert await answer.read() == JSON_ANSWER
    async with open_exchange(gateway, make_request(frontend, b'{"stream":true}')) as answer:
        pieces = [piece async for piece in answer.iter_pieces()]
    assert all(piece.endswith(b"\n\n") for piece in pieces)
    engine.answer = EngineBehaviour.CLOSES
    with pytest.raises(AllReplicasFailed):
        async with open_exchange(gateway, make_request(frontend)):
            pytest.fail("there is no answer")
    engine.answer = EngineBehaviour.HALF_CHUNK
    async with open_exchange(gateway, make_request(frontend)) as answer:
        with pytest.raises(ResponseInterrupted, match="in the middle of the response"):
            await answer.read()
    assert [record.status for record in records.received] == [200, 200, 502, 200]
    await idle(frontend)


async def test_client_that_leaves_early_or_is_cancelled_hangs_up(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    gateway = frontend.core.gateway
    engine.answer = EngineBehaviour.STALLS
    async with open_exchange(gateway, make_request(frontend)) as answer:
        assert await anext(answer.iter_pieces())
    engine.answer = EngineBehaviour.SILENT

    async def ask() -> None:
        async with open_exchange(gateway, make_request(frontend)):
            pytest.fail("there is no answer")

    task = asyncio.ensure_future(ask())

    async def is_called() -> bool:
        return len(engine.received) == 2

    await eventually(is_called)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(frontend)
    assert [record.status for record in records.received] == [CLIENT_LEFT, CLIENT_LEFT]

    async def is_left() -> bool:
        return engine.open == 0

    await eventually(is_left)


async def test_unread_response_bytes_are_bounded(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    engine.answer = ResponseScript(
        (STREAM_HEAD, *([encode_chunk(encode_event("x" * 64 * 1024))] * 400), encode_chunk(b""))
    )
    async with open_exchange(frontend.core.gateway, make_request(frontend)) as answer:
        (exchange,) = frontend.core.gateway.open_exchanges

        async def is_paused() -> bool:
            return bool(exchange._is_paused)

        await eventually(is_paused)
        assert answer._buffered_bytes < asking_module.BUFFER_BYTES + MIB
        assert len(await answer.read()) == 400 * len(encode_event("x" * 64 * 1024))


async def test_streamed_body_is_sent_as_the_engine_takes_it_and_is_not_retried(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(16):
            yield b"y" * MIB

    gateway = frontend.core.gateway
    sent = make_request(frontend, b"x" * 10, content_type="audio/wav", size_bytes=10 + 16 * MIB)
    async with open_exchange(gateway, sent, pieces()) as answer:
        assert await answer.read() == JSON_ANSWER
    assert engine.received[-1].body == b"x" * 10 + b"y" * 16 * MIB
    assert engine.received[-1].headers["content-type"] == "audio/wav"
    # What was already sent to one cannot be sent to another.
    engine.answer = ResponseScript((), AfterResponse.CLOSE)
    with pytest.raises(AllReplicasFailed, match="cannot be retried on another replica"):
        async with open_exchange(gateway, sent, pieces()):
            pytest.fail("there is no answer")
    assert records.received[-1].attempts == 1
    await idle(frontend)


async def test_request_above_its_limit_is_refused_before_any_engine_is_called(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    class FullLimiter(NoLimits):
        def admit(self, principal: Principal, model: str) -> None:
            raise LimitReached(f"{principal.name} has called {model} enough.", details={"retry_after_s": 7})

    frontend.core.gateway.limiter = FullLimiter()
    with pytest.raises(LimitReached):
        async with open_exchange(frontend.core.gateway, make_request(frontend)):
            pytest.fail("there is no answer")
    assert (await records.one()).status == 429
    assert engine.received == []
    async with frontend.http.post(
        f"{frontend.url}/v1/chat/completions",
        data=b'{"model":"chat"}',
        headers={"Authorization": "Bearer ck_the-admin-key-of-the-tests-0123456789abcdef"},
    ) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert (await answer.json())["error"]["type"] == "rate_limit_error"
