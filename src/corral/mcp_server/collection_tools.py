"""The routes about collections that are MCP tools, and why the others are none; a part of `tool_table.py`."""

from __future__ import annotations

from collections.abc import Mapping

from corral.domain.access import Scope
from corral.mcp_server.tool_spec import ToolEffect, ToolSpec

COLLECTION_TOOLS = (
    ToolSpec(
        name="list_collections",
        route="GET /api/agents/collections",
        scope=Scope.INFER,
        then="search_collection finds text in one of them.",
    ),
    ToolSpec(name="search_collection", route="GET /api/agents/collections/{name}/search", scope=Scope.INFER),
    ToolSpec(
        name="list_collection_entries",
        route="GET /api/agents/collections/{name}/entries",
        scope=Scope.INFER,
        then="read_collection_entry has the text of one of them.",
    ),
    ToolSpec(
        name="read_collection_entry", route="GET /api/agents/collections/{name}/entries/{entry}", scope=Scope.INFER
    ),
    ToolSpec(name="list_collection_sources", route="GET /api/agents/collections/{name}/sources", scope=Scope.INFER),
    ToolSpec(
        name="add_collection_source",
        route="POST /api/agents/collections/{name}/sources",
        effect=ToolEffect.CHANGE,
        is_idempotent=True,
        is_open_world=True,
        scope=Scope.INFER,
    ),
)

COLLECTION_EXCLUDED_BY_REASON: Mapping[str, tuple[str, ...]] = {
    "People decide what is in their collections; a form with a file is no call of a tool.": (
        "POST /api/agents/collections",
        "GET /api/agents/collections/{name}",
        "DELETE /api/agents/collections/{name}",
        "POST /api/agents/collections/{name}/reset",
        "POST /api/agents/collections/{name}/upload",
        "POST /api/agents/collections/{name}/search",
        "GET /api/agents/collections/{name}/entries-raw/{entry}",
        "DELETE /api/agents/collections/{name}/entry/delete",
        "DELETE /api/agents/collections/{name}/sources",
    ),
}
