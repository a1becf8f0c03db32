"""Engines that die, hang, babble and lie: every client gets an answer that makes sense, exactly once."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import h11
import pytest

from corral.adapters.system import SystemClock
from corral.domain.answered import Answered, Origin
from corral.serving.exchange import GATHERED_BYTES_MAX
from corral.serving.gateway import CLIENT_LEFT, Timeouts
from corral.serving.stream import EVENT_BYTES_MAX
from tests.gateway.scene import CHAT, STREAMED, Records, add_replica, ask, idle, wire
from tests.serving.scene import list_rows
from tests.support.engines import (
    JSON_ANSWER,
    STREAM_HEAD,
    MisbehavingEngine,
    Mode,
    Script,
    Then,
    chunk,
    event,
    json_answer,
    json_head,
)
from tests.support.frontends import RunningFrontend
from tests.support.waiting import eventually

BROKEN_BEFORE_THE_FIRST_BYTE = [
    Mode.CLOSES,
    Mode.RESETS,
    Mode.GARBAGE,
    Mode.HALF_HEAD,
    Mode.ENDLESS_HEAD,
    Mode.SWITCHES,
    Mode.SHORT,
    Mode.TWO_LENGTHS,
]
BROKEN_IN_THE_MIDDLE = [Mode.HALF_CHUNK, Mode.HALF_CHUNK_RESET, Mode.BAD_CHUNK]


@pytest.mark.behaviour("GW-30")
async def test_an_engine_that_breaks_before_its_answer_is_there_is_replaced_by_another(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, records: Records
) -> None:
    await add_replica(frontend, other)
    for mode in BROKEN_BEFORE_THE_FIRST_BYTE:
        records.heard.clear()
        # Whichever is asked first breaks; the next call is answered.
        engine.queued = other.queued = [mode]
        answer = await ask(frontend)
        assert (answer.status, answer.body) == (200, JSON_ANSWER), mode
        record = await records.one()
        assert (record.status, record.attempts, record.origin) == (200, 2, Origin.NOBODY), mode
    assert len(engine.heard) + len(other.heard) == 2 * len(BROKEN_BEFORE_THE_FIRST_BYTE)
    await idle(frontend)


@pytest.mark.behaviour("GW-31")
@pytest.mark.parametrize("mode", BROKEN_IN_THE_MIDDLE)
async def test_an_engine_that_breaks_in_the_middle_of_a_stream_is_told_as_one_event_and_a_proper_end(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records, mode: Mode
) -> None:
    engine.answer = mode
    async with wire(frontend) as opened:
        opened.send(STREAMED)
        answer = await opened.answer()
        first, *rest = answer.events()
        assert first["choices"][0]["delta"]["content"] == "one "
        (told,) = rest
        assert told["error"]["code"] == "engine_lost"
        assert "in the middle of the answer" in told["error"]["message"]
        # The connection is as good as before.
        engine.answer = Mode.FINE
        opened.send()
        assert (await opened.answer()).status == 200
    record = records.heard[0]
    assert (record.status, record.origin, record.error_code) == (200, Origin.ENGINE, "engine_lost")
    assert (record.events, record.is_estimated) == (1, True)
    await idle(frontend)


@pytest.mark.behaviour("GW-30")
async def test_without_another_replica_a_broken_engine_is_502_and_keeps_its_row(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    engine.answer = Mode.CLOSES
    answer = await ask(frontend)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "engine_failed")
    record = await records.one()
    assert (record.status, record.origin, record.attempts) == (502, Origin.ENGINE, 2)
    assert len(await list_rows(frontend.database)) == 1
    await idle(frontend)


@pytest.mark.behaviour("GW-32")
async def test_an_engine_that_says_nothing_is_left_for_another_and_is_504_if_there_is_none(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, records: Records
) -> None:
    gateway = frontend.core.gateway
    gateway.timeouts = Timeouts(first_byte_s=0.05)
    engine.answer = Mode.SILENT
    async with wire(frontend) as opened:
        opened.send()

        async def was_late() -> bool:
            return await gateway.tick() == 1

        await eventually(was_late)
        answer = await opened.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (504, "engine_timeout")
        assert "said nothing for 0.05 s" in answer.json()["error"]["message"]
        await add_replica(frontend, other)
        other.queued = [Mode.SILENT]
        opened.send()
        # Whichever is asked first says nothing, and so does the other one once, if it is that one.
        await eventually(was_late)
        engine.answer = Mode.FINE
        answer = await opened.answer()
        assert answer.status == 200
    assert [record.status for record in records.heard] == [504, 200]
    assert records.heard[0].origin is Origin.ENGINE
    assert records.heard[1].attempts == 2
    await idle(frontend)


@pytest.mark.behaviour("GW-32")
async def test_a_stream_that_stalls_is_ended_with_one_error_event(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    gateway = frontend.core.gateway
    gateway.timeouts = Timeouts(between_s=0.05)
    engine.answer = Mode.STALLS
    async with wire(frontend) as opened:
        opened.send(STREAMED)

        async def was_late() -> bool:
            return await gateway.tick() == 1

        await eventually(was_late)
        events = (await opened.answer()).events()
    assert [list(said)[-1] for said in events] == ["choices", "error"]
    await idle(frontend)

    async def is_left() -> bool:
        return engine.open == 0

    await eventually(is_left)


@pytest.mark.behaviour("GW-33")
async def test_what_an_engine_says_of_itself_is_passed_on_and_blamed_on_whom_it_is_about(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    for status, origin in (("400 Bad Request", Origin.CLIENT), ("500 Oh no", Origin.ENGINE)):
        records.heard.clear()
        engine.answer = json_answer(b'{"odd" :  1}', status)
        answer = await ask(frontend)
        assert (answer.status, answer.body) == (int(status[:3]), b'{"odd" :  1}')
        assert (await records.one()).origin is origin
    engine.answer = Mode.BUSY
    assert (await ask(frontend)).status == 503


@pytest.mark.behaviour("GW-33")
async def test_a_busy_engine_is_passed_over_if_there_is_another(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine
) -> None:
    await add_replica(frontend, other)
    engine.answer = Mode.BUSY
    for _ in range(4):
        assert (await ask(frontend)).status == 200
    assert len(await list_rows(frontend.database)) == 2


@pytest.mark.behaviour("GW-34")
async def test_a_large_answer_that_breaks_off_is_no_whole_answer_to_anybody(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    size_bytes = GATHERED_BYTES_MAX + 1024 * 1024
    engine.answer = Script((json_head(size_bytes), b"x" * (size_bytes - 1)), Then.CLOSE)
    with pytest.raises(h11.RemoteProtocolError):
        await ask(frontend)
    engine.answer = Script((json_head(size_bytes), b"x" * size_bytes))
    answer = await ask(frontend)
    assert (len(answer.body), answer.headers["content-length"]) == (size_bytes, str(size_bytes))
    assert [record.origin for record in records.heard] == [Origin.ENGINE, Origin.NOBODY]
    assert records.heard[1].sent_bytes == size_bytes


@pytest.mark.behaviour("GW-34")
async def test_an_answer_without_a_length_ends_with_its_connection(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    engine.answer = Mode.UNTIL_CLOSE
    answer = await ask(frontend)
    assert (answer.status, answer.body) == (200, JSON_ANSWER)


@pytest.mark.behaviour("GW-31")
async def test_events_are_passed_on_whole_whatever_pieces_they_come_in(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    whole = event("one ") + b": a comment\r\n\r\n" + event("two").replace(b"\n", b"\r\n") + b"data: [DONE]\n\n"
    engine.answer = Script((STREAM_HEAD, *(chunk(whole[at : at + 7]) for at in range(0, len(whole), 7)), chunk(b"")))
    async with wire(frontend) as opened:
        opened.send(STREAMED)
        answer = await opened.answer()
    assert answer.body == whole
    assert answer.pieces <= 4
    assert answer.headers["transfer-encoding"] == "chunked"
    assert (await records.one()).is_stream


@pytest.mark.behaviour("GW-31")
async def test_an_event_of_any_size_is_passed_on(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    whole = event("x" * 3 * EVENT_BYTES_MAX) + event("y") + event("z" * 100_000)
    engine.answer = Script(
        (STREAM_HEAD, *(chunk(whole[at : at + 1000]) for at in range(0, len(whole), 1000)), chunk(b""))
    )
    assert (await ask(frontend, STREAMED)).body == whole


@pytest.mark.behaviour("GW-31")
async def test_a_stream_with_a_length_can_still_be_told_that_it_broke(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n"
    engine.answer = Script((head, event("one ")), Then.CLOSE)
    answer = await ask(frontend, STREAMED)
    assert "content-length" not in answer.headers
    assert [list(said)[-1] for said in answer.events()] == ["choices", "error"]


@pytest.mark.behaviour("GW-35")
async def test_usage_is_read_from_answers_and_streams_and_counted_by_events_otherwise(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    told = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
    pieces = (
        STREAM_HEAD,
        chunk(event("one ")),
        chunk(event("two")),
        chunk(told),
        chunk(b"data: [DONE]\n\n"),
        chunk(b""),
    )
    await ask(frontend)
    engine.answer = Script(pieces)
    await ask(frontend, STREAMED)
    engine.answer = Mode.FINE
    await ask(frontend, STREAMED)
    counted = [(one.prompt_tokens, one.completion_tokens, one.is_estimated) for one in records.heard]
    # The last stream has three events: the first one of a chat says who speaks.
    prompt = math.ceil(len(json.dumps(STREAMED)) / 4)
    assert counted == [(3, 3, False), (7, 2, False), (prompt, 2, True)]
    assert [one.events for one in records.heard] == [0, 3, 3]
    assert {one.model for one in records.heard} == {"chat"}
    assert all(one.first_byte_s is not None and one.total_s >= one.first_byte_s for one in records.heard)


@pytest.mark.behaviour("GW-36")
async def test_a_client_that_leaves_ends_its_call_and_is_counted_once(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    for mode, body in ((Mode.SILENT, CHAT), (Mode.STALLS, STREAMED)):
        records.heard.clear()
        engine.answer = mode
        heard = len(engine.heard)
        async with wire(frontend) as opened:
            opened.send(body)

            async def is_asked(heard: int = heard) -> bool:
                return len(engine.heard) > heard

            await eventually(is_asked)
            if body is STREAMED:
                assert b"one " in await opened.read()
            opened.leave()
        record = await records.one()
        assert (record.status, record.origin, record.error_code) == (CLIENT_LEFT, Origin.CLIENT, "client_left")

        async def is_left() -> bool:
            return engine.open == 0

        await eventually(is_left)
        await idle(frontend)


@pytest.mark.behaviour("GW-37")
async def test_a_prompt_of_ten_megabytes_arrives_as_it_was_sent(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "ä" * 5_000_000}], "model": "chat"}, ensure_ascii=False)
    answer = await ask(frontend, body.encode())
    assert answer.status == 200
    assert engine.heard[-1].body == body.encode()


@pytest.mark.behaviour("GW-30")
async def test_an_engine_that_is_dying_is_asked_again_when_it_is_dead_and_its_row_goes(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    """Killed, it takes calls for another moment and breaks them off; then nobody listens."""
    engine.answer = Mode.RESETS

    class DyingMeanwhile(SystemClock):
        async def sleep(self, seconds: float) -> None:
            assert len(engine.heard) == 1
            await engine.stop()
            await super().sleep(seconds)

    frontend.core.gateway.clock = DyingMeanwhile()
    answer = await ask(frontend, CHAT, "Prefer: wait=1")
    assert answer.json()["error"]["code"] != "engine_failed"
    assert frontend.core.router.snapshot.replica_ids() == set()


@pytest.mark.behaviour("GW-36")
async def test_a_listener_that_raises_takes_no_answer_away(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    class Broken:
        def answered(self, *records: Answered) -> None:
            raise RuntimeError(records[0].request_id)

    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    frontend.core.gateway.listeners.append(Broken())
    async with wire(frontend) as opened:
        for mode, body, status in ((Mode.FINE, CHAT, 200), (Mode.FINE, STREAMED, 200), (Mode.CLOSES, CHAT, 502)):
            engine.answer = mode
            opened.send(body)
            assert (await opened.answer()).status == status
        engine.answer = Mode.HALF_CHUNK
        opened.send(STREAMED)
        assert "error" in (await opened.answer()).events()[-1]
    await idle(frontend)
    assert said
