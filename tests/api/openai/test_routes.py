"""Answers on their way: as they come, through deaths of engines, and without PostgreSQL and NATS."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from corral.domain.errors import StoreUnavailable
from corral.gateway.connection.connection_limits import INFERENCE_BODY_BYTES_MAX
from corral.store.database import Database
from tests.engines.engine_processes import Engine
from tests.serving.scene import (
    PretendLoads,
    address_of,
    an_engine,
    keep_only_the_feed,
    list_rows,
    put_model,
    put_replica,
    serve,
    settled,
)
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually
from tests.support.ports import find_free_port
from tests.support.statements import count_statements

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
CHAT = {"model": "chat", "messages": MESSAGES}
AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path / "one") as running:
        yield running


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path / "other") as running:
        yield running


@pytest.fixture
async def cold(database_url: str, database: Database) -> AsyncIterator[tuple[RunningFrontend, PretendLoads]]:
    """A frontend whose loads happen when the test says so."""
    loads = PretendLoads(database)
    async with running_frontend(database_url, loads=loads) as frontend:
        await keep_only_the_feed(frontend)
        yield frontend, loads


def client_of(frontend: RunningFrontend) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{frontend.url}/v1", api_key=ADMIN_KEY, max_retries=0)


async def in_flight(frontend: RunningFrontend) -> int:
    return sum(frontend.core.router.leases.count_own_by_replica().values())


@pytest.mark.behaviour("V1-5")
async def test_loaded_models_answer_while_postgresql_and_nats_are_away(
    frontend: RunningFrontend, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await serve(frontend, engine)
    for loop in frontend.core.loops.after_boot:
        await loop.stop()
    statements: list[str] = []
    count_statements(frontend.database, statements.append)

    def away() -> None:
        raise StoreUnavailable

    monkeypatch.setattr(frontend.database, "transaction", away)
    assert not frontend.bus.is_connected
    for _ in range(3):
        status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT)
        assert status == 200
        assert answer["choices"][0]["message"]["content"]
    assert (await frontend.call("GET", "/v1/models"))[0] == 200
    assert statements == []
    status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT | {"model": "unknown"})
    assert (status, answer["error"]["code"]) == (503, "store_unavailable")
    monkeypatch.undo()


@pytest.mark.behaviour("NODE-111")
async def test_request_is_counted_while_it_runs_and_not_afterwards_also_when_it_fails(
    frontend: RunningFrontend, engine: Engine
) -> None:
    replica = await serve(frontend, engine)
    use = frontend.core.router.leases
    await engine.post("/_control", {"hang": 1})
    calls = [
        asyncio.ensure_future(frontend.call("POST", path, body))
        for path, body in (
            ("/v1/chat/completions", CHAT),
            ("/v1/completions", {"model": "chat", "prompt": "x"}),
            ("/v1/embeddings", {"model": "chat", "input": "x"}),
        )
    ]

    async def all_there() -> bool:
        return use.count_own_by_replica().get(replica.id, 0) == 3

    await eventually(all_there)
    await engine.post("/_control", {"hang": 0})
    assert [(await call)[0] for call in calls] == [200, 200, 200]
    assert use.count_own_by_replica().get(replica.id, 0) == 0
    status, _ = await frontend.call("POST", "/v1/embeddings", {"model": "chat", "input": 7})
    assert status == 400
    assert use.count_own_by_replica().get(replica.id, 0) == 0


@pytest.mark.behaviour("V1-6")
async def test_first_piece_comes_before_the_last_is_made_and_leaving_stops_the_engine(
    frontend: RunningFrontend, engine: Engine
) -> None:
    replica = await serve(frontend, engine)
    await engine.post("/_control", {"tokens_per_s": 2})
    body = CHAT | {"stream": True, "ignore_eos": True}
    async with frontend.http.post(f"{frontend.url}/v1/chat/completions", json=body, headers=AUTHORISED) as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers["X-Accel-Buffering"] == "no"
        first = await answer.content.readline()
        assert first.startswith(b"data: ")
        assert (await engine.numbers())["running"] == 1
        answer.close()

    async def is_idle() -> bool:
        own = frontend.core.router.leases.count_own_by_replica()
        return replica.id not in own and (await engine.numbers())["running"] == 0

    await eventually(is_idle)


@pytest.mark.behaviour("V1-6")
async def test_client_that_leaves_before_the_first_byte_stops_the_engine_too(
    frontend: RunningFrontend, engine: Engine
) -> None:
    replica = await serve(frontend, engine)
    await engine.post("/_control", {"hang": 1})
    with pytest.raises(TimeoutError):
        await frontend.http.post(
            f"{frontend.url}/v1/chat/completions", json=CHAT, headers=AUTHORISED, timeout=aiohttp.ClientTimeout(0.3)
        )

    async def is_idle() -> bool:
        own = frontend.core.router.leases.count_own_by_replica()
        return replica.id not in own and (await engine.numbers())["running"] == 0

    await eventually(is_idle)


async def test_openai_client_gets_one_clean_error_when_the_engine_dies_in_the_middle_of_a_stream(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await serve(frontend, engine)
    await engine.post("/_control", {"crash_after": 1, "tokens_per_s": 50})
    answer_text = ""
    async with client_of(frontend) as client:
        stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
        error_received: openai.APIError | None = None
        try:
            async for chunk in stream:
                answer_text += chunk.choices[0].delta.content or ""
        except openai.APIError as error:
            error_received = error
    assert answer_text
    assert error_received is not None
    assert error_received.code == "engine_lost"
    assert "in the middle of the response" in error_received.message


async def test_engine_that_dies_before_it_has_answered_is_replaced_by_another_replica(
    frontend: RunningFrontend, engine: Engine, other: Engine
) -> None:
    await serve(frontend, engine)
    await other.ready()
    second = await join_node(frontend, "node-2")
    await put_replica(frontend.database, second.id, address_of(other))
    await settled(frontend)
    # Whichever is picked dies while it makes its answer; an answer that is no stream is not passed on before its end.
    for one in (engine, other):
        await one.post("/_control", {"crash_after": 1, "tokens_per_s": 50})
    status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT)
    assert status == 502
    assert answer["error"]["code"] in ("engine_failed", "engine_lost", "engine_refused")
    # A process closes its connections a moment before it can be reaped.
    assert {one.process.wait(timeout=20) for one in (engine, other)} == {70}
    assert await in_flight(frontend) == 0


async def test_dead_replica_is_not_noticed_by_clients(frontend: RunningFrontend, engine: Engine, other: Engine) -> None:
    await serve(frontend, engine)
    await other.ready()
    second = await join_node(frontend, "node-2")
    await put_replica(frontend.database, second.id, address_of(other))
    await settled(frontend)
    assert (await frontend.call("POST", "/v1/chat/completions", CHAT))[0] == 200
    assert (await frontend.call("POST", "/v1/chat/completions", CHAT))[0] == 200
    engine.process.kill()
    engine.process.wait()
    # At once: one after the other, all might go to the one that was faster before.
    answers = await asyncio.gather(*(frontend.call("POST", "/v1/chat/completions", CHAT) for _ in range(6)))
    assert {status for status, _ in answers} == {200}
    assert [replica.address for replica in await list_rows(frontend.database)] == [address_of(other)]


@pytest.mark.behaviour("NODE-66")
async def test_replica_that_refuses_connections_is_removed_and_its_model_is_loaded_again(
    cold: tuple[RunningFrontend, PretendLoads], engine: Engine
) -> None:
    frontend, loads = cold
    await put_model(frontend.database)
    node = await join_node(frontend)
    await put_replica(frontend.database, node.id, f"127.0.0.1:{find_free_port()}")
    await settled(frontend)
    pending = asyncio.ensure_future(frontend.call("POST", "/v1/chat/completions", CHAT))

    async def was_begun() -> bool:
        return len(loads.begun) == 1

    await eventually(was_begun)
    assert await list_rows(frontend.database) == []
    await engine.ready()
    await put_replica(frontend.database, node.id, address_of(engine))
    await loads.complete()
    assert (await pending)[0] == 200


@pytest.mark.behaviour("NODE-67")
async def test_replica_that_does_not_answer_keeps_its_row(frontend: RunningFrontend) -> None:
    """It accepts and closes without a word, as one does that is out of hands; busy is not dead."""
    await put_model(frontend.database)
    node = await join_node(frontend)

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await put_replica(frontend.database, node.id, f"127.0.0.1:{port}")
        await settled(frontend)
        status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT)
    assert (status, answer["error"]["code"]) == (502, "engine_failed")
    assert len(await list_rows(frontend.database)) == 1
    assert await in_flight(frontend) == 0


async def test_engine_that_does_not_know_our_key_is_another_one_and_is_not_used(
    cold: tuple[RunningFrontend, PretendLoads], engine: Engine
) -> None:
    frontend, loads = cold
    await engine.ready()
    await put_model(frontend.database)
    node = await join_node(frontend)
    await put_replica(frontend.database, node.id, address_of(engine), engine_key="of-another-process")
    await settled(frontend)
    pending = asyncio.ensure_future(frontend.call("POST", "/v1/chat/completions", CHAT))

    async def was_begun() -> bool:
        return len(loads.begun) == 1

    await eventually(was_begun)
    assert await list_rows(frontend.database) == []
    await put_replica(frontend.database, node.id, address_of(engine))
    await loads.complete()
    assert (await pending)[0] == 200


async def _odd_engine(handler: Any) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"127.0.0.1:{runner.addresses[0][1]}"


@pytest.mark.behaviour("V1-1")
async def test_status_type_and_bytes_of_an_answer_are_the_engines_own(frontend: RunningFrontend) -> None:
    raw_body = b'{"odd" :  1.0e0,\n "text":"\xc3\xa4"}'
    seen: list[bytes] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(await request.read())
        return web.Response(body=raw_body, status=418, headers={"Content-Type": "application/vnd.odd+json"})

    runner, address = await _odd_engine(handler)
    try:
        await put_model(frontend.database)
        node = await join_node(frontend)
        await put_replica(frontend.database, node.id, address)
        await settled(frontend)
        sent = b'{"model":"chat",  "messages":[] , "n":1.0e0}'
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", data=sent, headers=AUTHORISED) as answer:
            assert answer.status == 418
            assert answer.headers["Content-Type"] == "application/vnd.odd+json"
            assert await answer.read() == raw_body
        assert seen == [sent]
    finally:
        await runner.cleanup()


async def test_half_an_event_of_an_engine_that_died_is_not_passed_on(frontend: RunningFrontend) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b'data: {"whole": 1}\n\ndata: {"ha')
        assert request.transport is not None
        request.transport.close()
        return stream

    runner, address = await _odd_engine(handler)
    try:
        await put_model(frontend.database)
        node = await join_node(frontend)
        await put_replica(frontend.database, node.id, address)
        await settled(frontend)
        body = CHAT | {"stream": True}
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", json=body, headers=AUTHORISED) as answer:
            events = (await answer.read()).decode().removesuffix("\n\n").split("\n\n")
        parsed = [json.loads(event.removeprefix("data: ")) for event in events]
        assert parsed[0] == {"whole": 1}
        assert [list(event) for event in parsed] == [["whole"], ["error"]]
    finally:
        await runner.cleanup()


async def test_engine_that_dies_before_the_first_event_of_a_stream_is_replaced(
    frontend: RunningFrontend, engine: Engine
) -> None:
    called: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        called.append(request.path)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b'data: {"ha')
        assert request.transport is not None
        request.transport.close()
        return stream

    runner, address = await _odd_engine(handler)
    try:
        await serve(frontend, engine)
        second = await join_node(frontend, "node-2")
        await put_replica(frontend.database, second.id, address)
        await settled(frontend)
        for _ in range(4):
            body = CHAT | {"stream": True}
            async with frontend.http.post(
                f"{frontend.url}/v1/chat/completions", json=body, headers=AUTHORISED
            ) as answer:
                streamed = await answer.read()
                assert answer.headers["X-Corral-Node"] == "node-1"
            assert streamed.endswith(b"data: [DONE]\n\n")
            assert b"error" not in streamed
        assert called
    finally:
        await runner.cleanup()


async def test_body_may_be_large_but_not_endless(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine)
    large = json.dumps(CHAT | {"picture": "x" * (2 * 1024 * 1024)}).encode()
    for body, expected in ((large, 200), (b"x" * (INFERENCE_BODY_BYTES_MAX + 1), 413)):
        data = io.BytesIO(body)
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", data=data, headers=AUTHORISED) as answered:
            assert answered.status == expected
    status, answer = await frontend.call("POST", "/v1/chat/completions", b"{nonsense")
    assert (status, answer["error"]["code"]) == (400, "malformed_json")
    status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT, key=None)
    assert (status, answer["error"]["type"]) == (401, "authentication_error")
