"""Agents, tasks and MCP servers in a fleet file: one transaction, ownership, pruning, exports and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.hand_worker import chat, create, join_worker, make_key
from tests.api.models.refusals import assert_refused
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tools.source import ROOT

FILE: dict[str, Any] = {
    "models": [{"name": "m", "backend": "fake"}],
    "mcp_servers": [
        {"name": "time", "command": "uvx", "args": ["mcp-server-time"], "env": {"TOKEN": "cluster-secret:time"}},
        {"name": "wiki", "transport": "http", "url": "http://10.0.0.7/mcp"},
    ],
    "agents": [
        {"name": "clock", "model": "m", "mcp_stdio_servers": ["time"], "tool_rules": {"time__*": "ask", "*": "deny"}},
        {
            "name": "helper",
            "model": "m",
            "shared": True,
            "mcp_servers": [{"name": "x", "url": "https://x.example/mcp", "token": "secret:x"}],
        },
    ],
    "tasks": [{"name": "greet", "model": "m", "prompt": "Greet {{ name }}.", "cron": "0 9 * * *", "enabled": False}],
}


async def apply(
    frontend: RunningFrontend, file: dict[str, Any], query: str = "", key: str = ADMIN_KEY
) -> dict[str, str]:
    """Apply a file and return what it did to each item."""
    status, answer = await frontend.call("POST", f"/api/fleet{query}", file, key=key)
    assert status == 200, answer
    return {f"{step['kind']} {step['name']}": step["action"] for step in answer["steps"]}


async def export(frontend: RunningFrontend, key: str = ADMIN_KEY) -> dict[str, Any]:
    status, answer = await frontend.call("GET", "/api/fleet", key=key)
    assert status == 200, answer
    return dict(answer)


async def list_names(frontend: RunningFrontend, path: str, key: str = ADMIN_KEY) -> list[str]:
    _, answer = await frontend.call("GET", path, key=key)
    entries = answer if isinstance(answer, list) else answer.get("items", answer.get("servers"))
    return [entry["name"] for entry in entries]


@pytest.mark.behaviour("MOD-30")
async def test_fleet_file_declares_agents_tasks_and_mcp_servers_and_its_export_changes_nothing(
    frontend: RunningFrontend,
) -> None:
    planned = await apply(frontend, FILE, "?plan=true")
    assert await list_names(frontend, "/api/agents") == []
    assert await apply(frontend, FILE) == planned
    assert planned == {
        "model m": "create",
        "MCP server time": "create",
        "MCP server wiki": "create",
        "agent clock": "create",
        "agent helper": "create",
        "task greet": "create",
    }
    exported = await export(frontend)
    assert {key: exported[key] for key in ("mcp_servers", "agents", "tasks")} == {
        key: FILE[key] for key in ("mcp_servers", "agents", "tasks")
    }
    assert set((await apply(frontend, exported, "?prune=true")).values()) == {"same"}
    assert set((await apply(frontend, FILE)).values()) == {"same"}


@pytest.mark.behaviour("TASK-18")
async def test_task_that_uses_no_servers_of_its_model_survives_an_export(frontend: RunningFrontend) -> None:
    file = {"models": FILE["models"], "tasks": [{"name": "plain", "model": "m", "prompt": "x", "mcp_servers": []}]}
    await apply(frontend, file)
    exported = await export(frontend)
    assert exported["tasks"] == [file["tasks"][0] | {"mcp_stdio_servers": []}]
    assert set((await apply(frontend, exported)).values()) == {"same"}


async def test_file_of_the_tutorial_declares_an_agent_and_its_server(frontend: RunningFrontend) -> None:
    page = (ROOT / "docs/tutorials/first-agent.md").read_text(encoding="utf-8")
    file = page.partition("<<END\n")[2].partition("\nEND\n")[0].replace("$HOME", "/home/one")
    status, answer = await frontend.call("POST", "/api/fleet?plan=true", file, Content_Type="application/yaml")
    assert status == 200, answer
    # The page shows exactly what the command prints.
    printed = [
        line
        for step in answer["steps"]
        for line in (f"+ {step['kind']} {step['name']}", *(f"    {change}" for change in step["changes"]))
    ]
    assert "\n".join([*printed, "Applied: 2 changes, 0 unchanged."]) in page


async def test_fleet_file_changes_entries_and_says_which_lines(frontend: RunningFrontend) -> None:
    await apply(frontend, FILE)
    clock = {"name": "clock", "model": "m", "temperature": 0.5, "mcp_stdio_servers": ["time"]}
    changed = {
        "agents": {"clock": clock | {"tool_rules": {"*": "deny", "time__*": "ask"}}},
        "tasks": [FILE["tasks"][0] | {"cron": "@daily"}],
        "mcp_servers": {"time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone=UTC"]}},
    }
    _, answer = await frontend.call("POST", "/api/fleet", changed)
    lines = {f"{step['kind']} {step['name']}": step["changes"] for step in answer["steps"]}
    assert lines["agent clock"] == ["+ temperature: 0.5"]
    assert lines["task greet"] == ["~ cron: 0 9 * * * -> 0 0 * * *"]
    assert any("TOKEN" in line for line in lines["MCP server time"])
    _, agent = await frontend.call("GET", "/api/agents/clock")
    assert list(agent["config"]["tool_rules"]) == ["*", "time__*"]
    again = changed | {"agents": {"clock": clock | {"tool_rules": {"time__*": "ask", "*": "deny"}}}}
    _, answer = await frontend.call("POST", "/api/fleet", again)
    (step,) = [step for step in answer["steps"] if step["kind"] == "agent"]
    assert (step["action"], step["changes"]) == ("change", ["~ tool_rules: in another order"])
    _, agent = await frontend.call("GET", "/api/agents/clock")
    assert list(agent["config"]["tool_rules"]) == ["time__*", "*"]


@pytest.mark.behaviour("MOD-13")
async def test_fleet_file_with_one_wrong_entry_changes_nothing_and_names_entry_and_field(
    frontend: RunningFrontend,
) -> None:
    secret = {"name": "s", "command": "x", "env": {"TOKEN": "in-clear-4711"}}
    for section, entry, code, words in (
        ("agents", {"name": "bad", "model": "m", "max_iterations": 0}, "bad_fleet_file", ("bad", "max_iterations")),
        ("agents", {"name": "bad", "model": "m", "colour": "red"}, "bad_fleet_file", ("bad", "colour")),
        ("agents", {"name": "bad", "model": ""}, "bad_agent", ("agents: bad: model",)),
        ("agents", {"name": "b:d", "model": "m"}, "bad_agent_name", ("agents: b:d",)),
        ("agents", {"name": "m", "model": "m"}, "name_of_model", ("agents: m",)),
        (
            "agents",
            {"name": "bad", "model": "m", "mcp_stdio_servers": ["no"]},
            "mcp_server_not_found",
            ("agents: bad",),
        ),
        ("tasks", {"name": "bad", "model": "none", "prompt": "x"}, "model_not_found", ("tasks: bad",)),
        ("tasks", {"name": "bad", "model": "m", "prompt": "{{"}, "bad_template", ("tasks: bad",)),
        ("tasks", {"name": "bad", "model": "m"}, "bad_fleet_file", ("tasks: bad: prompt",)),
        ("mcp_servers", secret, "secret_in_clear", ("mcp_servers: s", "TOKEN")),
        ("mcp_servers", {"name": "s", "command": "x", "args": "y"}, "bad_fleet_file", ("mcp_servers: s: args",)),
    ):
        file = FILE | {section: [*FILE[section], entry]}
        status, answer = await frontend.call("POST", "/api/fleet", file)
        error = answer["error"]
        assert 400 <= status < 500, answer
        assert error["code"] == code, answer
        assert all(word in error["message"] for word in words), error
        assert "in-clear-4711" not in str(answer)
    twice = {"agents": [FILE["agents"][0], FILE["agents"][0]]}
    assert_refused(await frontend.call("POST", "/api/fleet", twice), 400, "bad_fleet_file")
    assert await export(frontend) == {}


@pytest.mark.behaviour("MOD-31")
async def test_prune_removes_what_an_earlier_file_of_the_caller_created_and_nothing_else(
    frontend: RunningFrontend,
) -> None:
    await apply(frontend, FILE)
    await create(frontend, "by-hand")
    other = (await make_key(frontend, "other", scope="admin"))["key"]
    theirs = {"agents": [{"name": "clock", "model": "m"}], "tasks": FILE["tasks"]}
    assert await apply(frontend, theirs, key=other) == {"agent clock": "create", "task greet": "create"}
    # Another admin's file prunes what belongs to nobody, and its own agents and tasks.
    assert await apply(frontend, {"models": FILE["models"]}, "?prune=true&plan=true", other) == {
        "model m": "same",
        "MCP server time": "remove",
        "MCP server wiki": "remove",
        "agent clock": "remove",
        "task greet": "remove",
    }
    kept = FILE | {"agents": [], "tasks": []}
    pruned = await apply(frontend, kept, "?prune=true")
    assert {name: action for name, action in pruned.items() if action != "same"} == {
        "agent clock": "remove",
        "agent helper": "remove",
        "task greet": "remove",
    }
    assert await list_names(frontend, "/api/agents") == ["by-hand"]
    assert await list_names(frontend, "/api/agents", other) == ["clock"]
    assert await list_names(frontend, "/api/agent/tasks", other) == ["greet"]
    # What the other file has created is still known.
    pruned = await apply(frontend, kept, "?prune=true", other)
    assert (pruned["agent clock"], pruned["task greet"]) == ("remove", "remove")


@pytest.mark.behaviour("MOD-31")
async def test_shared_agent_of_another_admin_is_changed_in_place_and_stays_theirs(frontend: RunningFrontend) -> None:
    other = (await make_key(frontend, "other", scope="admin"))["key"]
    made = await create(frontend, "helper", key=other, shared=True)
    exported = await export(frontend)
    assert exported["agents"] == [{"name": "helper", "shared": True, "model": "m"}]
    assert await apply(frontend, exported) == {"agent helper": "same"}
    changed = {"agents": [{"name": "helper", "shared": True, "model": "m2"}]}
    assert await apply(frontend, changed) == {"agent helper": "change"}
    _, agent = await frontend.call("GET", "/api/agents/helper")
    assert (agent["owner"], agent["model"], agent["is_own"]) == (made["owner"], "m2", False)
    assert await apply(frontend, {}, "?prune=true") == {}


async def test_operator_applies_own_agents_and_tasks_but_neither_servers_nor_shared_agents(
    frontend: RunningFrontend,
) -> None:
    await apply(frontend, FILE)
    operator = (await make_key(frontend, "operator", scope="operate"))["key"]
    own = {"agents": [{"name": "clock", "model": "m", "mcp_stdio_servers": ["time"]}], "tasks": FILE["tasks"]}
    assert await apply(frontend, own, key=operator) == {"agent clock": "create", "task greet": "create"}
    exported = await export(frontend, operator)
    assert ("mcp_servers" in exported, [one["name"] for one in exported["agents"]]) == (False, ["clock"])
    # What the file leaves as it is needs no right.
    assert set((await apply(frontend, {"mcp_servers": FILE["mcp_servers"]}, key=operator)).values()) == {"same"}
    for refused in (
        {"mcp_servers": [{"name": "time", "command": "other"}]},
        {"agents": [{"name": "mine", "model": "m", "shared": True}]},
        {"agents": [{"name": "helper", "model": "other", "shared": True}]},
    ):
        status, answer = await frontend.call("POST", "/api/fleet", refused, key=operator)
        assert status == 403, answer
    assert_refused(await frontend.call("POST", "/api/fleet?prune=true", own, key=operator), 403, "admin_required")


async def test_fleet_file_with_an_agent_that_uses_a_private_address_is_refused(frontend: RunningFrontend) -> None:
    agent = {"name": "a", "model": "m", "mcp_servers": [{"url": "http://10.0.0.1/mcp"}]}
    assert_refused(await frontend.call("POST", "/api/fleet", {"agents": [agent]}), 422, "private_address")


async def test_pruned_agent_takes_its_turns_with_it(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    await apply(frontend, {"models": FILE["models"], "agents": [{"name": "clock", "model": "m"}]})
    run_id = (await chat(frontend, "hi", name="clock"))["run_id"]
    await worker.take(run_id)
    assert (await apply(frontend, {}, "?prune=true"))["agent clock"] == "remove"
    assert (await worker.deliver(run_id))["must_stop"] is True
