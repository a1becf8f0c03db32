"""Why a request would go where it goes, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.api.test_authentication import make_key
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import MisbehavingEngine, run_misbehaving_engine
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node

AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}"}
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
async def engines() -> AsyncIterator[list[MisbehavingEngine]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(run_misbehaving_engine()) for _ in range(2)]


@pytest.fixture
async def frontend(database_url: str, engines: list[MisbehavingEngine]) -> AsyncIterator[RunningFrontend]:
    """The model has a replica on each of two nodes, and takes one request at a time."""
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        await put_model(running.database, aliases=("alias",), options={"parallel": "1"})
        for number, engine in enumerate(engines, 1):
            node = await join_node(running, f"node-{number}")
            await put_replica(running.database, node.id, engine.address)
        await settled(running)
        yield running


@pytest.mark.behaviour("GW-75")
async def test_replica_that_is_named_is_the_one_that_answers_next(frontend: RunningFrontend) -> None:
    for _ in range(4):
        status, explained = await frontend.call("POST", "/api/explain", {"model": "alias"})
        assert status == 200, explained
        assert (explained["model"], explained["policy"], bool(explained["answered_by"])) == ("chat", "least_wait", True)
        first, second = explained["candidates"]
        assert (first["is_picked"], second["is_picked"], explained["picked"]) == (True, False, first["replica_id"])
        assert explained["message"] == f"The next request for chat goes to {first['node']}."
        assert (first["in_flight"], first["capacity"], first["breaker"]) == (0, 1, "closed")
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", json=CHAT, headers=AUTHORISED) as answer:
            assert answer.headers["x-corral-replica"] == explained["picked"]


@pytest.mark.behaviour("GW-75")
async def test_explanation_names_full_and_excluded_replicas(frontend: RunningFrontend) -> None:
    router = frontend.core.router
    model = await router.resolve("chat")
    first = router.check_out(model)
    assert first is not None
    explained = (await frontend.call("POST", "/api/explain", {"model": "chat"}))[1]
    assert explained["picked"] != first.replica.id
    full = explained["candidates"][1]
    assert (full["replica_id"], full["expected_s"]) == (first.replica.id, None)
    assert full["sentence"].endswith("full, 1 requests of 1")
    second = router.check_out(model)
    assert second is not None
    explained = (await frontend.call("POST", "/api/explain", {"model": "chat"}))[1]
    assert (explained["picked"], explained["waiting"]) == (None, 0)
    assert explained["message"] == "All replicas of chat are full; the next request would wait for its turn."
    for _ in range(5):
        second = router.check_out(model) or second
        second.record_failure()
        second.release()
    first.release()
    # Its breaker is open, and so the other one is named although both are free.
    explained = (await frontend.call("POST", "/api/explain", {"model": "chat"}))[1]
    assert explained["picked"] == first.replica.id


@pytest.mark.behaviour("GW-75")
async def test_explanation_says_why_a_loaded_replica_gets_no_requests(frontend: RunningFrontend) -> None:
    # An edit that the engines would notice, and nobody who loads it anew.
    await put_model(frontend.database, run_hash="edited")
    await settled(frontend)
    explained = (await frontend.call("POST", "/api/explain", {"model": "chat"}))[1]
    assert (explained["picked"], explained["candidates"]) == (None, [])
    assert sorted(one["sentence"] for one in explained["left_out"]) == [
        f"node-{number}: it runs an older revision of the model" for number in (1, 2)
    ]


@pytest.mark.behaviour("GW-75")
async def test_model_that_is_not_loaded_and_one_that_is_not_there(frontend: RunningFrontend) -> None:
    await put_model(frontend.database, "cold")
    await settled(frontend)
    explained = (await frontend.call("POST", "/api/explain", {"model": "cold"}))[1]
    assert (explained["picked"], explained["candidates"]) == (None, [])
    assert "would wait for up to" in explained["message"]
    status, refused = await frontend.call("POST", "/api/explain", {"model": "chet"})
    assert (status, refused["error"]["code"]) == (404, "model_not_found")
    assert (await frontend.call("POST", "/api/explain", {}))[0] == 400
    key = (await make_key(frontend, scope="infer"))["key"]
    assert (await frontend.call("POST", "/api/explain", {"model": "chat"}, key=key))[0] == 403
