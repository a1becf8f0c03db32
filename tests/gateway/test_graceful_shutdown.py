"""A frontend that is stopped: its running answers end first, and none is cut that could have been finished."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from corral.app.http_server import GracefulShutdown
from tests.engines.engine_processes import Engine
from tests.serving.scene import an_engine, keep_only_the_feed, serve
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "Who goes there?"}]}
HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path) as running:
        yield running


@pytest.fixture
async def frontend(database_url: str, engine: Engine) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        await serve(running, engine)
        yield running


@dataclass
class Stream:
    answer: aiohttp.ClientResponse
    events: list[Any]

    async def rest(self) -> list[Any]:
        """Until its proper end; an answer that is cut raises."""
        async for line in self.answer.content:
            if line.startswith(b"data: "):
                payload = line.removeprefix(b"data: ").strip()
                self.events.append("[DONE]" if payload == b"[DONE]" else json.loads(payload))
        return self.events


@asynccontextmanager
async def _stream(frontend: RunningFrontend, tokens: int) -> AsyncIterator[Stream]:
    """One whose first event is there."""
    body = CHAT | {"stream": True, "max_tokens": tokens}
    async with frontend.http.post(f"{frontend.url}/v1/chat/completions", json=body, headers=HEADERS) as answer:
        assert answer.status == 200
        await answer.content.readuntil(b"\n\n")
        yield Stream(answer, [])


def _leaving(frontend: RunningFrontend, grace_s: float) -> GracefulShutdown:
    return GracefulShutdown(frontend.core, frontend.server, grace_s)


async def _takes_no_more(frontend: RunningFrontend) -> None:
    async def is_closed() -> bool:
        return not any(server.is_serving() for server in frontend.server._server.servers)

    await eventually(is_closed)
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as fresh:
            await fresh.get(f"{frontend.url}/healthz")


@pytest.mark.behaviour("GW-148")
async def test_open_streams_finish_during_shutdown_and_new_connections_are_refused(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await engine.post("/_control", {"tokens_per_s": 20})
    async with _stream(frontend, 40) as one, _stream(frontend, 40) as other:
        leaving = asyncio.create_task(_leaving(frontend, 30).shut_down())
        await _takes_no_more(frontend)
        assert not leaving.done()
        for stream in (one, other):
            events = await stream.rest()
            assert events[-1] == "[DONE]"
            assert not [event for event in events if "error" in event]
        await leaving


async def test_stream_that_exceeds_the_grace_is_cut_with_one_error_event(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await engine.post("/_control", {"tokens_per_s": 5})
    async with _stream(frontend, 5000) as stream:
        leaving = asyncio.create_task(_leaving(frontend, 0.5).shut_down())
        events = await stream.rest()
        assert [event["error"]["code"] for event in events if "error" in event] == ["stopping"]
        assert "error" in events[-1]
        assert "[DONE]" not in events
        await leaving
    assert not frontend.core.gateway.open_exchanges


@pytest.mark.parametrize(
    ("path", "more"),
    [("/v1/messages", {"max_tokens": 5000}), ("/api/chat", {"options": {"num_predict": 5000}})],
)
async def test_stream_is_cut_in_the_words_of_its_dialect(
    frontend: RunningFrontend, engine: Engine, path: str, more: dict[str, Any]
) -> None:
    await engine.post("/_control", {"tokens_per_s": 5})
    body = CHAT | {"stream": True} | more
    async with frontend.http.post(f"{frontend.url}{path}", json=body, headers=HEADERS) as answer:
        assert answer.status == 200, await answer.text()
        await answer.content.readline()
        leaving = asyncio.create_task(_leaving(frontend, 0.5).shut_down())
        *_, last = [line for line in (await answer.content.read()).splitlines() if line]
        await leaving
    payload = json.loads(last.removeprefix(b"data: "))
    assert "stopping" in json.dumps(payload["error"])


async def test_answer_of_which_nothing_was_passed_on_is_503_when_the_grace_is_over(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await engine.post("/_control", {"tokens_per_s": 5})
    asking = asyncio.create_task(frontend.call("POST", "/v1/chat/completions", CHAT | {"max_tokens": 5000}))

    async def is_under_way() -> bool:
        return bool(frontend.core.gateway.open_exchanges)

    await eventually(is_under_way)
    await _leaving(frontend, 0.3).shut_down()
    status, answer = await asking
    assert (status, answer["error"]["code"]) == (503, "stopping")


async def test_second_stop_request_ends_the_drain_at_once(frontend: RunningFrontend, engine: Engine) -> None:
    await engine.post("/_control", {"tokens_per_s": 5})
    async with _stream(frontend, 5000) as stream:
        going = _leaving(frontend, 3600)
        leaving = asyncio.create_task(going.shut_down())
        await _takes_no_more(frontend)
        going.stop_waiting()
        assert "error" in (await stream.rest())[-1]
        await leaving


@pytest.mark.behaviour("GW-148")
async def test_request_on_an_open_connection_is_answered_with_connection_close_while_stopping(
    frontend: RunningFrontend,
) -> None:
    assert (await frontend.call("POST", "/v1/chat/completions", CHAT))[0] == 200
    frontend.core.begin_stop()
    for method, path, body in (("POST", "/v1/chat/completions", CHAT), ("GET", "/v1/models", None)):
        async with frontend.http.request(method, f"{frontend.url}{path}", json=body, headers=HEADERS) as answer:
            assert (answer.status, answer.headers["connection"]) == (200, "close")
    status, readiness = await frontend.call("GET", "/readyz", key=None)
    assert (status, readiness) == (503, {"status": "stopping", "reason": "stopping"})


@pytest.mark.behaviour("GW-148")
async def test_shutdown_ends_event_streams_and_idle_connections_at_once(frontend: RunningFrontend) -> None:
    async with frontend.http.get(f"{frontend.url}/api/events", headers=HEADERS) as watching:
        assert watching.status == 200
        async with asyncio.timeout(20):
            await _leaving(frontend, 3600).shut_down()
            await watching.content.read()
