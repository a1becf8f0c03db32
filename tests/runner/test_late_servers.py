"""MCP servers that are late, dead or mute: what they cost the runs that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.domain.errors import CorralError
from corral.runner.mcp_failures import FAILURE_BACKOFF, McpFailureRegistry
from corral.runner.mcp_session import McpUnavailable
from tests.runner.chat_server import ModelReply, ScriptedModel, call, say
from tests.runner.scene import SERVERS, Scene, make_server, run_scene
from tests.support.hand_clock import HandClock
from tests.support.polling import eventually

KEY = {"session_key": "k"}
# The servers of these tests are late by a note, and not by a time: no wait is needed to see that.
NO_GRACE_S = 0.01
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def make_late_server(notes: Path, *args: str, **fields: Any) -> dict[str, Any]:
    return make_server(notes, "late", args=[str(SERVERS / "late.py"), *args], **fields)


def count_attempts(notes: Path) -> int:
    path = notes / "attempts"
    return len(path.read_text()) if path.exists() else 0


def list_offered(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


async def await_attempt(notes: Path) -> None:
    async def was_tried() -> bool:
        return count_attempts(notes) > 0

    await eventually(was_tried)


@pytest.mark.behaviour("RUNNER-9")
async def test_late_server_is_left_out_of_the_first_step_and_its_tools_come_at_a_later_one(
    model: ScriptedModel, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> ModelReply:
        if "late__add" in list_offered(body):
            return say("3") if body["messages"][-1]["content"] == "3" else call("late__add", a=1, b=2)
        # A call that cannot be used leads to the next step.
        return call("nothing")

    model.rest = reply
    async with run_scene(model.url, server_grace_s=NO_GRACE_S) as scene:
        await scene.start(
            mcp_servers=[make_late_server(tmp_path)],
            client_tools=[WEATHER],
            options={"max_attempts": 1_000_000, "loop_detection": 0},
            budgets={"steps": None},
            **KEY,
        )
        status = await scene.wait_event("status", server="late")
        assert status["data"]["code"] == "mcp_late"
        assert "left out for now" in status["data"]["message"]
        await scene.wait_event("step", step=1)
        (tmp_path / "go").touch()
        outcome = await scene.finish()
    assert (outcome.state, outcome.content) == ("completed", "3")
    assert list_offered(model.requests[0]) == ["weather"]
    assert "has answered" in scene.events("status")[-1]["message"]


async def test_run_that_has_to_begin_with_a_tool_call_waits_for_its_only_tools(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("late__add", a=1, b=2), say("3"))
    async with run_scene(model.url, server_grace_s=NO_GRACE_S) as scene:
        dead = make_server(tmp_path, "dead", command="no-such-program")
        await scene.start(mcp_servers=[make_late_server(tmp_path), dead], options={"tool_choice": "required"}, **KEY)
        await scene.wait_event("status", server="dead")
        (tmp_path / "go").touch()
        assert (await scene.finish()).content == "3"
    assert "late__add" in list_offered(model.requests[0])


@pytest.mark.behaviour("RUNNER-9")
async def test_runs_of_one_owner_neither_wait_for_a_mute_server_nor_for_each_other(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.rest = say("hello")
    async with run_scene(model.url, server_grace_s=NO_GRACE_S) as scene:
        for number in range(3):
            await scene.start(run_id=f"r{number}", mcp_servers=[make_late_server(tmp_path)], **KEY)
        for number in range(3):
            assert (await scene.finish(f"r{number}")).content == "hello"
        # The attempt goes on without the runs, and the next run finds the session.
        await await_attempt(tmp_path)
        (tmp_path / "go").touch()
        assert "tools" in (await scene.mcp("list", make_late_server(tmp_path), **KEY))["result"]
        assert count_attempts(tmp_path) == 1


async def test_cancelled_run_does_not_end_the_opening_for_the_others(scene: Scene, tmp_path: Path) -> None:
    for run_id in ("r1", "r2"):
        await scene.start(run_id=run_id, mcp_servers=[make_late_server(tmp_path)], **KEY)
    await await_attempt(tmp_path)
    await scene.send("cancel", run_id="r1")
    assert (await scene.finish("r1")).state == "cancelled"
    (tmp_path / "go").touch()
    assert (await scene.finish("r2")).state == "completed"
    assert (scene.events("status", "r2"), count_attempts(tmp_path)) == ([], 1)


async def test_run_with_its_own_sessions_takes_the_opening_with_it(scene: Scene, tmp_path: Path) -> None:
    await scene.start(mcp_servers=[make_late_server(tmp_path)])
    await await_attempt(tmp_path)
    await scene.send("cancel", run_id="r1")
    assert (await scene.finish()).state == "cancelled"
    await scene.run(run_id="r2", mcp_servers=[make_late_server(tmp_path, "no licence")])
    assert "no licence" in scene.events("status", "r2")[0]["message"]


@pytest.mark.behaviour("RUNNER-9")
async def test_dead_server_is_tried_again_after_pauses_that_grow(model: ScriptedModel, tmp_path: Path) -> None:
    clock, server = HandClock(), make_late_server(tmp_path, "no licence")
    async with run_scene(model.url, clock=clock) as scene:

        async def try_run(number: int) -> str:
            await scene.run(run_id=f"r{number}", mcp_servers=[server], session_key=f"owner-{number}")
            (status,) = scene.events("status", f"r{number}")
            assert (status["server"], "no licence" in status["message"]) == ("late", True), status
            return str(status["message"])

        assert "tried again" not in await try_run(1)
        # For everybody: another owner would find it just as dead.
        assert "tried again in 30 s" in await try_run(2)
        assert count_attempts(tmp_path) == 1
        clock.now += 30
        await try_run(3)
        assert count_attempts(tmp_path) == 2
        assert "tried again in 60 s" in await try_run(4)
        assert count_attempts(tmp_path) == 2


async def test_dead_server_is_tried_at_once_after_a_change_and_for_a_person(
    model: ScriptedModel, tmp_path: Path
) -> None:
    clock = HandClock()
    async with run_scene(model.url, clock=clock) as scene:
        dead = make_late_server(tmp_path, "no licence")
        await scene.run(run_id="r1", mcp_servers=[dead], **KEY)
        await scene.run(run_id="r2", mcp_servers=[dead | {"env": dead["env"] | {"MORE": "1"}}], **KEY)
        assert count_attempts(tmp_path) == 2
        # A person who looks at the server wants to know how it is now.
        answer = await scene.mcp("list", dead, **KEY)
        assert ("no licence" in answer["error"]["message"], count_attempts(tmp_path)) == (True, 3)


async def test_server_that_a_person_has_found_alive_is_used_by_the_next_run(
    model: ScriptedModel, tmp_path: Path
) -> None:
    program, python = tmp_path / "program", make_server(tmp_path)["command"]
    server = make_server(tmp_path, command=str(program))
    async with run_scene(model.url, clock=HandClock()) as scene:
        await scene.run(run_id="r1", mcp_servers=[server], **KEY)
        program.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        program.chmod(0o755)
        assert "tools" in (await scene.mcp("list", server, **KEY))["result"]
        await scene.send("close_sessions", session_key="k")
        await scene.run(run_id="r2", mcp_servers=[server], **KEY)
    assert len(scene.events("status", "r1")) == 1
    assert scene.events("status", "r2") == []


async def test_server_that_opens_but_cannot_list_its_tools_is_remembered(model: ScriptedModel, tmp_path: Path) -> None:
    server = make_server(tmp_path, "raw", args=[str(SERVERS / "raw.py"), "broken"])
    async with run_scene(model.url, clock=HandClock()) as scene:
        for run_id in ("r1", "r2"):
            await scene.run(run_id=run_id, mcp_servers=[server], **KEY)
            (status,) = scene.events("status", run_id)
            assert "could not list its tools" in status["message"]
    assert (tmp_path / "methods").read_text().split().count("tools/list") == 1


def find_pause_s(registry: McpFailureRegistry, clock: HandClock) -> int:
    """Move the clock until the server may be tried again, and return how long that took."""
    begin = clock.now
    while True:
        try:
            registry.check("server")
        except McpUnavailable:
            clock.now += 1
        else:
            return int(clock.now - begin)


def test_pause_of_a_dead_server_doubles_up_to_its_ceiling_and_starts_over_when_it_answers() -> None:
    clock = HandClock()
    registry = McpFailureRegistry(clock)
    pauses = []
    for _ in range(6):
        registry.note("server", CorralError("It is dead."))
        # Another attempt that was made at the same time.
        registry.note("server", CorralError("It is dead."))
        pauses.append(find_pause_s(registry, clock))
    assert pauses == [30, 60, 120, 240, 300, 300]
    registry.forget("server")
    registry.check("server")
    registry.note("server", CorralError("It is dead."))
    assert find_pause_s(registry, clock) == 30


def test_pause_of_a_dead_server_starts_over_when_it_was_not_needed_for_long() -> None:
    clock = HandClock()
    registry = McpFailureRegistry(clock)
    for _ in range(2):
        registry.note("server", CorralError("It is dead."))
        clock.now += FAILURE_BACKOFF.reset_after_s
    registry.note("server", CorralError("It is dead."))
    assert find_pause_s(registry, clock) == 30


def test_error_of_a_server_that_is_not_tried_has_reason_and_code_of_the_failure() -> None:
    registry = McpFailureRegistry(HandClock())
    registry.note("server", CorralError("It has no licence.", code="mcp_program_failed"))
    with pytest.raises(McpUnavailable, match=r"It has no licence \(it is tried again in 30 s\)\.") as raised:
        registry.check("server")
    assert raised.value.slug == "mcp_program_failed"
