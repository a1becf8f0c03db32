"""The process `python -m corral.runner`: its protocol, its end, and that it keeps secrets to itself."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral import __version__
from corral.domain.errors import INSTALL_HINT
from corral.runner.program import MEMORY_BYTES_MAX, MEMORY_BYTES_MIN
from corral.wire import runner_protocol
from corral.wire.run_work import McpServerSpec, RunSpec
from corral.wire.runner_protocol import LINE_BYTES_MAX, McpMessage, StartMessage
from tests.runner.chat_server import ModelReply, ScriptedModel, call, refuse, say
from tests.runner.scene import TICKET, ProcessScene, Scene, make_server, run_process_scene
from tests.support.polling import eventually
from tests.support.ports import find_free_port


def _is_gone(pid: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    return look


async def _start_with_open_call(scene: ProcessScene, model: ScriptedModel, notes: Path) -> int:
    """Start a run that is in a tool call, and return the pid of the server's child."""
    model.script(call("tools__fork", detached=True), call("tools__wait", name="x"))
    await scene.start(mcp_servers=[make_server(notes)], session_key="k")
    forked = await scene.wait_event("tool_result", name="tools__fork")
    await scene.wait_event("tool_call", name="tools__wait")
    return int(forked["data"]["content"])


async def test_runner_says_that_it_is_ready(model: ScriptedModel) -> None:
    async with run_process_scene(model.url) as scene:
        ready = await scene.wait(lambda message: message["type"] == "ready")
        assert ready == {"type": "ready", "pid": scene.process.pid, "version": __version__}
        model.script(say("hello"))
        assert (await scene.run()).content == "hello"


@pytest.mark.behaviour("RUNNER-21")
async def test_runner_answers_pings_and_has_a_limit_of_memory(model: ScriptedModel) -> None:
    async with run_process_scene(model.url) as scene:
        await scene.send("ping")
        await scene.wait(lambda message: message["type"] == "pong")
        if sys.platform != "linux":
            pytest.skip("only Linux counts the memory that a process may write to")
        soft, hard = psutil.Process(scene.process.pid).rlimit(psutil.RLIMIT_DATA)
        assert MEMORY_BYTES_MIN <= soft <= MEMORY_BYTES_MAX
        assert hard == resource.getrlimit(resource.RLIMIT_DATA)[1]


@pytest.mark.behaviour("RUNNER-4")
async def test_end_of_input_cancels_runs_and_ends_servers_with_their_children(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async with run_process_scene(model.url) as scene:
        child = await _start_with_open_call(scene, model, tmp_path)
        scene.close_input()
        assert (await scene.finish()).state == "cancelled"
        assert await scene.ended() == 0
    assert await _is_gone(child)()
    assert await _is_gone(int((tmp_path / "started").read_text()))()


async def test_broken_pipe_ends_the_runner_and_its_servers(model: ScriptedModel, tmp_path: Path) -> None:
    async with run_process_scene(model.url) as scene:
        child = await _start_with_open_call(scene, model, tmp_path)
        assert scene.process.stdout is not None
        transport: Any = scene.process.stdout._transport  # type: ignore[attr-defined]
        transport.close()
        # The next message finds the pipe broken.
        await scene.send("mcp", id="m1", server={"name": "x", "transport": "http", "url": ""}, action="ping")
        assert await scene.ended() == 0
    await eventually(_is_gone(child))
    await eventually(_is_gone(int((tmp_path / "started").read_text())))


async def test_sigterm_ends_the_runner_like_the_end_of_input(model: ScriptedModel, tmp_path: Path) -> None:
    async with run_process_scene(model.url) as scene:
        child = await _start_with_open_call(scene, model, tmp_path)
        scene.process.send_signal(signal.SIGTERM)
        assert (await scene.finish()).state == "cancelled"
        assert await scene.ended() == 0
    assert await _is_gone(child)()


async def test_interrupt_of_the_terminal_is_left_to_the_worker(model: ScriptedModel) -> None:
    async with run_process_scene(model.url) as scene:
        await scene.wait(lambda message: message["type"] == "ready")
        scene.process.send_signal(signal.SIGINT)
        assert (await scene.run()).state == "completed"


async def test_server_ends_with_a_runner_that_is_killed(model: ScriptedModel, tmp_path: Path) -> None:
    async with run_process_scene(model.url) as scene:
        await scene.mcp("ping", make_server(tmp_path), session_key="k")
        scene.process.kill()
        await scene.ended()
    await eventually(_is_gone(int((tmp_path / "started").read_text())))


async def test_stop_finishes_active_runs_and_refuses_others(model: ScriptedModel) -> None:
    gate = asyncio.Event()
    model.script(say("fin", "ished", gate=gate))
    async with run_process_scene(model.url) as scene:
        await scene.start(run_id="a")
        await model.begun.wait()
        await scene.send("stop")
        assert (await scene.run(run_id="b")).error_code == "runner_stopping"
        gate.set()
        assert (await scene.finish("a")).content == "finished"
        assert await scene.ended() == 0


async def test_what_a_library_prints_does_not_reach_the_protocol(model: ScriptedModel, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import atexit; atexit.register(print, 'noise of a library')")
    async with run_process_scene(model.url, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])) as scene:
        await scene.run()
        scene.close_input()
        await scene.ended()
        await scene.wait_over()
    assert all(line.startswith(b'{"type":') for line in scene.lines)
    assert any("noise of a library" in line for line in scene.log)


async def test_missing_library_is_named_with_the_group_that_has_it(model: ScriptedModel, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pydantic_ai'] = None")
    async with run_process_scene(model.url, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])) as scene:
        assert await scene.ended() == 1
    log = "".join(scene.log)
    assert "pydantic_ai" in log
    assert INSTALL_HINT.format(extra="agents") in log


async def test_lines_that_cannot_be_read_are_ignored_and_not_logged(model: ScriptedModel) -> None:
    canary = "canary-of-a-line"
    async with run_process_scene(model.url) as scene:
        await scene.send_line(b"{" + canary.encode())
        await scene.send_line(b'["' + canary.encode() + b'"]')
        await scene.send_line(b"\xff\xfe" + canary.encode())
        await scene.send_line(b"")
        await scene.send("brand_new", text=canary)
        await scene.send("cancel", run_id="nobody")
        await scene.send("decide", run_id="nobody", call_id="x", approved=True)
        await scene.send("reply", id="99", result={})
        await scene.send("start", run_id="long", spec={"padding": canary * (LINE_BYTES_MAX // len(canary) + 1)})
        assert (await scene.run()).state == "completed"
    assert [message["type"] for message in scene.messages if message["type"] not in ("ready", "event")] == ["end"]
    assert not any(canary in line for line in scene.log)
    assert sum("ignored" in line for line in scene.log) >= 4


@pytest.mark.behaviour("RUNNER-1")
async def test_each_start_gets_exactly_one_end(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model.script(say("a", "b", gate=gate))
    await scene.start(run_id="twice")
    await model.begun.wait()
    await scene.start(run_id="twice")
    await scene.send("cancel", run_id="twice")
    await scene.send("cancel", run_id="twice")
    await scene.finish("twice")
    await scene.send("start", run_id="nothing")
    await scene.send("start", run_id="invalid", spec={"run_id": "invalid", "kind": "chat", "model": "m", "budgets": 7})
    await scene.start(run_id="nowhere", base_urls=[])
    await scene.start(run_id="odd", base_urls=["no address"])
    await scene.start(run_id="empty", messages=[], mcp_servers=[{"name": "x", "transport": "stdio"}])
    model.script(ModelReply(calls=[("tools__add", "\x00")]))
    await scene.start(run_id="bad", mcp_servers=[make_server(tmp_path)], budgets={"wall_s": -1})
    outcomes = {name: await scene.finish(name) for name in ("nothing", "invalid", "nowhere", "odd", "empty", "bad")}
    assert {name: outcome.error_code for name, outcome in outcomes.items()} == {
        "nothing": "spec_invalid",
        "invalid": "spec_invalid",
        "nowhere": "frontend_unreachable",
        "odd": "frontend_unreachable",
        "empty": "",
        "bad": "run_timeout",
    }
    await scene.run(run_id="last")
    ends = [message["run_id"] for message in scene.messages if message["type"] == "end"]
    assert sorted(ends) == sorted({"twice", "last", *outcomes})


async def test_no_event_follows_the_end_of_a_run(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    server = make_server(tmp_path)
    model.script(call("tools__echo", text="e" * 1_000_000))
    await scene.mcp("ping", server, session_key="k")
    process = psutil.Process(int((tmp_path / "started").read_text()))
    await scene.start(mcp_servers=[server], session_key="k", tool_rules={"*": "ask"})
    request = await scene.wait_event("approval_requested")
    # The server reads no more: the call hangs in a full pipe, and so does the notice of its cancellation.
    process.suspend()
    await scene.send("decide", run_id="r1", call_id=request["data"]["call_id"], approved=True)
    await scene.wait_event("tool_call")
    await scene.send("cancel", run_id="r1")
    assert (await scene.finish()).state == "cancelled"
    process.resume()
    await scene.run(run_id="r2")
    position = next(i for i, message in enumerate(scene.messages) if message["type"] == "end")
    assert [m for m in scene.messages[position + 1 :] if m.get("run_id") == "r1"] == []


async def test_outcome_that_is_too_large_for_a_line_arrives_without_messages(
    scene: Scene, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_protocol, "LINE_BYTES_MAX", 8 << 20)
    model.script(say(*["\x01" * 50_000] * 20))
    outcome = await scene.run()
    assert (outcome.state, outcome.messages) == ("completed", [])
    assert outcome.content.startswith("\x01")


SECRETS = {
    "ticket": TICKET,
    "header": "header-canary-1a2b3c4d",
    "env": "env-canary-5e6f7a8b",
    "setting": "setting-canary-9c0d1e2f",
    "password": "password-canary-3a4b5c6d",
    "query": "query-canary-7e8f9a0b",
    "argument": "argument-canary-1c2d3e4f",
}


def _make_servers(notes: Path, port: int) -> list[dict[str, Any]]:
    env = {"API_KEY": SECRETS["env"], "SETTING": SECRETS["setting"]}
    url = f"http://user:{SECRETS['password']}@127.0.0.1:{port}/mcp?token={SECRETS['query']}"
    headers = {"Authorization": f"Bearer {SECRETS['header']}"}
    return [
        make_server(notes, env=env),
        {"name": "away", "transport": "http", "url": url, "headers": headers},
        {"name": "gone", "transport": "sse", "url": url, "headers": headers},
        # A program that ends at once and says all its secrets.
        make_server(
            notes,
            "leaky",
            env=env,
            args=[
                "-c",
                "import os, sys; sys.exit(str(dict(os.environ)) + str(sys.argv))",
                "--token",
                SECRETS["argument"],
            ],
        ),
    ]


@pytest.mark.behaviour("RUNNER-6")
async def test_secrets_are_in_no_event_and_no_log_line(model: ScriptedModel, tmp_path: Path) -> None:
    servers = _make_servers(tmp_path, find_free_port())
    model.script(
        ModelReply(calls=[("tools__leak", {"name": "API_KEY"}), ("tools__fail", {"text": "x"})]),
        lambda body: say(" ".join(str(message.get("content")) for message in body["messages"])),
        refuse(401, "bad_key", f"The key {TICKET} is not known."),
    )
    async with run_process_scene(model.url) as scene:
        outcome = await scene.run(mcp_servers=servers, session_key="k")
        assert (await scene.run(run_id="r2", mcp_servers=servers, session_key="k")).error_code == "bad_key"
        for server in servers:
            await scene.mcp("list", server)
        await scene.mcp("call_tool", servers[0], params={"name": "fail", "arguments": {"text": "x"}})
    # The secrets were there: the tool has sent its own, and the masked one reached the model.
    assert {data["is_error"] for data in scene.events("tool_result")} == {False, True}
    assert "••••" in outcome.content
    assert any("stderr" in line for line in scene.log)
    output = b"".join(scene.lines).decode() + "".join(scene.log)
    assert [name for name, secret in SECRETS.items() if secret in output] == []


@pytest.mark.parametrize("kind", ["start", "mcp"])
def test_secrets_are_in_no_representation(tmp_path: Path, kind: str) -> None:
    servers = [McpServerSpec.model_validate(server) for server in _make_servers(tmp_path, 9)]
    spec = RunSpec(run_id="r", kind="chat", model="m", ticket=TICKET, mcp_servers=servers)
    message = (
        StartMessage(run_id="r", spec=spec) if kind == "start" else McpMessage(id="m", server=servers[1], action="list")
    )
    shown = repr(message) + str(message) + repr(spec) + repr(servers)
    assert [name for name, secret in SECRETS.items() if secret in shown] == []
