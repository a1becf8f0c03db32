"""The client: typed answers, our own errors back, and repeated only where repeating is safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.client import CorralClient
from corral.domain.errors import (
    Conflict,
    CorralError,
    NameTaken,
    NodeUnreachable,
    NotAuthenticated,
    NotFound,
    Unavailable,
)
from corral.wire.access import KeyIn, TokenIn
from tests.unit.client.standin import (
    KEY,
    StandIn,
    a_cluster,
    a_key,
    a_node,
    a_token,
    hang_up,
    json_answer,
    refusal,
)


class NoWaiting(SystemClock):
    """The real clock, except that pauses between attempts take no time."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
async def frontend() -> AsyncIterator[StandIn]:
    standin = StandIn()
    async with TestServer(standin.app()) as server:
        standin.url = str(server.make_url("")).rstrip("/")
        yield standin


@pytest.fixture
async def client(frontend: StandIn) -> AsyncIterator[CorralClient]:
    async with a_client(frontend.url) as client:
        yield client


def a_client(url: str, key: str | None = KEY, **changes) -> CorralClient:
    return CorralClient(url, key, clock=NoWaiting(), ids=SystemIdGenerator(), **changes)


async def test_nodes_are_listed_with_selector_and_status(frontend, client):
    frontend.on("GET /api/nodes", json_answer([a_node(), a_node("cpu-b", status="pending")]))
    nodes = await client.nodes.list(selector="site=attic,gpu.vendor=nvidia", status="healthy")
    assert [node.name for node in nodes] == ["gpu-a", "cpu-b"]
    assert frontend.seen[0].query == {"selector": "site=attic,gpu.vendor=nvidia", "status": "healthy"}


async def test_every_request_carries_the_key_and_an_id_of_its_own(frontend, client):
    frontend.on("GET /api/cluster", json_answer(a_cluster()))
    assert (await client.cluster.get()).leader.term == 7
    await client.cluster.get()
    first, second = (seen.headers for seen in frontend.seen)
    assert first["Authorization"] == f"Bearer {KEY}"
    assert first["X-Request-Id"] != second["X-Request-Id"]


@pytest.mark.parametrize("name", ["gpu-a", "rack 2/gpu", "ü", "..", "a?b#c"])
async def test_client_encodes_any_name_as_one_part_of_the_path(frontend, client, name):
    frontend.on(f"GET /api/nodes/{name}", json_answer(a_node(name)))
    with pytest.raises(NotFound) if name == ".." else nullcontext():
        assert (await client.nodes.get(name)).name == name
    assert frontend.seen[0].path.count("/") <= 3


async def test_actions_on_a_node_use_their_routes(frontend, client):
    approved = {"id": "1", "name": "gpu-a", "node_type": "backend", "status": "healthy", "message": "approved"}
    frontend.on("POST /api/nodes/gpu-a/approve", json_answer(approved))
    for action in ("drain", "resume"):
        frontend.on(f"POST /api/nodes/gpu-a/{action}", json_answer(a_node(status=action)))
    frontend.on("POST /api/nodes/gpu-a/stop", json_answer({"message": "ok"}, 202))
    frontend.on("DELETE /api/nodes/gpu-a", json_answer(None, status=200))
    frontend.on("PUT /api/nodes/gpu-a/max-replicas-per-model", json_answer({"max_replicas_per_model": 4}))
    frontend.on(
        "DELETE /api/nodes/gpu-a/max-replicas-per-model", json_answer({"max_replicas_per_model": 1, "reset": True})
    )
    frontend.on("PUT /api/nodes/gpu-a/vram-budget", json_answer({"vram_budget": "80%"}))
    frontend.on("DELETE /api/nodes/gpu-a/vram-budget", json_answer({"vram_budget": "", "reset": True}))
    assert (await client.nodes.approve("gpu-a")).message == "approved"
    assert (await client.nodes.drain("gpu-a")).status == "drain"
    assert (await client.nodes.resume("gpu-a")).status == "resume"
    await client.nodes.stop("gpu-a")
    await client.nodes.remove("gpu-a")
    assert (await client.nodes.set_slots("gpu-a", 4)).max_replicas_per_model == 4
    assert (await client.nodes.reset_slots("gpu-a")).reset
    assert (await client.nodes.set_budget("gpu-a", "80%")).vram_budget == "80%"
    assert (await client.nodes.reset_budget("gpu-a")).reset
    assert [seen.body for seen in frontend.seen if seen.method == "PUT"] == [{"value": 4}, {"value": "80%"}]


async def test_labels_are_read_replaced_merged_and_removed(frontend, client):
    for method in ("GET", "PUT", "PATCH"):
        frontend.on(f"{method} /api/nodes/gpu-a/labels", json_answer({"site": "attic"}))
    frontend.on("DELETE /api/nodes/gpu-a/labels/a/b", json_answer(None))
    assert await client.labels.get("gpu-a") == {"site": "attic"}
    await client.labels.replace("gpu-a", {"x": "1"})
    await client.labels.merge("gpu-a", {"y": "2"})
    await client.labels.remove("gpu-a", "a/b")
    assert [seen.body for seen in frontend.seen] == [None, {"x": "1"}, {"y": "2"}, None]
    assert frontend.seen[-1].path == "/api/nodes/gpu-a/labels/a%2Fb"


async def test_tokens_and_keys_are_made_listed_revoked_and_rotated(frontend, client):
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    frontend.on("GET /api/tokens", json_answer([a_token()]))
    frontend.on("DELETE /api/tokens/t1", json_answer(a_token(state="revoked")))
    frontend.on("POST /api/keys", json_answer(a_key(key="ck_secret"), 201))
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("POST /api/keys/k1/rotate", json_answer(a_key(key="ck_newer")))
    frontend.on("DELETE /api/keys/k1", json_answer(a_key(state="revoked")))
    assert (await client.tokens.create(TokenIn(name="rack 2"))).token == "cj_secret"
    assert [token.id for token in await client.tokens.list()] == ["t1"]
    assert (await client.tokens.revoke("t1")).state == "revoked"
    assert (await client.keys.create(KeyIn(name="ci"))).key == "ck_secret"
    assert [key.id for key in await client.keys.list()] == ["k1"]
    assert (await client.keys.rotate("k1")).key == "ck_newer"
    assert (await client.keys.revoke("k1")).state == "revoked"
    keyed = [seen.path for seen in frontend.seen if "Idempotency-Key" in seen.headers]
    assert keyed == ["/api/tokens", "/api/keys", "/api/keys/k1/rotate"]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "name_taken", NameTaken),
        (409, "something_new", Conflict),
        (503, "node_unreachable", NodeUnreachable),
        (418, "teapot", CorralError),
        (404, "node_not_found", NotFound),
    ],
)
async def test_error_response_raises_the_same_error_class(frontend, client, status, code, kind):
    frontend.on("GET /api/cluster", refusal(status, code, "The sentence.", "The hint."))
    with pytest.raises(kind) as caught:
        await client.cluster.get()
    error = caught.value
    assert type(error) is kind
    assert (error.message, error.hint, error.slug) == ("The sentence.", "The hint.", code)
    assert error.details["request_id"] == "r-1"


async def test_wrong_key_is_not_authenticated(frontend):
    async with a_client(frontend.url, "ck_wrong") as client:
        with pytest.raises(NotAuthenticated):
            await client.cluster.get()


async def test_creating_is_repeated_with_the_same_key_after_a_lost_connection(frontend, client):
    frontend.on("POST /api/tokens", hang_up, json_answer(a_token(token="cj_secret"), 201))
    assert (await client.tokens.create(TokenIn())).token == "cj_secret"
    first, second = (seen.headers["Idempotency-Key"] for seen in frontend.seen)
    assert first == second


async def test_two_creations_have_different_keys(frontend, client):
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    await client.tokens.create(TokenIn())
    await client.tokens.create(TokenIn())
    first, second = (seen.headers["Idempotency-Key"] for seen in frontend.seen)
    assert first != second


async def test_action_without_such_a_key_is_sent_once(frontend, client):
    frontend.on("POST /api/nodes/gpu-a/approve", hang_up)
    frontend.on("DELETE /api/nodes/gpu-a", hang_up)
    for action in (client.nodes.approve, client.nodes.remove):
        with pytest.raises(Unavailable):
            await action("gpu-a")
    assert [seen.method for seen in frontend.seen].count("POST") == 1


async def test_reading_is_tried_again_but_not_for_ever(frontend, client):
    frontend.on("GET /api/cluster", hang_up)
    with pytest.raises(Unavailable) as caught:
        await client.cluster.get()
    assert caught.value.slug == "unreachable"
    # The HTTP library repeats each of our three attempts once by itself.
    assert 3 <= len(frontend.seen) <= 6


async def test_refused_connection_error_names_the_address():
    async with TestServer(StandIn().app()) as server:
        url = str(server.make_url(""))
    async with a_client(url) as client:
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:\d+ does not respond"):
            await client.cluster.get()


async def test_page_instead_of_an_answer_is_recognised(frontend, client):
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    async def gateway(request: web.Request) -> web.Response:
        return web.Response(text="<html>bad gateway</html>", status=502)

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://192.0.2.1/"})

    frontend.on("GET /api/cluster", page, json_answer({"version": 3}), gateway, redirect)
    for expected in (CorralError, CorralError, Unavailable, CorralError):
        with pytest.raises(expected) as caught:
            await client.cluster.get()
        assert caught.value.slug == "unexpected_answer"


async def test_missing_response_raises_unavailable_after_the_timeout(frontend):
    never = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    frontend.on("GET /api/cluster", wait)
    async with a_client(frontend.url, timeout_s=0.5) as client:
        with pytest.raises(Unavailable, match="did not respond within"):
            await client.cluster.get()
    never.set()
    assert len(frontend.seen) == 1
