"""What a body may be, on every route: within its bytes, members and levels; and what a refused one costs its key."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator

import aiohttp
import pytest
from fastapi.routing import APIRoute
from starlette.types import Message, Scope

from corral.api.application import create_app
from corral.api.metrics import FrontendMetrics
from corral.api.openai.asgi import receive_body, release_body
from corral.api.openai.routes import MCP_CHAT_PATHS
from corral.policy.serving.json_scan import DEPTH_MAX, MEMBERS_MAX
from corral.runtime.byte_budget import ByteBudget, ByteLimits
from tests.api.test_authentication import make_key
from tests.gateway.scene import get, request, wire
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import MisbehavingEngine, run_misbehaving_engine
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

MIB = 1024 * 1024
MODEL_ROUTES = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/responses",
    "/v1/rerank",
    "/v1/audio/speech",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/show",
    *MCP_CHAT_PATHS,
)
# Two of these ask for no key.
OTHER_ROUTES = ("/api/session", "/api/node/register", "/api/node/some/heartbeat", "/api/keys", "/api/models/apply")
MANY = json.dumps({"model": "chat"} | {str(number): number for number in range(MEMBERS_MAX)}).encode()
DEEP = b'{"model": "chat", "messages": ' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}"


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with run_misbehaving_engine() as running:
        yield running


@pytest.fixture
async def frontend(database_url: str, engine: MisbehavingEngine) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        await put_model(running.database, aliases=("alias",))
        node = await join_node(running)
        await put_replica(running.database, node.id, engine.address)
        await settled(running)
        yield running


async def _post(frontend: RunningFrontend, path: str, body: bytes, key: str = ADMIN_KEY) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    sending = aiohttp.ClientSession(headers=headers)
    async with sending as session, session.post(f"{frontend.url}{path}", data=io.BytesIO(body)) as answer:
        return answer.status, await answer.text()


@pytest.mark.behaviour("GW-210")
@pytest.mark.parametrize(("body", "code"), [(MANY, "too_many_members"), (DEEP, "too_deep")], ids=["many", "deep"])
async def test_every_route_refuses_a_body_with_too_many_members_or_levels(
    frontend: RunningFrontend, engine: MisbehavingEngine, body: bytes, code: str
) -> None:
    word = {"too_many_members": "members", "too_deep": "nested"}[code]
    for path in (*MODEL_ROUTES, *OTHER_ROUTES):
        for sent in (body, body + b" " * MIB if path in MODEL_ROUTES else body):
            status, problem = await _post(frontend, path, sent)
            assert (status, word in problem) == (400, True), (path, len(sent), problem)
    assert not engine.received


@pytest.mark.behaviour("GW-210")
async def test_every_body_that_the_framework_decodes_is_checked_before_for_callers_without_a_key(
    frontend: RunningFrontend,
) -> None:
    app = create_app(None, FrontendMetrics())
    routes = [route for route in app.router.routes if isinstance(route, APIRoute) and route.body_field is not None]
    assert len(routes) > 50
    for route in routes:
        path = re.sub(r"\{[^}]*\}", "x", route.path)
        for method in route.methods or ():
            status, answer = await frontend.call(method, path, MANY, key=None, content_type="application/json")
            assert (status, "members" in str(answer)) == (400, True), (method, path, answer)


@pytest.mark.behaviour("GW-218")
@pytest.mark.parametrize("path", MODEL_ROUTES)
async def test_bytes_of_a_large_body_are_given_back_on_every_route_of_models(
    frontend: RunningFrontend, path: str
) -> None:
    budget = frontend.core.gateway.body_budget
    status, problem = await _post(frontend, path, json.dumps({"model": "chat", "prompt": "x" * 2 * MIB}).encode())
    assert status != 413, problem

    async def is_given_back() -> bool:
        return budget.taken_bytes == 0

    await eventually(is_given_back)


@pytest.mark.behaviour("GW-218")
async def test_body_that_is_received_twice_takes_its_bytes_once() -> None:
    budget = ByteBudget(ByteLimits(total_bytes=64 * MIB, key_bytes=64 * MIB), "of request bodies")
    scope: Scope = {"headers": [(b"content-length", b"%d" % MIB)], "state": {}}

    async def receive() -> Message:
        return {"type": "http.request", "body": b" " * MIB, "more_body": False}

    for key_id in ("", "key"):
        assert len(await receive_body(scope, receive, budget, key_id)) == MIB
        assert budget.taken_bytes == MIB
    release_body(scope)
    assert budget.taken_bytes == 0


@pytest.mark.behaviour("API-14")
async def test_only_recordings_may_be_larger_than_other_bodies_of_models(frontend: RunningFrontend) -> None:
    for path in MODEL_ROUTES:
        status, problem = await _post(frontend, path, b" " * (33 * MIB))
        assert (status, "32768 KiB" in problem) == (413, True), (path, problem)


@pytest.mark.behaviour("GW-210")
async def test_large_body_reaches_its_engine_unchanged_but_for_an_alias(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    inner = {"metadata": {"model": "x"}, "input": [[1, 2, 3]] * 100_000, "é": "ü"}
    for name in ("chat", "alias"):
        sent = json.dumps(inner | {"model": name}, ensure_ascii=False).encode()
        assert len(sent) > MIB
        assert (await _post(frontend, "/v1/embeddings", sent))[0] == 200
        assert json.loads(engine.received[-1].body) == inner | {"model": "chat"}


async def test_other_requests_are_served_while_a_large_body_is_scanned(frontend: RunningFrontend) -> None:
    slow = b'{"0": [' + b",".join([b"[" * 50 + b"]" * 50] * 40_000) + b'], "model": "chat", "model": "chat"}'
    whole, others = request(slow), 0
    async with wire(frontend) as opened, wire(frontend) as other:
        opened.write(whole[:-1])
        await opened.writer.drain()
        opened.write(whole[-1:])
        asking = asyncio.create_task(opened.answer())
        while not asking.done():
            other.write(get("/healthz"))
            assert (await other.answer()).status == 200
            others += 1
    assert (await asking).json()["error"]["code"] == "malformed_json"
    assert others > 10


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/chat/completions?by=uvicorn", "/v1/messages", "/api/chat"]
)
@pytest.mark.parametrize("body", [b"{nonsense", MANY, DEEP], ids=["nonsense", "many", "deep"])
async def test_refused_bodies_count_against_the_request_limit_of_their_key(
    frontend: RunningFrontend, path: str, body: bytes
) -> None:
    limits = [{"requests_per_minute": 2}]
    key = (await make_key(frontend, scope="infer", limits=limits))["key"]
    statuses = [(await _post(frontend, path, body, key))[0] for _ in range(4)]
    assert statuses == [400, 400, 429, 429]


@pytest.mark.behaviour("GW-210")
async def test_translated_call_refuses_a_large_body_with_too_many_values(frontend: RunningFrontend) -> None:
    sent = {"model": "chat", "max_tokens": 5, "messages": [[]] * 200_000}
    for path in ("/v1/messages", "/v1/responses", "/api/chat"):
        status, problem = await _post(frontend, path, json.dumps(sent).encode())
        assert (status, "values" in problem) == (400, True), (path, problem)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/api/chat"])
async def test_translated_call_with_long_strings_reaches_its_engine_with_the_same_text(
    frontend: RunningFrontend, engine: MisbehavingEngine, path: str
) -> None:
    text = 'Say "é\\n" again.\n' * 40_000
    name = "input" if path == "/v1/responses" else "messages"
    sent = {"model": "alias", name: [{"role": "user", "content": text}], "stream": False}
    if path == "/v1/messages":
        sent["max_tokens"] = 5
    await _post(frontend, path, json.dumps(sent).encode())
    assert json.loads(engine.received[-1].body)["messages"][-1]["content"] == text
