"""The side of an exchange for code that awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.domain.access import Principal
from corral.domain.errors import LimitReached
from corral.ports.answers import NoLimits
from corral.serving import asking as asking_module
from corral.serving.asking import AnswerCut, asking
from corral.serving.errors import EngineFailed
from corral.serving.gateway import CLIENT_LEFT, Wish
from tests.gateway.scene import Records, idle
from tests.support.engines import JSON_ANSWER, STREAM_HEAD, MisbehavingEngine, Mode, Script, Then, chunk, event
from tests.support.frontends import RunningFrontend
from tests.support.waiting import eventually

ANYBODY = Principal(key_id="key", name="anybody")
MIB = 1024 * 1024


def wish(frontend: RunningFrontend, body: bytes = b'{"model":"chat"}', **more: Any) -> Wish:
    model = frontend.core.router.snapshot.find("chat")
    assert model is not None
    return Wish(
        model=model, call="chat", path="/v1/chat/completions", body=body, principal=ANYBODY, request_id="1", **more
    )


@pytest.mark.behaviour("GW-40")
async def test_a_whole_answer_a_stream_and_a_failure(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    gateway = frontend.core.gateway
    async with asking(gateway, wish(frontend)) as answer:
        assert (answer.status, answer.content_type, answer.node_name) == (200, "application/json", "node-1")
        assert await answer.read() == JSON_ANSWER
    async with asking(gateway, wish(frontend, b'{"stream":true}')) as answer:
        pieces = [piece async for piece in answer.pieces()]
    assert all(piece.endswith(b"\n\n") for piece in pieces)
    engine.answer = Mode.CLOSES
    with pytest.raises(EngineFailed):
        async with asking(gateway, wish(frontend)):
            pytest.fail("there is no answer")
    engine.answer = Mode.HALF_CHUNK
    async with asking(gateway, wish(frontend)) as answer:
        with pytest.raises(AnswerCut, match="in the middle of the answer"):
            await answer.read()
    assert [record.status for record in records.heard] == [200, 200, 502, 200]
    await idle(frontend)


@pytest.mark.behaviour("GW-40")
async def test_leaving_early_and_being_cancelled_hang_up(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    gateway = frontend.core.gateway
    engine.answer = Mode.STALLS
    async with asking(gateway, wish(frontend)) as answer:
        assert await anext(answer.pieces())
    engine.answer = Mode.SILENT

    async def ask() -> None:
        async with asking(gateway, wish(frontend)):
            pytest.fail("there is no answer")

    task = asyncio.ensure_future(ask())

    async def is_asked() -> bool:
        return len(engine.heard) == 2

    await eventually(is_asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(frontend)
    assert [record.status for record in records.heard] == [CLIENT_LEFT, CLIENT_LEFT]

    async def is_left() -> bool:
        return engine.open == 0

    await eventually(is_left)


@pytest.mark.behaviour("GW-40")
async def test_what_lies_unread_is_bounded(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    engine.answer = Script((STREAM_HEAD, *([chunk(event("x" * 64 * 1024))] * 400), chunk(b"")))
    async with asking(frontend.core.gateway, wish(frontend)) as answer:
        (exchange,) = frontend.core.gateway.open

        async def is_paused() -> bool:
            return bool(exchange._is_paused)

        await eventually(is_paused)
        assert answer._waiting_bytes < asking_module.BUFFER_BYTES + MIB
        assert len(await answer.read()) == 400 * len(event("x" * 64 * 1024))


@pytest.mark.behaviour("GW-40")
async def test_a_body_in_pieces_goes_out_as_the_engine_takes_it_and_is_not_told_twice(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(16):
            yield b"y" * MIB

    gateway = frontend.core.gateway
    sent = wish(frontend, b"x" * 10, content_type="audio/wav", size_bytes=10 + 16 * MIB)
    async with asking(gateway, sent, pieces()) as answer:
        assert await answer.read() == JSON_ANSWER
    assert engine.heard[-1].body == b"x" * 10 + b"y" * 16 * MIB
    assert engine.heard[-1].headers["content-type"] == "audio/wav"
    # What was already sent to one cannot be sent to another.
    engine.answer = Script((), Then.CLOSE)
    with pytest.raises(EngineFailed, match="cannot be told to another"):
        async with asking(gateway, sent, pieces()):
            pytest.fail("there is no answer")
    assert records.heard[-1].attempts == 1
    await idle(frontend)


@pytest.mark.behaviour("GW-40")
async def test_who_may_not_ask_now_is_told_before_any_engine_is_called(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    class Full(NoLimits):
        def admit(self, principal: Principal, model: str) -> None:
            raise LimitReached(f"{principal.name} has asked {model} enough.", details={"retry_after_s": 7})

    frontend.core.gateway.limiter = Full()
    with pytest.raises(LimitReached):
        async with asking(frontend.core.gateway, wish(frontend)):
            pytest.fail("there is no answer")
    assert (await records.one()).status == 429
    assert engine.heard == []
    async with frontend.http.post(
        f"{frontend.url}/v1/chat/completions",
        data=b'{"model":"chat"}',
        headers={"Authorization": "Bearer ck_the-admin-key-of-the-tests-0123456789abcdef"},
    ) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert (await answer.json())["error"]["type"] == "rate_limit_error"
