"""Arguments become the request that a client of the API would send."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from starlette.routing import Match, Route

from corral.client.transport import ApiRequest
from corral.domain.errors import InvalidRequest
from corral.mcp_server.catalog import ApiTool, ArgumentSource, build_catalog
from corral.mcp_server.tool_spec import ToolSpec
from tests.api.operations import described, make_described_app

APP = make_described_app()
CATALOG = build_catalog(described())


def _get_tool(name: str) -> ApiTool:
    found = CATALOG.find_tool(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        (
            "list_nodes",
            {"status": "healthy"},
            ApiRequest(method="GET", path="/api/nodes", parameters={"status": "healthy"}),
        ),
        ("list_nodes", {"status": None}, ApiRequest(method="GET", path="/api/nodes")),
        ("drain_node", {"node": "a b"}, ApiRequest(method="POST", path="/api/nodes/a%20b/drain")),
        ("show_model", {"name": "org/model"}, ApiRequest(method="GET", path="/api/models/config/org%2Fmodel")),
        (
            "read_engine_log",
            {"node": "{key}", "key": "tiny#0", "lines": 5},
            ApiRequest(method="GET", path="/api/nodes/%7Bkey%7D/backend-logs/tiny%230", parameters={"lines": "5"}),
        ),
        (
            "load_model",
            {"name": "m", "plan": True, "count": 2, "nodes": None},
            ApiRequest(
                method="POST",
                path="/api/models/m/load",
                parameters={"plan": "true"},
                body={"count": 2, "nodes": None},
            ),
        ),
        ("load_model", {"name": "m"}, ApiRequest(method="POST", path="/api/models/m/load")),
        ("plan_load", {"model": "m"}, ApiRequest(method="POST", path="/api/plan", body={"model": "m"})),
        (
            "change_model",
            {"name": "m", "if_match": "3", "changes": {"threads": None}},
            ApiRequest(method="PATCH", path="/api/models/config/m", headers={"if-match": "3"}, body={"threads": None}),
        ),
        (
            "install_model",
            {"name": "smol", "options": {"name": "chat"}},
            ApiRequest(method="POST", path="/api/models/install/smol", body={"name": "chat"}),
        ),
    ],
)
def test_arguments_become_path_parameters_headers_and_body(
    name: str, arguments: dict[str, Any], expected: ApiRequest
) -> None:
    assert _get_tool(name).make_request(arguments) == expected


@pytest.mark.parametrize("value", ["..", ".", "", "a/../b", "../api/keys", "a//b", "/a"])
def test_argument_that_would_lead_to_another_route_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match="The argument name cannot be"):
        _get_tool("show_model").make_request({"name": value})


@pytest.mark.behaviour("MCP-30")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("show_task", {"task_id": "weather/webhook-secret"}),
        ("show_operation", {"operation_id": "events"}),
        ("show_operation", {"operation_id": "history"}),
        ("show_node", {"node": "scheduling"}),
        ("read_engine_log", {"node": "vm", "key": "tiny#0/stream"}),
        ("read_engine_log", {"node": "vm", "key": "a\nb/download"}),
        ("load_model", {"name": "delete"}),
        ("load_model", {"name": "delete/chat"}),
    ],
)
def test_arguments_that_lead_to_another_route_are_refused(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"arguments of {name} lead to another route"):
        _get_tool(name).make_request(arguments)


@pytest.mark.behaviour("MCP-30")
@pytest.mark.parametrize("tool", [tool for tool in CATALOG if "{" in tool.spec.route], ids=lambda tool: tool.name)
def test_tool_calls_its_own_route_or_none_whatever_is_in_its_path(tool: ApiTool) -> None:
    """The application itself says which route a path belongs to."""
    method, _, own = tool.spec.route.partition(" ")
    keys = [argument for argument in tool.arguments if argument.source is ArgumentSource.PATH]
    required: dict[str, Any] = {argument.name: {} for argument in tool.arguments if argument.is_required}
    words = sorted({word for route in APP.routes if isinstance(route, Route) for word in route.path.split("/")} - {""})
    called = 0
    for value in ("chat", "org/chat", *words, *(f"chat/{word}" for word in words), *(f"{word}/chat" for word in words)):
        try:
            request = tool.make_request(required | {key.name: value for key in keys})
        except InvalidRequest:
            continue
        path = unquote(request.path)
        scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
        found = next((route for route in APP.routes if route.matches(scope)[0] is Match.FULL), None)
        # Without a route it is 404.
        assert found is None or (isinstance(found, Route) and found.path_format == own), path
        called += found is not None
    assert called > len(words) // 2


def test_hidden_parameter_cannot_be_given() -> None:
    with pytest.raises(InvalidRequest, match="show_usage has no argument format") as caught:
        _get_tool("show_usage").make_request({"format": "csv"})
    assert caught.value.hint == "The tool has the arguments from, to, by."


def test_body_of_a_patch_has_no_defaults() -> None:
    """A model that fills in the defaults of fields would change what it was to leave alone."""
    (tool,) = build_catalog(described(), [ToolSpec(name="change_key", route="PATCH /api/keys/{key_id}")])
    schema = tool.make_input_schema()["properties"]
    assert set(schema) == {"key_id", "name", "scope", "models", "limits", "expires_in_s"}
    assert not any("default" in field for field in schema.values())


def test_schema_that_contains_itself_ends() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Tree"}, "title": {"title": "x"}}}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}
    document = {
        "paths": {"/t": {"post": {"description": "Grow.", "requestBody": body}}},
        "components": {"schemas": {"Tree": tree}},
    }
    (tool,) = build_catalog(document, [ToolSpec(name="grow_tree", route="POST /t")])
    assert tool.make_input_schema()["properties"] == {"child": {}, "title": {}}
