"""Calls of MCP servers outside of runs through a real cluster: frontend, NATS, agent worker, runner and programs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from corral.agents import mcp_calls
from corral.app.settings import WorkerSettings
from corral.app.worker import ComposedWorker, compose_worker
from corral.bus.messages import CallMcpServer
from corral.domain.errors import Unavailable
from corral.domain.node import NodeType
from corral.ports.credentials import FRONTENDS_AUDIENCE, make_mcp_call_scope, parse_mcp_call_scope
from corral.worker.runs import mcp_caller
from tests.access.test_secret_sealer import FIRST
from tests.agents.hand_worker import make_key
from tests.bus.nats_server import NatsServer
from tests.runner.scene import SERVERS, make_server
from tests.support.cuttable_proxy import CuttableProxy, run_cuttable_proxy
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.polling import eventually
from tests.worker.conftest import OWN_USER, QUICK

CANARY = "ghp_canary0123456789ABCDEF"
MUTE = {"command": sys.executable, "args": [str(SERVERS / "mute.py")]}


@pytest.fixture
async def proxy(nats: NatsServer) -> AsyncIterator[CuttableProxy]:
    async with run_cuttable_proxy("127.0.0.1", nats.port) as running:
        yield running


@pytest.fixture
async def cluster(nats: NatsServer, proxy: CuttableProxy, database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend on a real PostgreSQL and a real NATS, with a key file for secrets."""
    url = f"nats://{proxy.address}"
    async with running_frontend(
        database_url, authority=nats.authority, nats_url=url, sealing_keys=(FIRST,), **QUICK
    ) as running:
        yield running


@pytest.fixture
async def worker(cluster: RunningFrontend, tmp_path: Path) -> AsyncIterator[ComposedWorker]:
    """An agent worker for one run at a time, with a real runner process."""
    home = tmp_path / "worker"
    home.mkdir()
    token = await create_join_token(cluster, approves=True)
    values = {"join": cluster.url, "name": "helper", "worker_home": home, "node_type": NodeType.AGENT, "token": token}
    composed = compose_worker(WorkerSettings.model_validate(values | OWN_USER | {"max_runs": 1}))
    await composed.services.start()

    async def is_healthy() -> bool:
        status, node = await cluster.call("GET", "/api/nodes/helper")
        return status == 200 and node["schedulable"] and composed.membership.find_not_ready_reason() is None

    await eventually(is_healthy)
    yield composed
    await composed.services.stop()


def program(notes: Path, **env: str) -> dict[str, Any]:
    notes.mkdir(exist_ok=True)
    spec = make_server(notes, env=env)
    return {key: spec[key] for key in ("command", "args", "env")}


async def put_model(frontend: RunningFrontend, name: str = "chat", **mcp: Any) -> None:
    body = {"backend": "fake", "mcp": mcp}
    status, answer = await frontend.call("PUT", f"/api/models/config/{name}", body)
    assert status == 200, answer


async def list_servers(frontend: RunningFrontend, model: str = "chat", **more: Any) -> dict[str, Any]:
    status, answer = await frontend.call("GET", f"/v1/mcp/servers/{model}", **more)
    assert status == 200, answer
    assert answer["model"] == model
    return {server["name"]: server for server in answer["servers"]}


def is_gone(pid: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    return look


@pytest.mark.behaviour("MCP-12", "MCP-13")
async def test_servers_are_listed_with_tools_prompts_resources_and_errors(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path
) -> None:
    await cluster.call("PUT", "/api/mcp/servers/declared", {"transport": "stdio", **program(tmp_path / "declared")})
    await put_model(
        cluster,
        servers=["declared", "gone"],
        stdio={"one": program(tmp_path / "one"), "dead": {"command": "no-such-program"}},
        remote={"away": {"url": "http://127.0.0.1:9/mcp"}},
    )
    found = await list_servers(cluster)
    assert set(found) == {"declared", "one", "dead", "away", "gone"}
    for name in ("declared", "one"):
        server = found[name]
        assert (server["type"], server["error"]) == ("stdio", ""), server
        assert {f"{name}__add", f"{name}__echo"} <= set(server["tools"])
        assert (server["prompts"], sorted(server["resources"])) == (["greet"], ["data://all", "notes://first"])
        add = next(tool for tool in server["tool_details"] if tool["tool"] == "add")
        assert (add["description"], add["read_only"]) == ("Add two numbers.", True)
        assert add["input_schema"]["required"] == ["a", "b"]
    assert "no-such-program" in found["dead"]["error"]
    assert (found["away"]["type"], "cannot be reached" in found["away"]["error"]) == ("remote", True)
    assert found["gone"]["error_code"] == "mcp_server_not_found"
    status, some = await cluster.call("GET", "/v1/mcp/servers/chat?server=one")
    assert (status, [server["name"] for server in some["servers"]]) == (200, ["one"])


@pytest.mark.behaviour("MCP-17")
async def test_prompts_and_resources_come_from_programs_that_the_worker_has_started(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path
) -> None:
    await put_model(cluster, stdio={"one": program(tmp_path / "one"), "dead": {"command": "no-such-program"}})
    status, prompts = await cluster.call("GET", "/v1/mcp/prompts/chat")
    assert (status, [(prompt["name"], prompt["server"]) for prompt in prompts]) == (200, [("greet", "one")])
    assert prompts[0]["arguments"] == [{"name": "name", "description": "", "required": True}]
    for path in ("one__greet", "greet"):
        body: dict[str, Any] = {"arguments": {"name": "Ada"}} | ({} if "__" in path else {"server": "one"})
        status, expanded = await cluster.call("POST", f"/v1/mcp/prompts/chat/{path}", body)
        assert (status, expanded["messages"]) == (200, [{"role": "user", "content": "Say hello to Ada."}])
    status, resources = await cluster.call("GET", "/v1/mcp/resources/chat")
    listed = sorted((one["uri"], one["server"]) for one in resources)
    assert (status, listed) == (200, [("data://all", "one"), ("notes://first", "one")])
    status, content = await cluster.call("POST", "/v1/mcp/resources/chat/read", {"uri": "notes://first"})
    assert (status, content["content"], content["server"]) == (200, "a note", "one")
    assert worker.run_services is not None
    parents = [process.pid for process in psutil.Process(int((tmp_path / "one" / "started").read_text())).parents()]
    assert worker.run_services.process.pid in parents
    # The dead server may have it: that is an error, and not "there is none".
    assert (await cluster.call("POST", "/v1/mcp/resources/chat/read", {"uri": "notes://second"}))[0] == 503
    await put_model(cluster, stdio={"one": program(tmp_path / "one")})
    for path, refused_body, expected in (
        ("resources/chat/read", {"uri": "notes://second"}, (404, "mcp_resource_not_found")),
        ("resources/chat/read", {"uri": "notes://second", "server": "one"}, (422, "mcp_call_failed")),
        ("resources/chat/read", {"uri": "notes://first", "server": "two"}, (400, "unknown_mcp_server")),
        ("prompts/chat/nothing", {}, (404, "mcp_prompt_not_found")),
        ("prompts/chat/greet", {"server": "one"}, (422, "mcp_call_failed")),
    ):
        status, refused = await cluster.call("POST", f"/v1/mcp/{path}", refused_body)
        assert (status, refused["error"]["code"]) == expected, (path, refused)


@pytest.mark.behaviour("MCP-17")
async def test_call_without_an_agent_node_is_refused_with_the_reason(cluster: RunningFrontend, tmp_path: Path) -> None:
    await put_model(cluster, stdio={"one": program(tmp_path / "one")})
    for method, path, body in (
        ("GET", "servers/chat", None),
        ("GET", "prompts/chat", None),
        ("POST", "prompts/chat/greet", {"arguments": {}}),
        ("GET", "resources/chat", None),
        ("POST", "resources/chat/read", {"uri": "notes://first"}),
    ):
        status, refused = await cluster.call(method, f"/v1/mcp/{path}", body)
        assert (status, refused["error"]["code"]) == (503, "no_agent_worker")
        assert "joined" in refused["error"]["message"]
    assert not (tmp_path / "one" / "started").exists()
    await put_model(cluster, "plain")
    assert await list_servers(cluster, "plain") == {}


async def test_servers_are_for_those_who_may_use_the_model(cluster: RunningFrontend) -> None:
    await put_model(cluster)
    mine = (await make_key(cluster, "mine", models=["chat"]))["key"]
    other = (await make_key(cluster, "other", models=["another"]))["key"]
    assert await list_servers(cluster, key=mine) == {}
    assert (await cluster.call("GET", "/v1/mcp/servers/chat", key=other))[0] == 404
    assert (await cluster.call("GET", "/v1/mcp/servers/chat", key=None))[0] == 401
    assert (await cluster.call("GET", "/v1/mcp/servers/nothing"))[0] == 404


@pytest.mark.behaviour("MCP-15")
async def test_changed_server_is_used_by_the_next_call_and_the_old_session_ends(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    await put_model(cluster, stdio={"one": program(old)})
    for _ in range(2):
        await list_servers(cluster)
    assert (old / "starts").read_text() == "x"
    await put_model(cluster, stdio={"one": program(new)})
    assert (await list_servers(cluster))["one"]["error"] == ""
    assert (new / "starts").read_text() == "x"
    await eventually(is_gone(int((old / "started").read_text())))


async def test_sessions_of_two_owners_are_apart(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path
) -> None:
    await put_model(cluster, stdio={"one": program(tmp_path / "one")})
    for name in ("ann", "ben"):
        key = (await make_key(cluster, name))["key"]
        for _ in range(2):
            await list_servers(cluster, key=key)
    assert (tmp_path / "one" / "starts").read_text() == "xx"


@pytest.mark.behaviour("MCP-16")
async def test_ten_slow_servers_hold_up_no_fast_one(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path
) -> None:
    await put_model(cluster, "slow", stdio={f"s{number}": MUTE for number in range(10)})
    await put_model(cluster, "fast", stdio={"one": program(tmp_path / "one")})
    slow = asyncio.create_task(list_servers(cluster, "slow"))
    assert worker.run_services is not None
    runner = psutil.Process(await eventually(_get_pid(worker)))

    async def are_started() -> bool:
        return sum("mute.py" in " ".join(child.cmdline()) for child in runner.children(recursive=True)) >= 10

    await eventually(are_started)
    assert (await list_servers(cluster, "fast"))["one"]["error"] == ""
    assert not slow.done()
    # A runner that dies ends the calls in it, and each server is listed with the reason.
    runner.kill()
    found = await slow
    assert {server["error_code"] for server in found.values()} == {"no_agent_worker"}


@pytest.mark.behaviour("MCP-16")
async def test_ten_slow_calls_of_a_server_hold_up_no_fast_one(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path
) -> None:
    del worker
    await put_model(cluster, stdio={"one": program(tmp_path / "one", DAWDLES="1")})

    async def expand(prompt: str, **arguments: str) -> str:
        status, found = await cluster.call("POST", f"/v1/mcp/prompts/chat/{prompt}", {"arguments": arguments})
        assert status == 200, found
        return str(found["messages"][0]["content"])

    calls = tmp_path / "one" / "dawdling"
    slow = [asyncio.create_task(expand("dawdle")) for _ in range(10)]

    async def have_begun() -> bool:
        return calls.exists() and len(calls.read_text()) == len(slow)

    await eventually(have_begun)
    assert await expand("greet", name="Ada") == "Say hello to Ada."
    assert not any(call.done() for call in slow)
    (tmp_path / "one" / "go").touch()
    assert await asyncio.gather(*slow) == ["Hurry up."] * 10


def _get_pid(worker: ComposedWorker) -> Callable[[], Awaitable[int | None]]:
    async def look() -> int | None:
        assert worker.run_services is not None
        return worker.run_services.process.pid

    return look


@pytest.mark.behaviour("MCP-14")
async def test_token_is_sent_to_the_server_and_stands_in_no_bus_message_log_or_answer(
    cluster: RunningFrontend, worker: ComposedWorker, proxy: CuttableProxy, capfd: pytest.CaptureFixture[str]
) -> None:
    proxy.recorded = []
    assert (await cluster.call("PUT", "/api/secrets/docs?scope=cluster", {"value": CANARY}))[0] in (200, 201, 204)
    async with _run_refusing_server() as (url, seen):
        await put_model(cluster, remote={"docs": {"url": url, "token": "cluster-secret:docs"}})
        found = await list_servers(cluster)
        _, shown = await cluster.call("GET", "/api/models/config/chat")
    assert seen
    assert set(seen) == {f"Bearer {CANARY}"}
    assert found["docs"]["error"]
    passed = b"".join(proxy.recorded)
    assert b"mcp.call" in passed
    output = capfd.readouterr()
    for place in (passed.decode(errors="replace"), str(found), str(shown), output.out, output.err):
        assert CANARY not in place


@asynccontextmanager
async def _run_refusing_server() -> AsyncIterator[tuple[str, list[str]]]:
    """Run a server that refuses everybody, repeats what it was sent, and keeps the keys that it was sent."""
    seen: list[str] = []

    async def refuse(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=401, text=f"not with {seen[-1]}")

    application = web.Application()
    application.router.add_route("*", "/mcp", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp", seen
    finally:
        await runner.cleanup()


@pytest.mark.behaviour("MCP-14")
async def test_ticket_of_a_call_is_of_no_use_to_another_node(cluster: RunningFrontend, tmp_path: Path) -> None:
    await put_model(cluster, stdio={"one": program(tmp_path / "one")})
    nodes = [PretendNode(cluster, name) for name in ("first", "second")]
    for node in nodes:
        token = await create_join_token(cluster, approves=True)
        assert (await node.register(token, node_type="agent", max_runs=1))[0] == 201
    scope = make_mcp_call_scope("key:k", "one", "chat")
    issue = cluster.core._deps.credentials.issue_ticket
    ticket = issue(nodes[0].id, scope, audience=FRONTENDS_AUDIENCE, ttl_s=60)
    status, fetched = await nodes[0].call("POST", "/mcp", {"ticket": ticket})
    assert (status, fetched["server"]["command"]) == (200, sys.executable)
    refused = [
        await nodes[1].call("POST", "/mcp", {"ticket": ticket}),
        await nodes[0].call("POST", "/mcp", {"ticket": f"{ticket}x"}),
        await nodes[0].call("POST", "/mcp", {}),
        await nodes[0].call("POST", "/mcp", {"ticket": issue(nodes[0].id, "blobs:read", ttl_s=60)}),
        await nodes[0].call("POST", "/mcp", {"ticket": issue(nodes[0].id, scope, audience=nodes[0].id, ttl_s=60)}),
    ]
    assert [(status, answer["error"]["code"]) for status, answer in refused] == [(403, "ticket_refused")] * 5
    assert (await cluster.call("POST", f"/api/node/{nodes[0].id}/mcp", {"ticket": ticket}, key=None))[0] == 401


@pytest.mark.behaviour("MCP-16")
async def test_calls_beyond_the_limits_are_refused_at_once(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_model(cluster, stdio={"one": program(tmp_path / "one")})
    monkeypatch.setattr(mcp_calls, "CALLS_OF_OWNER_MAX", 0)
    assert (await list_servers(cluster))["one"]["error_code"] == "too_many_mcp_calls"
    monkeypatch.undo()
    monkeypatch.setattr(mcp_caller, "CALLS_MAX", 0)
    assert worker.run_services is not None
    with pytest.raises(Unavailable, match="0 calls") as caught:
        await worker.run_services.executor.mcp_caller.call(CallMcpServer(ticket="t", action="describe"), "n")
    assert caught.value.slug == "worker_busy"
    assert (await list_servers(cluster))["one"]["error_code"] == "no_agent_worker"


async def test_answer_that_is_too_large_for_the_bus_is_an_error(
    cluster: RunningFrontend, worker: ComposedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_model(cluster, stdio={"one": program(tmp_path / "one")})
    monkeypatch.setattr(mcp_caller, "RESULT_BYTES_MAX", 100)
    assert (await list_servers(cluster))["one"]["error_code"] == "mcp_answer_too_large"


def test_scope_of_a_call_is_read_as_it_was_written() -> None:
    scope = make_mcp_call_scope("user:1", "docs", "meta/llama:8b")
    assert parse_mcp_call_scope(scope) == ("user:1", "docs", "meta/llama:8b")
    assert parse_mcp_call_scope("blobs:read") is None
