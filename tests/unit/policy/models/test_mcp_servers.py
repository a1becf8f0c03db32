"""The MCP servers of a model: the forms that are read, what is refused and how, and what only admins may add."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from corral.domain.agent import DeclaredMcpServer
from corral.domain.errors import InvalidRequest, NotAllowed
from corral.domain.model import ModelConfig
from corral.policy.models.configuration import apply_patch, compute_run_hash, diff, from_mapping, to_mapping
from corral.policy.models.mcp_servers import check_author, make_server_specs, read_servers_document

REMOTE = {"docs": {"url": "https://tools.example/mcp", "token": "cluster-secret:docs"}}
STDIO = {"files": {"command": "mcp-files", "args": ["/data", 3], "env": {"LEVEL": 2, "API_KEY": "cluster-secret:k"}}}


def model(mcp: Any = None, **more: Any) -> ModelConfig:
    return from_mapping({"name": "m", "backend": "fake"} | ({} if mcp is None else {"mcp": mcp}) | more)


@pytest.mark.behaviour("MCP-11")
@pytest.mark.parametrize("wrap", [lambda servers: servers, lambda servers: {"mcpServers": servers}])
@pytest.mark.parametrize("write", [lambda servers: servers, json.dumps])
def test_servers_are_read_from_mappings_and_embedded_texts_alike(wrap: Any, write: Any) -> None:
    config = model({"remote": write(wrap(REMOTE)), "stdio": write(wrap(STDIO)), "servers": ["time"]})
    (remote,), (program,) = config.mcp.remote, config.mcp.stdio
    assert (remote.name, remote.url, remote.token) == ("docs", "https://tools.example/mcp", "cluster-secret:docs")
    assert (program.command, program.args) == ("mcp-files", ("/data", "3"))
    assert program.env == {"LEVEL": "2", "API_KEY": "cluster-secret:k"}
    assert config.mcp.names == ("time", "docs", "files")
    assert from_mapping(json.loads(json.dumps(to_mapping(config)))) == config


@pytest.mark.parametrize("mcp", [["time", "files"], {"servers": ["time", "files"]}])
def test_list_of_names_refers_to_declared_servers(mcp: Any) -> None:
    config = model(mcp)
    assert config.mcp.declared == ("time", "files")
    assert to_mapping(config)["mcp"] == {"servers": ["time", "files"]}


@pytest.mark.behaviour("MCP-11")
def test_servers_and_iterations_do_not_change_what_an_engine_notices() -> None:
    plain, more = model(), model({"stdio": STDIO, "remote": REMOTE}, agent={"max_iterations": 3})
    assert compute_run_hash(plain) == compute_run_hash(more)
    assert more.tool_loop.max_iterations == 3
    assert "+ agent.max_iterations: 3" in diff(plain, more)
    assert apply_patch(more, {"mcp": None, "agent": None}) == plain
    patched = apply_patch(more, {"mcp": {"stdio": {"files": {"args": ["/other"]}}}})
    assert patched.mcp.stdio[0].args == ("/other",)
    assert patched.mcp.remote == more.mcp.remote


@pytest.mark.behaviour("MCP-14")
@pytest.mark.parametrize(
    ("mcp", "code"),
    [
        ({"remote": {"x": {"url": "https://a.example", "token": "canary-1"}}}, "secret_in_clear"),
        ({"remote": {"x": {"url": "https://a.example", "headers": {"Authorization": "canary-1"}}}}, "secret_in_clear"),
        ({"remote": {"x": {"url": "https://a.example/?token=canary-1"}}}, "secret_in_address"),
        ({"remote": {"x": {"url": "https://u:canary-1@a.example"}}}, "secret_in_address"),
        ({"stdio": {"x": {"command": "c", "env": {"API_KEY": "canary-1"}}}}, "secret_in_clear"),
        ({"remote": {"x": {"url": "https://a.example", "token": "secret:mine"}}}, "bad_secret_reference"),
        ({"stdio": {"x": {"command": "c", "env": {"API_KEY": "secret:mine"}}}}, "bad_secret_reference"),
    ],
)
def test_secret_in_clear_or_of_one_person_is_refused_without_being_repeated(mcp: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        model(mcp)
    assert caught.value.slug == code
    assert caught.value.hint
    assert "canary-1" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("mcp", "problem"),
    [
        ({"remotes": {}}, "Did you mean remote"),
        ({"remote": "{"}, "neither JSON nor YAML"),
        ({"remote": {"x": {"command": "c"}}}, "'command' is not a setting"),
        ({"remote": {"x": {}}}, "url is missing"),
        ({"remote": {"x": {"url": "ftp://a.example"}}}, "not an http(s) address"),
        ({"remote": {"x": {"url": "https://a.example", "transport": "carrier"}}}, "none of its words"),
        ({"stdio": {"x": {}}}, "command is missing"),
        ({"stdio": {"x": {"command": "c", "args": [{}]}}}, "args is not a list"),
        ({"stdio": {"x": {"command": "c", "env": {"A": "1\n2"}}}}, "A is not one plain value"),
        ({"stdio": {"a__b": {"command": "c"}}}, "is not a name for an MCP server"),
        ({"servers": ["x"], "stdio": {"x": {"command": "c"}}}, "'x' twice"),
        ({"servers": [f"s{n}" for n in range(51)]}, "more than 50"),
        ({"remote": {f"s{n}": {"url": "https://a.example"} for n in range(51)}}, "more than 50"),
        ({"remote": " " * 70_000}, "longer than 65536"),
    ],
)
def test_wrong_server_is_refused_with_its_place(mcp: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        model(mcp)
    assert problem in f"{caught.value.message} {caught.value.hint}"


PRIVILEGED = [
    {"stdio": {"x": {"command": "c"}}},
    {"remote": {"x": {"url": "http://10.0.0.7/mcp"}}},
    {"remote": {"x": {"url": "http://[::1]:9000/mcp"}}},
    {"remote": {"x": {"url": "https://a.example", "token": "cluster-secret:t"}}},
]


@pytest.mark.behaviour("MCP-11")
@pytest.mark.parametrize("mcp", PRIVILEGED)
def test_only_an_admin_may_add_a_program_a_private_address_or_a_secret(mcp: Any) -> None:
    config = model(mcp)
    check_author(None, config, is_admin=True)
    for previous in (None, model(), model({"stdio": {"x": {"command": "another"}}})):
        with pytest.raises(NotAllowed) as caught:
            check_author(previous, config, is_admin=False)
        assert caught.value.slug == "admin_required"
    # What an admin has put there may stay, and may go.
    check_author(config, replace(config, description="edited"), is_admin=False)
    check_author(config, model(), is_admin=False)


def test_operator_who_edits_models_may_add_a_declared_server_or_a_public_address() -> None:
    config = model({"servers": ["time"], "remote": {"x": {"url": "https://a.example", "headers": {"X-Team": "a"}}}})
    check_author(None, config, is_admin=False)


def test_specifications_hold_the_token_as_a_header_and_leave_out_deleted_servers() -> None:
    config = model({"servers": ["time", "gone"], "remote": REMOTE, "stdio": STDIO})
    specs = make_server_specs(config.mcp, {"time": DeclaredMcpServer(name="time", command="mcp-time")})
    assert list(specs) == ["time", "docs", "files"]
    assert specs["docs"]["headers"] == {"Authorization": "Bearer cluster-secret:docs"}
    assert all(spec["is_declared"] for spec in specs.values())


def test_document_of_claude_desktop_is_read_with_programs_and_addresses() -> None:
    found = read_servers_document({"mcpServers": REMOTE | STDIO}, "The file", "bad_mcp_server")
    assert [(server.name, server.transport) for server in found] == [("docs", "http"), ("files", "stdio")]
    assert found[0].headers == {"Authorization": "Bearer cluster-secret:docs"}


def test_server_at_a_public_name_must_lead_to_public_addresses_and_one_in_a_private_network_need_not() -> None:
    config = model({"remote": REMOTE | {"near": {"url": "http://10.0.0.7/mcp"}}})
    specs = make_server_specs(config.mcp, {})
    assert {name: spec["is_public_only"] for name, spec in specs.items()} == {"docs": True, "near": False}
