"""MCP sessions: warm, replaced, isolated from each other, and ended with everything that they have started."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from corral.runner.mcp_pool import McpPoolOptions
from corral.runner.mcp_session import ENTRIES_MAX, LISTING_CHARACTERS_MAX
from corral.wire.runner_protocol import PROGRAM_MARKER
from tests.runner.chat_server import ModelReply, ScriptedModel, call, run_scripted_model, say
from tests.runner.scene import SERVERS, Scene, make_server, run_scene
from tests.support.children import start_child
from tests.support.polling import eventually
from tests.support.ports import find_free_port

KEY = {"session_key": "k"}


def _read(path: Path) -> Callable[[], Awaitable[str]]:
    async def look() -> str:
        return path.read_text() if path.exists() else ""

    return look


def _is_gone(pid: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    return look


def _count_starts(notes: Path) -> int:
    return len((notes / "starts").read_text())


async def _call_tool(scene: Scene, server: dict[str, Any], name: str, **arguments: Any) -> str:
    answer = await scene.mcp("call_tool", server, params={"name": name, "arguments": arguments}, **KEY)
    text: str = answer["result"]["content"][0]["text"]
    return text


def _make_raw_server(notes: Path, **fields: Any) -> dict[str, Any]:
    return make_server(notes, "raw", args=[str(SERVERS / "raw.py")], **fields)


@asynccontextmanager
async def _run_server(kind: str, notes: Path) -> AsyncIterator[str]:
    """Run the server of `servers/tools.py` over HTTP, and yield its address."""
    port = find_free_port()
    command = [sys.executable, str(SERVERS / "tools.py"), kind, str(port)]
    with start_child(command, env={**os.environ, "NOTES": str(notes)}, stderr=-3) as process:
        url = f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}"

        async def is_listening() -> bool:
            return any(c.laddr[1:] == (port,) for c in psutil.Process(process.pid).net_connections("tcp"))

        await eventually(is_listening)
        try:
            yield url
        finally:
            process.kill()


async def test_mcp_messages_list_and_call_outside_of_runs(scene: Scene, tmp_path: Path) -> None:
    server = make_server(tmp_path)
    listed = (await scene.mcp("list", server, **KEY))["result"]
    tools = {tool["name"]: tool for tool in listed["tools"]}
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]
    assert tools["add"]["annotations"]["readOnlyHint"] is True
    assert (listed["serverInfo"]["name"], listed["instructions"]) == ("tools", "Tools for tests.")
    called = await scene.mcp("call_tool", server, params={"name": "add", "arguments": {"a": 1, "b": 2}}, **KEY)
    assert called["result"]["content"][0]["text"] == "3"
    prompts = await scene.mcp("list_prompts", server, **KEY)
    assert [prompt["name"] for prompt in prompts["result"]["prompts"]] == ["greet"]
    prompt = await scene.mcp("get_prompt", server, params={"name": "greet", "arguments": {"name": "Ada"}}, **KEY)
    assert prompt["result"]["messages"][0]["content"]["text"] == "Say hello to Ada."
    resources = await scene.mcp("list_resources", server, **KEY)
    assert sorted(resource["uri"] for resource in resources["result"]["resources"]) == ["data://all", "notes://first"]
    resource = await scene.mcp("read_resource", server, params={"uri": "notes://first"}, **KEY)
    assert resource["result"]["contents"][0]["text"] == "a note"
    assert (await scene.mcp("ping", server, **KEY))["result"] == {}
    described = (await scene.mcp("describe", server, **KEY))["result"]
    assert {tool["name"] for tool in described["tools"]} == set(tools)
    assert ([one["name"] for one in described["prompts"]], described["serverInfo"]["name"]) == (["greet"], "tools")
    assert sorted(one["uri"] for one in described["resources"]) == ["data://all", "notes://first"]
    assert _count_starts(tmp_path) == 1


async def test_description_of_a_server_without_prompts_and_resources_has_its_tools(
    scene: Scene, tmp_path: Path
) -> None:
    described = (await scene.mcp("describe", _make_raw_server(tmp_path), **KEY))["result"]
    assert (described["prompts"], described["resources"]) == ([], [])
    assert described["tools"]


async def test_mcp_message_to_a_broken_server_is_answered_with_an_error(scene: Scene) -> None:
    server = {"name": "none", "transport": "stdio", "command": "no-such-program"}
    answer = await scene.mcp("list", server)
    assert answer["error"] == {
        "code": "mcp_program_failed",
        "message": "There is no program no-such-program on the path.",
    }


@pytest.mark.behaviour("RUNNER-4")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_server_is_reached_over_the_network(
    scene: Scene, model: ScriptedModel, tmp_path: Path, kind: str
) -> None:
    async with _run_server(kind, tmp_path) as url:
        model.script(call("net__add", a=1, b=2), say("3"))
        outcome = await scene.run(mcp_servers=[{"name": "net", "transport": kind, "url": url}])
        assert outcome.messages[1]["content"] == "3"
        scene.close_input()
        await scene.wait_over()


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_cancellation_reaches_a_server_on_the_network(
    scene: Scene, model: ScriptedModel, tmp_path: Path, kind: str
) -> None:
    async with _run_server(kind, tmp_path) as url:
        model.script(call("net__wait", name="x"))
        await scene.start(mcp_servers=[{"name": "net", "transport": kind, "url": url}])
        await eventually(_exists(tmp_path / "began-x"))
        await scene.send("cancel", run_id="r1")
        assert (await scene.finish()).state == "cancelled"
        await eventually(_exists(tmp_path / "cancelled-x"))
        scene.close_input()
        await scene.wait_over()


async def test_server_of_the_package_index_is_understood(scene: Scene) -> None:
    server = {"name": "time", "transport": "stdio", "command": str(Path(sys.executable).parent / "mcp-server-time")}
    if not Path(server["command"]).exists():
        pytest.skip("mcp-server-time is not installed")
    text = await _call_tool(scene, server, "get_current_time", timezone="UTC")
    assert json.loads(text)["timezone"] == "UTC"


async def test_session_is_shared_by_runs_with_the_same_key(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    for number in range(3):
        await scene.run(run_id=f"r{number}", mcp_servers=[make_server(tmp_path)], **KEY)
    assert _count_starts(tmp_path) == 1
    await scene.run(run_id="other", mcp_servers=[make_server(tmp_path)], session_key="another")
    assert _count_starts(tmp_path) == 2


async def test_session_without_a_key_ends_with_its_run(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    await scene.run(mcp_servers=[make_server(tmp_path)])
    pid = int(await eventually(_read(tmp_path / "started")))
    await eventually(_is_gone(pid))


async def test_changed_specification_replaces_the_session(scene: Scene, tmp_path: Path) -> None:
    await scene.mcp("ping", make_server(tmp_path), **KEY)
    pid = int((tmp_path / "started").read_text())
    await scene.mcp("ping", make_server(tmp_path, call_s=7), **KEY)
    assert _count_starts(tmp_path) == 1
    changed = make_server(tmp_path, env={"MORE": "1"})
    assert "MORE" in json.loads(await _call_tool(scene, changed, "environment"))["env"]
    assert _count_starts(tmp_path) == 2
    await eventually(_is_gone(pid))


async def test_close_sessions_ends_the_servers_with_that_key(scene: Scene, tmp_path: Path) -> None:
    await scene.mcp("ping", make_server(tmp_path), **KEY)
    pid = int((tmp_path / "started").read_text())
    await scene.send("close_sessions", session_key="another")
    await scene.mcp("ping", make_server(tmp_path), **KEY)
    assert _count_starts(tmp_path) == 1
    await scene.send("close_sessions", session_key="k")
    await eventually(_is_gone(pid))


async def test_close_sessions_waits_for_a_call_that_is_running(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__wait", name="x"), say("done"))
    await scene.start(mcp_servers=[make_server(tmp_path)], **KEY)
    await eventually(_exists(tmp_path / "began-x"))
    await scene.send("close_sessions", session_key="k")
    (tmp_path / "go-x").touch()
    assert (await scene.finish()).messages[1]["content"] == "waited for x"


async def test_idle_session_is_closed(model: ScriptedModel, tmp_path: Path) -> None:
    async with run_scene(model.url, McpPoolOptions(idle_s=0.05)) as scene:
        await scene.mcp("ping", make_server(tmp_path), **KEY)
        await eventually(_is_gone(int((tmp_path / "started").read_text())))


async def test_session_that_was_idle_is_pinged_and_replaced_if_it_does_not_answer(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async with run_scene(model.url, McpPoolOptions(ping_after_s=0.0)) as scene:
        server = make_server(tmp_path)
        await scene.mcp("list", server, **KEY)
        await scene.mcp("list", server, **KEY)
        assert _count_starts(tmp_path) == 1
        process = psutil.Process(int((tmp_path / "started").read_text()))
        process.suspend()
        assert "tools" in (await scene.mcp("list", server, **KEY))["result"]
        assert _count_starts(tmp_path) == 2
        await eventually(_is_gone(process.pid))


async def test_oldest_idle_session_makes_room_for_a_new_one(model: ScriptedModel, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    async with run_scene(model.url, McpPoolOptions(sessions_max=2)) as scene:
        for folder in folders:
            folder.mkdir()
            await scene.mcp("ping", make_server(folder, folder.name), **KEY)
        await eventually(_is_gone(int((folders[0] / "started").read_text())))
        assert not await _is_gone(int((folders[1] / "started").read_text()))()


async def test_too_many_sessions_in_use_leave_out_the_next_server(model: ScriptedModel, tmp_path: Path) -> None:
    async with run_scene(model.url, McpPoolOptions(sessions_max=1)) as scene:
        model.script(call("tools__wait", name="x"), say("done"))
        await scene.start(mcp_servers=[make_server(tmp_path)], **KEY)
        await eventually(_exists(tmp_path / "began-x"))
        answer = await scene.mcp("list", make_server(tmp_path, "second"), **KEY)
        assert "in use already" in answer["error"]["message"]
        (tmp_path / "go-x").touch()
        await scene.finish()


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ({"transport": "stdio", "command": "no-such-program"}, "There is no program no-such-program"),
        ({"transport": "stdio", "command": sys.executable, "args": ["-c", "pass"]}, "ended with exit code 0"),
        (
            {"transport": "stdio", "command": sys.executable, "args": [str(SERVERS / "mute.py"), "no licence"]},
            "no licence",
        ),
        (
            {"transport": "stdio", "command": sys.executable, "args": [str(SERVERS / "mute.py")], "connect_s": 0.5},
            "did not connect within 0.5 s",
        ),
        ({"transport": "stdio", "command": sys.executable, "cwd": "/no/such/folder"}, "does not exist"),
        ({"transport": "http", "url": "http://127.0.0.1:9/mcp"}, "cannot be reached"),
        ({"transport": "sse", "url": "http://127.0.0.1:9/sse"}, "cannot be reached"),
        ({"transport": "http", "url": "nonsense"}, "dead"),
        ({"transport": "http", "url": "http://[bad/mcp"}, "dead"),
    ],
)
async def test_dead_server_is_named_and_costs_the_others_nothing(
    scene: Scene, model: ScriptedModel, tmp_path: Path, server: dict[str, Any], reason: str
) -> None:
    model.script(call("tools__add", a=1, b=2), say("3"))
    outcome = await scene.run(mcp_servers=[{"name": "dead", **server}, make_server(tmp_path)])
    assert outcome.content == "3"
    (status,) = scene.events("status")
    assert status["server"] == "dead"
    assert "dead" in status["message"]
    assert reason in status["message"]


@pytest.mark.behaviour("RUNNER-3")
async def test_server_that_is_killed_in_a_call_gives_an_error_and_comes_back(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__die"), call("tools__add", a=1, b=2), say("3"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], **KEY)
    first, second = scene.events("tool_result")
    assert (first["is_error"], "SIGKILL" in first["content"]) == (True, True), first
    assert (second["content"], outcome.content) == ("3", "3")
    assert _count_starts(tmp_path) == 2


async def test_server_that_is_killed_while_its_child_holds_the_pipe_gives_an_error(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__fork", detached=False), call("tools__die"), say("ok"))
    await scene.run(mcp_servers=[make_server(tmp_path)], **KEY)
    forked, died = scene.events("tool_result")
    assert "SIGKILL" in died["content"]
    await eventually(_is_gone(int(forked["content"])))


@pytest.mark.behaviour("RUNNER-3")
async def test_tool_that_never_answers_is_given_up_and_cancelled(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(ModelReply(calls=[("tools__wait", {"name": "x"}), ("tools__add", {"a": 1, "b": 2})]), say("ok"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, call_s=0.5)], **KEY)
    results = {data["name"]: data for data in scene.events("tool_result")}
    assert results["tools__wait"]["is_error"] is True
    assert "within 0.5 s" in results["tools__wait"]["content"]
    assert results["tools__add"]["content"] == "3"
    assert outcome.content == "ok"
    await eventually(_exists(tmp_path / "cancelled-x"))


@pytest.mark.behaviour("RUNNER-3")
async def test_flood_without_an_end_of_line_ends_the_session_early(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("raw__flood", mebibytes=100), call("raw__noise"), say("ok"))
    outcome = await scene.run(mcp_servers=[_make_raw_server(tmp_path)], **KEY)
    flooded, noise = scene.events("tool_result")
    assert (flooded["is_error"], "more than 8 MiB" in flooded["content"]) == (True, True), flooded
    assert (noise["content"], outcome.content) == ("done", "ok")
    # The program was stopped by the full pipe: the rest was never read.
    assert int((tmp_path / "flooded").read_text()) < 20


@pytest.mark.behaviour("RUNNER-21")
@pytest.mark.parametrize(
    ("tools", "characters", "read"), [(1000, 10, ENTRIES_MAX), (4, 1 << 20, LISTING_CHARACTERS_MAX // (1 << 20) - 1)]
)
async def test_listing_without_end_is_read_up_to_a_limit(
    scene: Scene, tmp_path: Path, tools: int, characters: int, read: int
) -> None:
    server = _make_raw_server(tmp_path)
    server["args"] += [str(tools), str(characters)]
    assert len((await scene.mcp("list", server, **KEY))["result"]["tools"]) == read


async def test_lines_that_are_no_messages_are_ignored(scene: Scene, tmp_path: Path) -> None:
    assert await _call_tool(scene, _make_raw_server(tmp_path), "noise") == "done"


async def test_server_of_an_earlier_protocol_is_pinged_and_gets_cancellations(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async with run_scene(model.url, McpPoolOptions(ping_after_s=0.0)) as scene:
        server = _make_raw_server(tmp_path, call_s=0.2)
        await scene.mcp("list", server, **KEY)
        answer = await scene.mcp("call_tool", server, params={"name": "never"}, **KEY)
        assert "within 0.2 s" in answer["error"]["message"]

        async def list_methods() -> list[str]:
            methods = (tmp_path / "methods").read_text().split()
            return methods if methods[-1] == "notifications/cancelled" else []

        methods = await eventually(list_methods)
        assert methods[1:] == [
            "initialize",
            "notifications/initialized",
            "tools/list",
            "ping",
            "tools/call",
            "notifications/cancelled",
        ]


@pytest.mark.parametrize(
    ("tool", "arguments"), [("fork", {"detached": False}), ("fork", {"detached": True}), ("orphan", {})]
)
async def test_everything_that_a_server_has_started_ends_with_its_session(
    scene: Scene, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    pid = int(await _call_tool(scene, make_server(tmp_path), tool, **arguments))
    assert psutil.pid_exists(pid)
    await scene.send("close_sessions", session_key="k")
    await eventually(_is_gone(pid))
    await eventually(_is_gone(int((tmp_path / "started").read_text())))


@pytest.mark.behaviour("RUNNER-4")
async def test_program_gets_a_bare_environment_of_its_own(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_SECRET", "of the worker")
    facts = json.loads(await _call_tool(scene, make_server(tmp_path, env={"MINE": "1"}), "environment"))
    allowed = {"PATH", "HOME", "TMPDIR", "LANG", "NOTES", "PYTHONDONTWRITEBYTECODE", "MINE", PROGRAM_MARKER}
    # Python itself may set LC_CTYPE.
    assert set(facts["env"]) - {"LC_CTYPE"} == allowed
    assert facts["env"]["HOME"] == facts["cwd"] != os.environ.get("HOME")
    assert facts["leads"] is True
    assert facts["limits"] == {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 4096}
    await scene.send("close_sessions", session_key="k")

    async def is_removed() -> bool:
        return not Path(facts["env"]["HOME"]).exists()

    await eventually(is_removed)


async def test_only_the_named_tools_of_a_server_are_offered(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    await scene.run(mcp_servers=[make_server(tmp_path, tools=["echo", "add"])])
    assert [tool["function"]["name"] for tool in model.requests[0]["tools"]] == ["tools__add", "tools__echo"]


async def test_headers_reach_a_server_on_the_network(scene: Scene, model: ScriptedModel) -> None:
    # Any HTTP server will do: the chat server answers 404 or 405, and says what it was sent.
    async with run_scripted_model() as other:
        url = other.url.removesuffix("/v1")
        server = {"name": "net", "transport": "http", "url": f"{url}/v1/chat/completions"}
        await scene.mcp("list", server | {"headers": {"Authorization": "Bearer abc"}, "connect_s": 1})
        assert set(other.keys) == {"Bearer abc"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": "x" * (9 << 20)}, "more than 8 MiB"),
        ({"body": b"\x1f\x8b", "headers": {"Content-Encoding": "gzip"}}, "compressed"),
    ],
)
async def test_response_of_a_server_on_the_network_is_bounded(
    scene: Scene, fields: dict[str, Any], reason: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(content_type="application/json", **fields)

    application = web.Application()
    application.router.add_post("/mcp", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        error = (await scene.mcp("list", {"name": "net", "transport": "http", "url": url}))["error"]
    finally:
        await runner.cleanup()
    assert reason in error["message"]


def _exists(path: Path) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return path.exists()

    return look


@pytest.mark.behaviour("RUNS-14")
async def test_call_with_effects_begins_only_after_a_frontend_has_stored_it(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    scene.flushes = False
    model.script(call("tools__wait", name="x"))
    await scene.start(mcp_servers=[make_server(tmp_path)], **KEY)
    flush = await scene.wait(lambda message: message["type"] == "call" and message["method"] == "flush")
    # The server is well, and calls without effects go on.
    model.script(call("tools__add", a=1, b=2), say("three"))
    assert (await scene.run(run_id="r2", mcp_servers=[make_server(tmp_path)], **KEY)).content == "three"
    assert not (tmp_path / "began-x").exists()
    (tmp_path / "go-x").touch()
    await scene.send("reply", id=flush["id"], result={})
    assert (await scene.finish()).content == "done"
    assert (tmp_path / "began-x").exists()


async def test_call_with_effects_is_not_executed_if_its_trace_cannot_be_stored(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    scene.flushes = False
    model.script(call("tools__wait", name="x"), say("done"))
    await scene.start(mcp_servers=[make_server(tmp_path)])
    flush = await scene.wait(lambda message: message["type"] == "call")
    await scene.send("reply", id=flush["id"], error={"code": "too_many_calls", "message": "Too many."})
    assert (await scene.finish()).content == "done"
    assert "not executed" in scene.events("tool_result")[0]["content"]
    assert not (tmp_path / "began-x").exists()
