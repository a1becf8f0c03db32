"""Renders `mcp-tools.md`: the MCP tools with their arguments, and the routes that are none, with the reason."""

from __future__ import annotations

from collections import defaultdict

from corral.api.application import create_app
from corral.api.metrics import FrontendMetrics
from corral.domain.access import Scope
from corral.mcp_server.catalog import ApiTool, build_catalog
from corral.mcp_server.tool_spec import ToolEffect
from corral.mcp_server.tool_table import EXCLUDED
from tools.markdown import format_code, format_page, format_table

_INTRODUCTION = """\
The tools that `corral mcp-server` and `/mcp` of a frontend offer to MCP clients.
[Let an assistant run the cluster by MCP](../how-to/mcp-server.md) says how to connect one.

Each tool calls one route of the [HTTP API](api.md) with the caller's key. A caller sees the tools that their scope
covers. An argument in **bold** is required. *Changes* means that another tool undoes it; *destroys* means that it ends
or replaces something. With `--read-only` or the setting `mcp_read_only` there are only the tools that read."""
_EFFECTS = {ToolEffect.READ: "reads", ToolEffect.CHANGE: "changes", ToolEffect.DESTROY: "destroys"}
_SCOPES = {Scope.ADMIN: "admin key", Scope.OPERATE: "key that may operate", Scope.INFER: "any key"}


def render() -> str:
    catalog = build_catalog(create_app(None, FrontendMetrics()).openapi())
    head = ["tool", "what it does", "arguments", "effect", "who", "route"]
    return format_page(
        "MCP tools",
        _INTRODUCTION,
        format_table(head, [_row(tool) for tool in catalog]),
        "## Routes that are no tools",
        format_table(["why", "routes"], _excluded()),
    )


def _row(tool: ApiTool) -> tuple[str, ...]:
    arguments = [
        f"**{format_code(argument.name)}**" if argument.is_required else format_code(argument.name)
        for argument in tool.arguments
    ]
    effect = _EFFECTS[tool.spec.effect]
    return (
        format_code(tool.name),
        tool.description,
        ", ".join(arguments) or "-",
        f"{effect}, may be repeated" if tool.spec.is_idempotent else effect,
        _SCOPES[tool.spec.scope],
        format_code(tool.spec.route),
    )


def _excluded() -> list[tuple[str, str]]:
    routes: dict[str, list[str]] = defaultdict(list)
    for route, reason in EXCLUDED.items():
        routes[reason].append(format_code(route))
    return [(reason, ", ".join(found)) for reason, found in routes.items()]
