"""`corral mcp …`: declared MCP servers, and those of a model with their tools."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

AT = "2026-01-02T12:00:00Z"
PUT = "PUT /api/mcp/servers/time"
CANARY = "ghp_canary0123456789ABCDEF"


def a_server(**changes):
    made = {"name": "time", "description": "The time.", "transport": "stdio", "created_by": "ada", "updated_at": AT}
    config = {"transport": "stdio", "command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC"}}
    return made | {"config": config} | changes


def test_mcp_servers_are_listed_and_shown(corral, frontend):
    frontend.on("GET /api/mcp/servers", json_answer({"servers": [a_server()]}))
    frontend.on("GET /api/mcp/servers/time", json_answer(a_server()))
    lines = corral("mcp", "servers", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "TRANSPORT", "CHANGED", "DESCRIPTION"]
    assert lines[1].split()[:2] == ["time", "stdio"]
    assert json.loads(corral("mcp", "servers", "list", "--json").out)[0]["name"] == "time"
    shown = corral("mcp", "servers", "show", "time").out
    assert "uvx mcp-server-time" in shown
    assert "TZ=UTC" in shown


def test_mcp_servers_list_without_any_says_how_to_declare_one(corral, frontend):
    frontend.on("GET /api/mcp/servers", json_answer({"servers": []}))
    assert "corral mcp servers set NAME" in corral("mcp", "servers", "list").err


def test_mcp_servers_set_declares_a_program(corral, frontend):
    frontend.on(PUT, json_answer(a_server()))
    words = ["--command", "uvx", "--arg", "mcp-server-time", "--arg", "--utc", "--env", "KEY=cluster-secret:k"]
    outcome = corral("mcp", "servers", "set", "time", *words, "--cwd", "/srv", "--description", "The time.")
    assert outcome.code == 0, outcome
    (body,) = bodies(frontend, PUT)
    assert (body["transport"], body["command"], body["args"]) == ("stdio", "uvx", ["mcp-server-time", "--utc"])
    assert (body["env"], body["cwd"], body["description"]) == ({"KEY": "cluster-secret:k"}, "/srv", "The time.")
    assert "Declared MCP server time." in outcome.err


@pytest.mark.parametrize(("flag", "transport"), [([], "http"), (["--sse"], "sse")])
def test_mcp_servers_set_declares_an_address(corral, frontend, flag, transport):
    frontend.on(PUT, json_answer(a_server()))
    words = ["--address", "https://tools.example/mcp", "--header", "Authorization=Bearer cluster-secret:t", *flag]
    assert corral("mcp", "servers", "set", "time", *words).code == 0
    (body,) = bodies(frontend, PUT)
    assert (body["transport"], body["url"]) == (transport, "https://tools.example/mcp")
    assert body["headers"] == {"Authorization": "Bearer cluster-secret:t"}


@pytest.mark.parametrize("is_piped", [True, False])
def test_mcp_servers_set_reads_a_file_of_claude_desktop(corral, frontend, tmp_path, is_piped):
    text = json.dumps(
        {
            "mcpServers": {
                "time": {"command": "uvx", "args": ["mcp-server-time"]},
                "docs": {"url": "https://tools.example/mcp", "type": "sse"},
            }
        }
    )
    file = tmp_path / "claude.json"
    file.write_text(text)
    for name in ("time", "docs"):
        frontend.on(f"PUT /api/mcp/servers/{name}", json_answer(a_server(name=name)))
    outcome = corral("mcp", "servers", "set", "-f", "-" if is_piped else str(file), typed=text)
    assert outcome.code == 0, outcome
    assert bodies(frontend, PUT)[0]["command"] == "uvx"
    assert bodies(frontend, "PUT /api/mcp/servers/docs")[0]["transport"] == "sse"
    assert corral("mcp", "servers", "set", "docs", "-f", str(file)).code == 0
    assert len(bodies(frontend, PUT)) == 1
    refused = corral("mcp", "servers", "set", "nope", "-f", str(file))
    assert (refused.code, "docs, time" in refused.err) == (1, True)


def test_mcp_servers_set_refuses_a_secret_in_clear_without_repeating_it(corral, frontend, tmp_path):
    file = tmp_path / "claude.json"
    file.write_text(json.dumps({"mcpServers": {"time": {"command": "uvx", "env": {"API_KEY": CANARY}}}}))
    outcome = corral("mcp", "servers", "set", "-f", str(file))
    assert outcome.code == 1
    assert "corral secrets set --cluster" in outcome.err
    assert CANARY not in outcome.out + outcome.err
    assert CANARY not in corral("mcp", "servers", "set", "time", "--command", "c", "--env", CANARY).err
    assert not frontend.seen


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["time"],
        ["time", "--command", "c", "--address", "https://a.example"],
        ["time", "--address", "https://a.example", "--arg", "x"],
        ["time", "--command", "c", "--header", "A=b"],
        ["time", "--command", "c", "--sse"],
        ["time", "--command", "c", "-f", "x"],
    ],
)
def test_mcp_servers_set_refuses_options_that_contradict_each_other(corral, frontend, words):
    assert corral("mcp", "servers", "set", *words).code == 2
    assert not frontend.seen


def test_mcp_servers_delete_says_so_and_passes_a_refusal_on(corral, frontend):
    frontend.on("DELETE /api/mcp/servers/time", json_answer({}, status=204))
    assert corral("mcp", "servers", "delete", "time").err == "Deleted MCP server time.\n"
    frontend.on("DELETE /api/mcp/servers/gone", refusal(404, "mcp_server_not_found", "There is none."))
    assert corral("mcp", "servers", "delete", "gone").code == 1


def test_mcp_tools_lists_tools_and_the_errors_of_servers(corral, frontend):
    tool = {"name": "time__now", "tool": "now", "description": "Return\nthe time.", "input_schema": {}}
    shared: dict[str, list[str]] = {"prompts": [], "resources": []}
    answer = {
        "model": "chat",
        "servers": [
            {"name": "time", "type": "stdio", "tools": ["time__now"], "tool_details": [tool], **shared},
            {"name": "docs", "type": "remote", "tools": [], "error": "It cannot be reached.", **shared},
            {"name": "none", "type": "remote", "tools": [], **shared},
        ],
    }
    frontend.on("GET /v1/mcp/servers/chat", json_answer(answer))
    lines = corral("mcp", "tools", "chat").out.splitlines()
    assert lines[0].split() == ["SERVER", "TYPE", "TOOL", "DESCRIPTION"]
    assert lines[1].split() == ["time", "stdio", "time__now", "Return", "the", "time."]
    assert lines[2].split()[:3] == ["docs", "remote", "error"]
    assert "It cannot be reached." in lines[2]
    assert "This server has no tools." in lines[3]
    assert json.loads(corral("mcp", "tools", "chat", "--server", "time", "--json").out)["model"] == "chat"
    assert frontend.seen[-1].query == {"server": "time"}


def test_mcp_tools_of_a_model_without_servers_says_where_to_name_some(corral, frontend):
    frontend.on("GET /v1/mcp/servers/chat", json_answer({"model": "chat", "servers": []}))
    assert "`mcp`" in corral("mcp", "tools", "chat").err
