"""Answers with status 200 that are none: a failure of their replica, tried at another one, and never a reason to ask
that replica again."""

from __future__ import annotations

import json

import pytest

from tests.gateway.scene import CHAT, STREAMED, Records, add_replica, ask, idle, wire
from tests.support.engines import (
    DONE,
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


def typed(kind: str, body: bytes, status: str = "200 OK") -> ResponseScript:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return ResponseScript((head.encode() + body,))


HTML = b"<!doctype html><html><body>It works!</body></html>"
NO_ANSWERS = {
    "nothing": ResponseScript((make_json_head(0),)),
    "nothing, in chunks": ResponseScript(
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            + encode_chunk(b""),
        )
    ),
    "blanks": make_json_script(b" \r\n "),
    "HTML": typed("text/html; charset=utf-8", HTML),
    "HTML that calls itself JSON": make_json_script(HTML),
    "a text": typed("text/plain", JSON_ANSWER),
    "a text that calls itself JSON": make_json_script(b"hello"),
    "a list": make_json_script(b"[]"),
    "more than its length": ResponseScript((make_json_head(len(JSON_ANSWER) - 9) + JSON_ANSWER,)),
    "more than its length, later": ResponseScript((make_json_head(len(JSON_ANSWER) - 9) + JSON_ANSWER[:-9],)),
    "no content": ResponseScript((b"HTTP/1.1 204 No Content\r\nContent-Type: text/event-stream\r\n\r\n",)),
    "a redirect": typed("text/html", HTML, "302 Found"),
}
NO_STREAMS = {
    "nothing": ResponseScript((STREAM_HEAD + encode_chunk(b""),)),
    "HTML": ResponseScript((STREAM_HEAD + encode_chunk(HTML) + encode_chunk(b""),)),
    "HTML by its type": typed("text/html", HTML),
    "no content": NO_ANSWERS["no content"],
}


@pytest.mark.behaviour("GW-213")
@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_request_is_retried_on_another_replica_after_an_implausible_response(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, name: str
) -> None:
    await add_replica(frontend, other)
    engine.answer = NO_ANSWERS[name]
    answers = [await ask(frontend) for _ in range(20)]
    assert {(answer.status, answer.body) for answer in answers} == {(200, JSON_ANSWER)}
    # Five failures open its breaker, and after that it is tried now and then.
    assert 0 < len(engine.received) <= 8


@pytest.mark.behaviour("GW-213")
@pytest.mark.parametrize("name", NO_STREAMS)
async def test_request_is_retried_on_another_replica_after_an_implausible_stream(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, name: str
) -> None:
    await add_replica(frontend, other)
    engine.answer = NO_STREAMS[name]
    answers = [await ask(frontend, STREAMED) for _ in range(20)]
    assert {(answer.status, answer.events()[-1]) for answer in answers} == {(200, "[DONE]")}
    assert 0 < len(engine.received) <= 8


@pytest.mark.behaviour("GW-213")
@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_client_gets_502_when_the_only_replica_gives_no_answer(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records, name: str
) -> None:
    engine.answer = NO_ANSWERS[name]
    answer = await ask(frontend)
    assert answer.status == 502, answer
    assert "The engine at" in answer.json()["error"]["message"]
    assert (await records.one()).status == 502
    await idle(frontend)


@pytest.mark.behaviour("GW-213")
async def test_answer_is_passed_on_when_it_is_coded_or_has_blanks_around_it(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    for coded in (b"\x1f\x8b\x08\x00",):
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
        )
        engine.answer = ResponseScript((head + coded,))
        assert (await ask(frontend)).body == coded
    padded = b"\n " + JSON_ANSWER + b"\r\n"
    engine.answer = make_json_script(padded)
    assert (await ask(frontend)).body == padded


@pytest.mark.parametrize("body", [b"{}", b'{"detail": "ok"}'], ids=["empty", "other"])
async def test_speed_is_not_learnt_from_an_answer_without_a_result(
    frontend: RunningFrontend, engine: MisbehavingEngine, body: bytes
) -> None:
    engine.answer = make_json_script(body)
    assert (await ask(frontend)).body == body
    engine.answer = ResponseScript((STREAM_HEAD + encode_chunk(DONE) + encode_chunk(b""),))
    assert (await ask(frontend, STREAMED)).status == 200
    (seat,) = frontend.core.router.snapshot.pools
    assert seat.response_s is None
    engine.answer = EngineBehaviour.FINE
    await ask(frontend)
    assert seat.response_s is not None


async def test_engine_error_is_tried_once_at_another_replica(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, records: Records
) -> None:
    await add_replica(frontend, other)
    broken = make_json_script(json.dumps({"error": {"message": "out of memory", "code": "oom"}}).encode(), "500 Oh")
    engine.answer = broken
    answers = [await ask(frontend) for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert 0 < len(engine.received) <= 8
    other.answer = broken
    received_before = len(engine.received) + len(other.received)
    answer = await ask(frontend)
    assert (answer.status, answer.json()["error"]["code"]) == (500, "oom")
    assert len(engine.received) + len(other.received) - received_before <= 2
    assert records.received[-1].status == 500


async def test_prompt_is_estimated_when_its_client_leaves_before_the_engine_tells(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    long = STREAMED | {"messages": [{"role": "user", "content": "word " * 2000}]}
    engine.answer = ResponseScript(
        (STREAM_HEAD, encode_chunk(encode_event("a ")), encode_chunk(encode_event("b "))), AfterResponse.SILENCE
    )
    async with wire(frontend) as opened:
        opened.send(long)
        await opened.read()
        opened.leave()
        record = await records.one()
    assert record.is_estimated
    assert record.prompt_tokens is not None
    assert 2000 <= record.prompt_tokens <= 3000


@pytest.mark.parametrize("streamed", [True, False])
async def test_prompt_is_estimated_when_its_client_leaves_before_the_engine_answers(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records, *, streamed: bool
) -> None:
    engine.answer = EngineBehaviour.SILENT
    async with wire(frontend) as opened:
        opened.send(CHAT | {"stream": streamed, "messages": [{"role": "user", "content": "word " * 2000}]})

        async def is_called() -> bool:
            return bool(engine.received)

        await eventually(is_called)
        opened.leave()
        record = await records.one()
    assert (record.error_code, record.is_estimated) == ("client_left", True)
    assert record.prompt_tokens is not None
    assert 2000 <= record.prompt_tokens <= 3000


async def test_pictures_are_not_estimated_as_text_when_their_client_leaves(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 200_000}}
    engine.answer = ResponseScript((STREAM_HEAD, encode_chunk(encode_event("a "))), AfterResponse.SILENCE)
    async with wire(frontend) as opened:
        opened.send(CHAT | {"stream": True, "messages": [{"role": "user", "content": [picture]}]})
        await opened.read()
        opened.leave()
        record = await records.one()
    assert record.prompt_tokens == 4096
