"""Every route is a tool or has a reason why not, and tools are what their routes are."""

from __future__ import annotations

import re
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Route

from corral.api.application import create_app
from corral.api.deps import AdminIn, AnyCallerIn, OperatorIn
from corral.api.metrics import FrontendMetrics
from corral.domain.access import Scope
from corral.mcp_server.catalog import ArgumentSource, build_catalog
from corral.mcp_server.tool_spec import ToolEffect
from corral.mcp_server.tool_table import EXCLUDED, TOOLS
from tests.api.operations import described, make_described_app

APP = make_described_app()
CATALOG = build_catalog(described())


def _list_routes(app: FastAPI) -> set[str]:
    return {
        f"{method} {route.path_format}"
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }


def test_every_route_is_a_tool_or_has_a_reason() -> None:
    tools = {spec.route for spec in TOOLS}
    routes = _list_routes(APP)
    assert all(isinstance(route, Route) for route in APP.routes)
    assert routes - tools - set(EXCLUDED) == set(), "a tool, or a reason in EXCLUDED, is missing"
    assert tools - routes == set(), "these tools name a route that is gone"
    assert set(EXCLUDED) - routes == set(), "these reasons name a route that is gone"
    assert tools & set(EXCLUDED) == set()


def test_route_without_an_entry_is_noticed() -> None:
    app = create_app(None, FrontendMetrics())

    @app.get("/api/new")
    async def _new() -> None: ...

    assert _list_routes(app) - {spec.route for spec in TOOLS} - set(EXCLUDED) == {"GET /api/new"}


def test_every_tool_and_every_reason_is_written_once_and_as_a_sentence() -> None:
    names = [spec.name for spec in TOOLS]
    assert len(names) == len(set(names))
    assert len(TOOLS) == len({spec.route for spec in TOOLS})
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", name) for name in names)
    assert all(re.fullmatch(r"[A-Za-z].*\.", reason) for reason in EXCLUDED.values())
    assert all(not spec.then or spec.then.endswith(".") for spec in TOOLS)


def test_every_tool_that_a_description_names_exists() -> None:
    names = {spec.name for spec in TOOLS}
    verbs = "|".join(sorted({name.partition("_")[0] for name in names}))
    texts = [spec.then for spec in TOOLS] + list(EXCLUDED.values())
    named = {found for text in texts for found in re.findall(rf"\b(?:{verbs})(?:_[a-z]+)+\b", text)}
    assert named - names == set()


def _has_dependency(dependant: Dependant, call: Any) -> bool:
    return dependant.call is call or any(_has_dependency(below, call) for below in dependant.dependencies)


def test_scope_of_every_tool_is_that_of_its_route() -> None:
    required: dict[str, Scope] = {}
    for annotation, scope in ((AnyCallerIn, Scope.INFER), (OperatorIn, Scope.OPERATE), (AdminIn, Scope.ADMIN)):
        call = get_args(annotation)[1].dependency
        for route in APP.routes:
            if isinstance(route, APIRoute) and _has_dependency(route.dependant, call):
                required |= {f"{method} {route.path_format}": scope for method in route.methods or ()}
    assert {spec.name: spec.scope for spec in TOOLS} == {spec.name: required.get(spec.route) for spec in TOOLS}


def test_tool_that_only_reads_cannot_reach_a_route_that_writes() -> None:
    """A text in a path might lead to another route of the same method, so reading by POST has no text in its path."""
    for spec in TOOLS:
        if spec.effect is ToolEffect.READ:
            assert spec.route.startswith("GET ") or "{" not in spec.route, spec.name
            assert spec.route.startswith("GET ") or spec.route in ("POST /api/explain", "POST /api/plan"), spec.name


def test_every_tool_is_made_from_the_openapi_document() -> None:
    assert [tool.name for tool in CATALOG] == [spec.name for spec in TOOLS]
    for tool in CATALOG:
        assert tool.description.endswith("."), tool.name
        assert len(tool.description) < 400, tool.name
        names = [argument.name for argument in tool.arguments]
        assert len(names) == len(set(names)), tool.name
        in_path = {argument.key for argument in tool.arguments if argument.source is ArgumentSource.PATH}
        assert in_path == set(re.findall(r"{(\w+)}", tool.spec.route)), tool.name
        assert "$ref" not in str(tool.make_input_schema()), tool.name


def test_hidden_arguments_and_notes_belong_to_their_routes() -> None:
    document = described()
    for tool in CATALOG:
        method, _, path = tool.spec.route.partition(" ")
        operation = document["paths"][path][method.lower()]
        parameters = {parameter["name"].replace("-", "_") for parameter in operation.get("parameters", ())}
        assert set(tool.spec.hidden) <= parameters, tool.name
        assert set(tool.spec.notes) <= {argument.name for argument in tool.arguments}, tool.name


def test_route_that_the_document_does_not_have_gives_no_tool() -> None:
    document = described()
    fewer = document | {"paths": {path: one for path, one in document["paths"].items() if path != "/api/live"}}
    assert {spec.name for spec in TOOLS} - {tool.name for tool in build_catalog(fewer)} == {"show_live_view"}
