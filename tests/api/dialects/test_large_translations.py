"""Requests and answers that are too large to be translated on the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import signal
from typing import Any

import aiohttp
import pytest

from corral.api.dialects import anthropic, ollama, responses
from corral.api.dialects.translation_work import IN_PLACE_BYTES_MAX, RequestTarget, write_decoded
from corral.domain.usage import ErrorOrigin, RequestRecord
from tests.api.dialects.recorder import Recorder, recorder
from tests.api.dialects.streams import whole
from tests.support.decoding import record_decoded_sizes
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually

MIB = 1024 * 1024
MOMENT = ollama.OllamaClock(monotonic=lambda: 0.0, format_now=lambda: "")
TARGET = RequestTarget(model="chat", defaults={})
TURNS = [{"role": "user", "content": "a word"}, {"role": "assistant", "content": "another"}] * 8_000
TEXTS = ["some words to be embedded"] * 20_000
# Every dialect with a body of just under 50,000 values, and what reads it.
REQUESTS: dict[str, tuple[dict[str, Any], Any]] = {
    "/v1/messages": (
        {"model": "chat", "max_tokens": 5, "messages": TURNS[:-1]},
        lambda body: anthropic.parse_request(body, model="chat", answer_id=""),
    ),
    "/v1/responses": (
        {"model": "chat", "input": TURNS},
        lambda body: responses.parse_request(body, model="chat", answer_id="", created_at=0),
    ),
    "/api/chat": (
        {"model": "chat", "messages": TURNS, "stream": False},
        lambda body: ollama.read_chat(body, model="chat", clock=MOMENT),
    ),
    "/api/generate": (
        {"model": "chat", "prompt": "a", "stream": False, "images": ["/9j/4AAQSkZJRgABAQ"] * 10_000},
        lambda body: ollama.read_generate(body, model="chat", clock=MOMENT),
    ),
    "/api/embed": (
        {"model": "chat", "input": TEXTS},
        lambda body: ollama.read_embed_request(body, model="chat", clock=MOMENT, is_old=False),
    ),
}
VECTORS = {
    "data": [{"index": 199 - number, "embedding": [number / 7, -number / 3] * 192} for number in range(200)],
    "usage": {"prompt_tokens": 7},
}


class EndedRecords(list[RequestRecord]):
    """Collects the records of requests that have ended."""

    def on_requests_ended(self, *records: RequestRecord) -> None:
        self.extend(records)


def answer_all(engine: Recorder) -> None:
    engine.answers = {"/v1/chat/completions": (200, whole({"content": "yes"})), "/v1/embeddings": (200, VECTORS)}


@pytest.mark.parametrize("path", REQUESTS)
async def test_large_request_is_translated_in_another_process_as_a_small_one_is_on_the_loop(
    frontend: RunningFrontend, path: str
) -> None:
    body, read = REQUESTS[path]
    async with recorder(frontend, "fake") as engine:
        answer_all(engine)
        status, reply = await frontend.call("POST", path, body)
        assert status == 200, reply
        assert frontend.core.api_deps.compute.pid is not None
        _, expected = write_decoded(read, TARGET, body)
        assert engine.requests[-1].sha256 == hashlib.sha256(expected).hexdigest()


@pytest.mark.behaviour("GW-235")
@pytest.mark.parametrize("path", REQUESTS)
async def test_large_requests_and_answers_are_decoded_in_another_process_alone(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    body = json.dumps(REQUESTS[path][0]).encode()
    async with recorder(frontend, "fake") as engine, aiohttp.ClientSession() as session:
        engine.answers = {
            "/v1/chat/completions": (200, whole({"content": "some words " * 20_000})),
            "/v1/embeddings": (200, VECTORS),
        }
        decoded = record_decoded_sizes(monkeypatch)
        headers = {"authorization": f"Bearer {ADMIN_KEY}", "content-type": "application/json"}
        async with session.post(f"{frontend.url}{path}", data=io.BytesIO(body), headers=headers) as reply:
            assert (reply.status, len(await reply.read()) > IN_PLACE_BYTES_MAX) == (200, True)
        assert max(decoded, default=0) <= IN_PLACE_BYTES_MAX < len(body)


async def test_error_in_a_large_request_is_reported_as_in_a_small_one(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "fake"):
        for turns in (TURNS[:1], TURNS):
            wrong = [*turns, {"role": "nobody", "content": "a"}]
            status, reply = await frontend.call(
                "POST", "/v1/messages", {"model": "chat", "max_tokens": 5, "messages": wrong}
            )
            place = f"messages[{len(turns)}].role: user or assistant is required."
            assert (status, reply["error"]["message"]) == (400, place)


async def test_large_answer_is_translated_as_a_small_one(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "fake") as engine:
        answer_all(engine)
        status, reply = await frontend.call("POST", "/api/embed", {"model": "chat", "input": ["a"] * 200})
        assert status == 200, reply
        assert frontend.core.api_deps.compute.pid is not None
        assert reply["embeddings"] == [row["embedding"] for row in reversed(VECTORS["data"])]  # type: ignore[call-overload]
        assert (reply["prompt_eval_count"], reply["total_duration"] > 0) == (7, True)


async def test_small_request_and_answer_are_translated_without_another_process(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "fake") as engine:
        answer_all(engine)
        status, _ = await frontend.call("POST", "/api/chat", REQUESTS["/api/chat"][0] | {"messages": TURNS[:10]})
        assert (status, frontend.core.api_deps.compute.pid) == (200, None)


@pytest.mark.parametrize("path", ["/v1/messages", "/api/embed"])
async def test_frontend_answers_others_while_something_large_is_translated(
    frontend: RunningFrontend, path: str
) -> None:
    """The process stands still meanwhile, so nothing but the loop's own work is done."""
    body = REQUESTS["/v1/messages"][0] if path == "/v1/messages" else {"model": "chat", "input": ["a"] * 200}
    async with recorder(frontend, "fake") as engine:
        answer_all(engine)
        await frontend.call("POST", path, body)
        pid = frontend.core.api_deps.compute.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            large = asyncio.create_task(frontend.call("POST", path, body))
            small = REQUESTS["/api/chat"][0] | {"messages": TURNS[:2]}
            for _ in range(20):
                assert (await frontend.call("POST", "/api/chat", small))[0] == 200
            assert not large.done()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await large)[0] == 200


async def test_client_that_leaves_ends_the_translation_of_its_answer(frontend: RunningFrontend) -> None:
    body, ended = {"model": "chat", "input": ["a"] * 200}, EndedRecords()
    async with recorder(frontend, "fake") as engine:
        answer_all(engine)
        await frontend.call("POST", "/api/embed", body)
        frontend.core.gateway.listeners.append(ended)
        compute = frontend.core.api_deps.compute
        pid = compute.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        large = asyncio.create_task(frontend.call("POST", "/api/embed", body))

        async def is_answered_by_engine() -> bool:
            return len(engine.requests) == 2

        async def is_left() -> bool:
            return compute.pid != pid and bool(ended)

        await eventually(is_answered_by_engine)
        large.cancel()
        await eventually(is_left)
        assert [one.error_code for one in ended] == ["client_left"]
        assert (await frontend.call("POST", "/api/embed", body))[0] == 200


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b'{"data":[' + b"0," * (17 * MIB) + b"0]}", "larger than 32 MiB"),
        (b'{"data":[' + b"[]," * (5 * MIB) + b"0]}", "too many values"),
        (b'{"data":[' + (b"[" * 60 + b"]" * 60 + b",") * 1000 + b"0]}", "no embeddings"),
    ],
    ids=["bytes", "values", "levels"],
)
async def test_answer_beyond_the_limits_is_a_failure_of_its_engine(
    frontend: RunningFrontend, answer: bytes, sentence: str
) -> None:
    ended = EndedRecords()
    frontend.core.gateway.listeners.append(ended)
    async with recorder(frontend, "fake") as engine:
        engine.bodies["/v1/embeddings"] = answer
        status, reply = await frontend.call("POST", "/api/embed", {"model": "chat", "input": "a"})
        assert (status, sentence in reply["error"]) == (502, True), reply
        assert [(one.status, one.origin) for one in ended] == [(502, ErrorOrigin.ENGINE)]
        answer_all(engine)
        del engine.bodies["/v1/embeddings"]
        status, _ = await frontend.call("POST", "/api/embed", {"model": "chat", "input": "a"})
        assert status == 200


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (b'{"choices":[' + b"[]," * 30_000 + b"0]}", "too many values"),
        (b'{"choices":"' + b"a" * MIB + b'"}', "line without end"),
        (b"[" * 50_000, "not JSON"),
    ],
    ids=["values", "bytes", "levels"],
)
async def test_event_beyond_the_limits_breaks_its_stream_off(
    frontend: RunningFrontend, event: bytes, sentence: str
) -> None:
    async with recorder(frontend, "fake") as engine:
        engine.streams["/v1/chat/completions"] = b"data: " + event + b"\n\ndata: [DONE]\n\n"
        sent = {"model": "chat", "messages": TURNS[:1]}
        status, reply = await frontend.call("POST", "/api/chat", sent)
        assert status == 200
        assert sentence in json.loads(reply)["error"]


async def test_event_with_a_long_text_is_translated(frontend: RunningFrontend) -> None:
    text = "a, [b], {c}\n" * 20_000
    event = {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}
    async with recorder(frontend, "fake") as engine:
        engine.streams["/v1/chat/completions"] = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
        _, reply = await frontend.call("POST", "/api/chat", {"model": "chat", "messages": TURNS[:1]})
        assert json.loads(reply.splitlines()[0])["message"]["content"] == text
