"""Engines that die, hang, babble and lie: every client gets an answer that makes sense, exactly once."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import h11
import pytest

from corral.adapters.system import SystemClock
from corral.domain.usage import ErrorOrigin, RequestRecord
from corral.gateway.exchange.exchange_state import BUFFERED_BYTES_MAX, EVENT_BYTES_MAX
from corral.gateway.exchange.gateway import CLIENT_LEFT, ExchangeTimeouts
from tests.gateway.scene import CHAT, STREAMED, Records, add_replica, ask, idle, wire
from tests.serving.scene import list_rows
from tests.support.engines import (
    JSON_ANSWER,
    STREAM_HEAD,
    AfterResponse,
    EngineBehaviour,
    MisbehavingEngine,
    ResponseScript,
    encode_chunk,
    encode_event,
    make_json_head,
    make_json_script,
)
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

BROKEN_BEFORE_THE_FIRST_BYTE = [
    EngineBehaviour.CLOSES,
    EngineBehaviour.RESETS,
    EngineBehaviour.GARBAGE,
    EngineBehaviour.HALF_HEAD,
    EngineBehaviour.ENDLESS_HEAD,
    EngineBehaviour.SWITCHES,
    EngineBehaviour.SHORT,
    EngineBehaviour.TWO_LENGTHS,
]
BROKEN_IN_THE_MIDDLE = [EngineBehaviour.HALF_CHUNK, EngineBehaviour.HALF_CHUNK_RESET, EngineBehaviour.BAD_CHUNK]


@pytest.mark.behaviour("GW-30")
async def test_engine_that_breaks_before_its_answer_is_there_is_replaced_by_another(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, records: Records
) -> None:
    await add_replica(frontend, other)
    for mode in BROKEN_BEFORE_THE_FIRST_BYTE:
        records.received.clear()
        # Whichever is asked first breaks; the next call is answered.
        engine.queued = other.queued = [mode]
        answer = await ask(frontend)
        assert (answer.status, answer.body) == (200, JSON_ANSWER), mode
        record = await records.one()
        assert (record.status, record.attempts, record.origin) == (200, 2, ErrorOrigin.NONE), mode
    assert len(engine.received) + len(other.received) == 2 * len(BROKEN_BEFORE_THE_FIRST_BYTE)
    await idle(frontend)


@pytest.mark.behaviour("GW-31")
@pytest.mark.parametrize("mode", BROKEN_IN_THE_MIDDLE)
async def test_engine_break_in_the_middle_of_a_stream_is_sent_as_one_error_event_and_a_proper_end(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records, mode: EngineBehaviour
) -> None:
    engine.answer = mode
    async with wire(frontend) as opened:
        opened.send(STREAMED)
        answer = await opened.answer()
        first, *rest = answer.events()
        assert first["choices"][0]["delta"]["content"] == "one "
        (error_event,) = rest
        assert error_event["error"]["code"] == "engine_lost"
        assert "in the middle of the response" in error_event["error"]["message"]
        # The connection is as good as before.
        engine.answer = EngineBehaviour.FINE
        opened.send()
        assert (await opened.answer()).status == 200
    record = records.received[0]
    assert (record.status, record.origin, record.error_code) == (200, ErrorOrigin.ENGINE, "engine_lost")
    assert (record.events, record.is_estimated) == (1, True)
    await idle(frontend)


@pytest.mark.behaviour("GW-30")
async def test_broken_engine_without_another_replica_is_502_and_keeps_its_row(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    engine.answer = EngineBehaviour.CLOSES
    answer = await ask(frontend)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "engine_failed")
    record = await records.one()
    assert (record.status, record.origin, record.attempts) == (502, ErrorOrigin.ENGINE, 2)
    assert len(await list_rows(frontend.database)) == 1
    await idle(frontend)


@pytest.mark.behaviour("GW-32")
async def test_silent_engine_is_replaced_by_another_or_gives_504(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, records: Records
) -> None:
    gateway = frontend.core.gateway
    gateway.timeouts = ExchangeTimeouts(first_byte_s=0.05)
    engine.answer = EngineBehaviour.SILENT
    async with wire(frontend) as opened:
        opened.send()

        async def was_late() -> bool:
            return await gateway.tick() == 1

        await eventually(was_late)
        answer = await opened.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (504, "engine_timeout")
        assert "sent nothing for 0.05 s" in answer.json()["error"]["message"]
        await add_replica(frontend, other)
        other.queued = [EngineBehaviour.SILENT]
        opened.send()
        # Whichever is asked first says nothing, and so does the other one once, if it is that one.
        await eventually(was_late)
        engine.answer = EngineBehaviour.FINE
        answer = await opened.answer()
        assert answer.status == 200
    assert [record.status for record in records.received] == [504, 200]
    assert records.received[0].origin is ErrorOrigin.ENGINE
    assert records.received[1].attempts == 2
    await idle(frontend)


@pytest.mark.behaviour("GW-32")
async def test_stream_that_stalls_is_ended_with_one_error_event(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    gateway = frontend.core.gateway
    gateway.timeouts = ExchangeTimeouts(between_bytes_s=0.05)
    engine.answer = EngineBehaviour.STALLS
    async with wire(frontend) as opened:
        opened.send(STREAMED)

        async def was_late() -> bool:
            return await gateway.tick() == 1

        await eventually(was_late)
        events = (await opened.answer()).events()
    assert [list(event)[-1] for event in events] == ["choices", "error"]
    await idle(frontend)

    async def is_left() -> bool:
        return engine.open == 0

    await eventually(is_left)


async def test_engine_error_is_relayed_and_attributed_to_its_cause(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    for status, origin in (("400 Bad Request", ErrorOrigin.CLIENT), ("500 Oh no", ErrorOrigin.ENGINE)):
        records.received.clear()
        engine.answer = make_json_script(b'{"odd" :  1}', status)
        answer = await ask(frontend)
        assert (answer.status, answer.body) == (int(status[:3]), b'{"odd" :  1}')
        assert (await records.one()).origin is origin
    engine.answer = EngineBehaviour.BUSY
    assert (await ask(frontend)).status == 503


async def test_busy_engine_is_passed_over_if_there_is_another(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine
) -> None:
    await add_replica(frontend, other)
    engine.answer = EngineBehaviour.BUSY
    for _ in range(4):
        assert (await ask(frontend)).status == 200
    assert len(await list_rows(frontend.database)) == 2


async def test_large_answer_that_breaks_off_is_a_whole_answer_to_no_client(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    size_bytes = BUFFERED_BYTES_MAX + 1024 * 1024
    engine.answer = ResponseScript((make_json_head(size_bytes), b"x" * (size_bytes - 1)), AfterResponse.CLOSE)
    with pytest.raises(h11.RemoteProtocolError):
        await ask(frontend)
    engine.answer = ResponseScript((make_json_head(size_bytes), b"x" * size_bytes))
    answer = await ask(frontend)
    assert (len(answer.body), answer.headers["content-length"]) == (size_bytes, str(size_bytes))
    assert [record.origin for record in records.received] == [ErrorOrigin.ENGINE, ErrorOrigin.NONE]
    assert records.received[1].sent_bytes == size_bytes


async def test_answer_without_a_length_ends_with_its_connection(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    engine.answer = EngineBehaviour.UNTIL_CLOSE
    answer = await ask(frontend)
    assert (answer.status, answer.body) == (200, JSON_ANSWER)


@pytest.mark.behaviour("GW-31")
async def test_events_are_relayed_whole_however_they_are_cut(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    whole = (
        encode_event("one ")
        + b": a comment\r\n\r\n"
        + encode_event("two").replace(b"\n", b"\r\n")
        + b"data: [DONE]\n\n"
    )
    engine.answer = ResponseScript(
        (STREAM_HEAD, *(encode_chunk(whole[at : at + 7]) for at in range(0, len(whole), 7)), encode_chunk(b""))
    )
    async with wire(frontend) as opened:
        opened.send(STREAMED)
        answer = await opened.answer()
    assert answer.body == whole
    assert answer.pieces <= 4
    assert answer.headers["transfer-encoding"] == "chunked"
    assert (await records.one()).is_stream


@pytest.mark.behaviour("GW-31")
async def test_event_of_any_size_is_passed_on(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    whole = encode_event("x" * 3 * EVENT_BYTES_MAX) + encode_event("y") + encode_event("z" * 100_000)
    engine.answer = ResponseScript(
        (STREAM_HEAD, *(encode_chunk(whole[at : at + 1000]) for at in range(0, len(whole), 1000)), encode_chunk(b""))
    )
    assert (await ask(frontend, STREAMED)).body == whole


@pytest.mark.behaviour("GW-31")
async def test_stream_with_a_content_length_still_ends_with_an_error_event_when_it_breaks(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n"
    engine.answer = ResponseScript((head, encode_event("one ")), AfterResponse.CLOSE)
    answer = await ask(frontend, STREAMED)
    assert "content-length" not in answer.headers
    assert [list(event)[-1] for event in answer.events()] == ["choices", "error"]


async def test_usage_is_read_from_answers_and_streams_and_counted_by_events_otherwise(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    usage_event = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
    pieces = (
        STREAM_HEAD,
        encode_chunk(encode_event("one ")),
        encode_chunk(encode_event("two")),
        encode_chunk(usage_event),
        encode_chunk(b"data: [DONE]\n\n"),
        encode_chunk(b""),
    )
    await ask(frontend)
    engine.answer = ResponseScript(pieces)
    await ask(frontend, STREAMED)
    engine.answer = EngineBehaviour.FINE
    await ask(frontend, STREAMED)
    counted = [(one.prompt_tokens, one.completion_tokens, one.is_estimated) for one in records.received]
    # The last stream has three events: the first one of a chat says who speaks.
    prompt = math.ceil(len(json.dumps(STREAMED)) / 4)
    assert counted == [(3, 3, False), (7, 2, False), (prompt, 2, True)]
    assert [one.events for one in records.received] == [0, 3, 3]
    assert {one.model for one in records.received} == {"chat"}
    assert all(one.first_byte_s is not None and one.total_s >= one.first_byte_s for one in records.received)


async def test_client_that_leaves_ends_its_call_and_is_counted_once(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    for mode, body in ((EngineBehaviour.SILENT, CHAT), (EngineBehaviour.STALLS, STREAMED)):
        records.received.clear()
        engine.answer = mode
        received_before = len(engine.received)
        async with wire(frontend) as opened:
            opened.send(body)

            async def is_called(received_before: int = received_before) -> bool:
                return len(engine.received) > received_before

            await eventually(is_called)
            if body is STREAMED:
                assert b"one " in await opened.read()
            opened.leave()
        record = await records.one()
        assert (record.status, record.origin, record.error_code) == (CLIENT_LEFT, ErrorOrigin.CLIENT, "client_left")

        async def is_left() -> bool:
            return engine.open == 0

        await eventually(is_left)
        await idle(frontend)


async def test_prompt_of_ten_megabytes_arrives_as_it_was_sent(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "ä" * 5_000_000}], "model": "chat"}, ensure_ascii=False)
    answer = await ask(frontend, body.encode())
    assert answer.status == 200
    assert engine.received[-1].body == body.encode()


@pytest.mark.behaviour("GW-30")
async def test_dying_engine_is_retried_until_it_refuses_and_its_replica_is_removed(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    """Killed, it takes calls for another moment and breaks them off; then nobody listens."""
    engine.answer = EngineBehaviour.RESETS

    class EngineStoppingClock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            assert len(engine.received) == 1
            await engine.stop()
            await super().sleep(seconds)

    frontend.core.gateway.clock = EngineStoppingClock()
    answer = await ask(frontend, CHAT, "Prefer: wait=1")
    assert answer.json()["error"]["code"] != "engine_failed"
    assert frontend.core.router.snapshot.list_replica_ids() == set()


async def test_listener_that_raises_takes_no_answer_away(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    class FailingListener:
        def on_requests_ended(self, *records: RequestRecord) -> None:
            raise RuntimeError(records[0].request_id)

    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    frontend.core.gateway.listeners.append(FailingListener())
    async with wire(frontend) as opened:
        for mode, body, status in (
            (EngineBehaviour.FINE, CHAT, 200),
            (EngineBehaviour.FINE, STREAMED, 200),
            (EngineBehaviour.CLOSES, CHAT, 502),
        ):
            engine.answer = mode
            opened.send(body)
            assert (await opened.answer()).status == status
        engine.answer = EngineBehaviour.HALF_CHUNK
        opened.send(STREAMED)
        assert "error" in (await opened.answer()).events()[-1]
    await idle(frontend)
    assert errors
