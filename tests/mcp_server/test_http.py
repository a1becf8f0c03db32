"""`/mcp` of a frontend, with the official client."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from mcp import types
from mcp.shared.exceptions import MCPError

from corral.domain.access import Scope
from corral.mcp_server.tool_spec import ToolEffect
from corral.mcp_server.tool_table import TOOLS
from corral.policy.serving.cors import CorsPolicy
from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.api.test_key_sessions import show
from tests.api.test_sessions import secret_of
from tests.mcp_server.clients import MODES, call, connect, fail, list_names
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node

READERS = {spec.name for spec in TOOLS if spec.effect is ToolEffect.READ}


def is_draining(node: Any) -> bool:
    return any(one["holds"] for one in node["conditions"] if one["name"] == "draining")


@pytest.mark.behaviour("MCP-1")
@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_and_a_read_tool_returns_what_its_route_returns(
    frontend: RunningFrontend, mode: str
) -> None:
    await join_node(frontend, "mini")
    async with connect(frontend, mode=mode) as client:
        assert await list_names(client) == {spec.name for spec in TOOLS}
        assert await call(client, "show_node", node="mini") == (await frontend.call("GET", "/api/nodes/mini"))[1]
        listed = await client.call_tool("list_nodes", {"status": "pending"})
    assert isinstance(listed, types.CallToolResult)
    (text,) = listed.content
    assert isinstance(text, types.TextContent)
    # Structured content of before 2026 is an object, and the text is the API's own.
    assert listed.structured_content == {"result": json.loads(text.text)}


@pytest.mark.behaviour("MCP-1")
async def test_write_tool_changes_the_cluster_and_is_in_the_audit_in_the_name_of_the_key(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "mini")
    key = (await make_key(frontend, name="assistant", scope="operate"))["key"]
    async with connect(frontend, key) as client:
        assert (await call(client, "drain_node", node="mini"))["id"] == node.id
        await call(client, "set_node_labels", node="mini", labels={"zone": "b"})
        assert await call(client, "remove_node_label", node="mini", key="zone") == {}
    assert is_draining(await node.read_as_admin())
    _, audit = await frontend.call("GET", "/api/audit?limit=3")
    entries = [(entry["actor"], entry["action"]) for entry in audit["entries"]]
    assert entries == [("assistant", "node.labels"), ("assistant", "node.labels"), ("assistant", "node.drain")]


@pytest.mark.behaviour("MCP-2")
@pytest.mark.parametrize("scope", list(Scope))
async def test_key_sees_the_tools_that_its_scope_covers(frontend: RunningFrontend, scope: Scope) -> None:
    key = (await make_key(frontend, scope=scope))["key"]
    async with connect(frontend, key) as client:
        assert await list_names(client) == {spec.name for spec in TOOLS if scope.covers(spec.scope)}
        assert (await call(client, "show_caller"))["scope"] == scope


@pytest.mark.behaviour("MCP-2")
async def test_call_that_the_scope_forbids_fails_with_the_words_of_the_api(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "mini")
    key = (await make_key(frontend, name="shop", scope="infer"))["key"]
    async with connect(frontend, key) as client:
        error = await fail(client, "drain_node", node="mini")
    status, answer = await frontend.call("POST", "/api/nodes/mini/drain", key=key)
    assert status == 403
    assert {name: error[name] for name in ("code", "message", "hint")} == {
        name: answer["error"][name] for name in ("code", "message", "hint")
    }
    assert not is_draining(await node.read_as_admin())


@pytest.mark.behaviour("MCP-3")
async def test_read_only_frontend_lists_and_runs_only_tools_that_read(database_url: str) -> None:
    async with running_frontend(database_url, mcp_read_only=True) as frontend:
        node = await join_node(frontend, "mini")
        async with connect(frontend) as client:
            assert await list_names(client) == READERS
            assert (await fail(client, "drain_node", node="mini"))["code"] == "mcp_read_only"
            assert (await call(client, "show_node", node="mini"))["name"] == "mini"
        assert not is_draining(await node.read_as_admin())


@pytest.mark.behaviour("MCP-3")
async def test_tools_say_whether_they_read_destroy_or_may_be_repeated(frontend: RunningFrontend) -> None:
    async with connect(frontend) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == READERS
    shown = {
        name: (hint.read_only_hint, hint.destructive_hint, hint.idempotent_hint, hint.open_world_hint)
        for name, hint in hints.items()
        if hint is not None
    }
    assert shown["list_nodes"] == (True, False, True, False)
    assert shown["drain_node"] == (False, False, True, False)
    assert shown["remove_node"] == (False, True, True, False)
    assert shown["install_backend"] == (False, False, True, True)
    assert shown["load_model"] == (False, False, False, False)


@pytest.mark.behaviour("MCP-4")
@pytest.mark.parametrize(
    ("tool", "arguments", "code", "named"),
    [
        ("show_node", {"name": "mini"}, "unknown_argument", "name"),
        ("show_node", {}, "missing_argument", "node"),
        ("show_node", {"node": None}, "missing_argument", "node"),
        ("show_node", {"node": ".."}, "invalid_argument", "node"),
        ("show_node", {"node": ""}, "invalid_argument", "node"),
        ("show_node", {"node": ["mini"]}, "invalid_argument", "node"),
        ("show_node", {"node": "gone"}, "node_not_found", "gone"),
        ("set_rule", {"name": "m", "rule": [1]}, "invalid_argument", "rule"),
        ("change_model", {"name": "m", "if_match": "3\n", "changes": {}}, "invalid_argument", "if_match"),
        ("list_audit_entries", {"limit": "many"}, "invalid_request", "limit"),
        ("load_model", {"name": "m", "count": 0}, "invalid_request", "count"),
        ("save_model", {"name": "m", "configuration": {"bakend": "b"}}, "bad_model", "bakend"),
    ],
)
async def test_bad_argument_is_an_error_of_the_tool_that_names_it(
    frontend: RunningFrontend, tool: str, arguments: dict[str, Any], code: str, named: str
) -> None:
    async with connect(frontend) as client:
        error = await fail(client, tool, **arguments)
    assert error["code"] == code
    assert named in error["message"]


@pytest.mark.behaviour("MCP-4")
@pytest.mark.parametrize("mode", MODES)
async def test_unknown_tool_is_an_error_of_the_protocol(frontend: RunningFrontend, mode: str) -> None:
    async with connect(frontend, mode=mode) as client:
        with pytest.raises(MCPError, match="There is no tool make_coffee") as caught:
            await client.call_tool("make_coffee", {})
    assert caught.value.code == types.INVALID_PARAMS


@pytest.mark.behaviour("MCP-5")
async def test_large_result_is_cut_with_a_sentence_that_says_how_to_get_less(frontend: RunningFrontend) -> None:
    for number in range(20):
        config = {"backend": "b", "description": "ü" * 4000}
        status, answer = await frontend.call("PUT", f"/api/models/config/m{number}", config)
        assert status == 200, answer
    async with connect(frontend) as client:
        result = await client.call_tool("list_models", {})
        assert (await call(client, "show_model", name="m1"))["name"] == "m1"
    assert isinstance(result, types.CallToolResult)
    assert (result.is_error, result.structured_content) == (False, None)
    shown, sentence = [part.text for part in result.content if isinstance(part, types.TextContent)]
    assert 199_999 <= len(shown.encode()) <= 200_000
    assert sentence.startswith("Cut: these are the first 200000 of 3")
    assert sentence.endswith("Use a tool that shows one of them.")


@pytest.mark.behaviour("MCP-6")
@pytest.mark.parametrize("mode", [*MODES, "auto"])
async def test_requests_of_one_client_may_reach_different_frontends(database_url: str, mode: str) -> None:
    async with (
        running_frontend(database_url) as first,
        running_frontend(database_url) as second,
        connect(first, mode=mode, others=[second]) as client,
    ):
        await join_node(first, "mini")
        answered = {(await call(client, "show_cluster"))["answered_by"] for _ in range(4)}
        await call(client, "drain_node", node="mini")
        assert is_draining(await call(client, "show_node", node="mini"))
        assert "drain_node" in await list_names(client)
        assert answered == {first.core.api_deps.frontend_id, second.core.api_deps.frontend_id}


async def post(
    frontend: RunningFrontend, *, key: str | None = ADMIN_KEY, method: str = "POST", **headers: str
) -> tuple[int, dict[str, str], Any]:
    """Send `tools/list` by hand; return status, headers and JSON."""
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with frontend.http.request(method, f"{frontend.url}/mcp", json=body, headers=sent) as response:
        return response.status, dict(response.headers), await response.json()


@pytest.mark.behaviour("MCP-7")
@pytest.mark.parametrize("key", [None, "ck_nobody-made-this-one-0123456789abcdefghij"])
async def test_request_without_a_valid_key_is_401_and_names_the_scheme(
    frontend: RunningFrontend, key: str | None
) -> None:
    status, headers, answer = await post(frontend, key=key)
    assert status == 401
    assert headers["WWW-Authenticate"] == "Bearer"
    assert_envelope(answer, code="not_authenticated")


@pytest.mark.behaviour("MCP-7")
async def test_session_of_a_browser_needs_the_header_of_our_own_page(frontend: RunningFrontend) -> None:
    cookie = f"corral_session={secret_of((await show(frontend, {'key': ADMIN_KEY}))[2])}"
    status, _, answer = await post(frontend, key=None, Cookie=cookie, X_Corral_Request="1")
    assert (status, len(answer["result"]["tools"])) == (200, len(TOOLS))
    status, _, answer = await post(frontend, key=None, Cookie=cookie)
    assert status == 403
    assert_envelope(answer, code="own_page_header_missing")


@pytest.mark.behaviour("MCP-7")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_methods_of_streams_and_sessions_are_405(frontend: RunningFrontend, method: str) -> None:
    status, headers, answer = await post(frontend, method=method)
    assert (status, headers["Allow"]) == (405, "POST")
    assert_envelope(answer, code="method_not_allowed")


@pytest.mark.behaviour("MCP-7")
async def test_body_over_the_limit_is_413(frontend: RunningFrontend) -> None:
    body = io.BytesIO(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * 1024**2}).encode())
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    async with frontend.http.post(f"{frontend.url}/mcp", data=body, headers=headers) as response:
        assert response.status == 413
        assert_envelope(await response.json(), code="body_too_large")


@pytest.mark.behaviour("MCP-7")
async def test_client_without_the_library_gets_one_json_document(frontend: RunningFrontend) -> None:
    status, headers, answer = await post(frontend, Accept="application/json")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "application/json")
    assert len(answer["result"]["tools"]) == len(TOOLS)


@pytest.mark.behaviour("MCP-8")
async def test_page_of_a_foreign_origin_is_refused(database_url: str) -> None:
    async with running_frontend(database_url) as frontend:
        port = frontend.url.rpartition(":")[2]
        # The last one is a name that was made to point here: it stands in `Host`, too.
        for origin, host in (
            ("https://evil.example", f"127.0.0.1:{port}"),
            ("null", f"127.0.0.1:{port}"),
            (f"http://127.0.0.1:{int(port) ^ 1}", f"127.0.0.1:{port}"),
            (f"https://127.0.0.1:{port}", f"127.0.0.1:{port}"),
            ("http://[::1", f"127.0.0.1:{port}"),
            (f"http://evil.example:{port}", f"evil.example:{port}"),
        ):
            status, _, answer = await post(frontend, Origin=origin, Host=host)
            assert status == 403, origin
            assert_envelope(answer, code="origin_not_allowed")


@pytest.mark.behaviour("MCP-8")
async def test_own_and_allowed_origins_are_served(database_url: str) -> None:
    cors = CorsPolicy(("https://chat.example.com", "*"))
    async with running_frontend(database_url, public_url="https://corral.example.com", cors_policy=cors) as frontend:
        port = frontend.url.rpartition(":")[2]
        for origin, host in (
            (frontend.url, f"127.0.0.1:{port}"),
            (f"http://localhost:{port}", f"localhost:{port}"),
            ("https://corral.example.com", "corral.example.com"),
            ("https://corral.example.com:443", "10.0.0.1"),
            ("https://chat.example.com", f"127.0.0.1:{port}"),
        ):
            status, _, answer = await post(frontend, Origin=origin, Host=host)
            assert status == 200, (origin, answer)
        # `*` is about models; the tools change the cluster.
        assert (await post(frontend, Origin="https://other.example"))[0] == 403


async def test_error_of_a_tool_has_the_id_of_the_request_that_called_it(frontend: RunningFrontend) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "show_node", "arguments": {"node": "gone"}},
    }
    status, answer = await frontend.call("POST", "/mcp", body, X_Request_Id="mine-1", Accept="application/json")
    assert status == 200
    assert answer["result"]["structuredContent"]["error"]["details"]["request_id"] == "mine-1"
