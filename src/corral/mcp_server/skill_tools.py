"""The routes about skills that are MCP tools, and why the others are none; a part of `tool_table.py`."""

from __future__ import annotations

from collections.abc import Mapping

from corral.domain.access import Scope
from corral.mcp_server.tool_spec import ToolEffect, ToolSpec

SKILL_TOOLS = (
    ToolSpec(
        name="list_skills", route="GET /api/agents/skills", scope=Scope.INFER, then="show_skill has the text of one."
    ),
    ToolSpec(name="search_skills", route="GET /api/agents/skills/search", scope=Scope.INFER),
    ToolSpec(name="show_skill", route="GET /api/agents/skills/{name}", scope=Scope.INFER),
    ToolSpec(
        name="list_skill_repos",
        route="GET /api/agents/git-repos",
        scope=Scope.INFER,
        then="sync_skill_repo brings the skills of one up to date.",
    ),
    ToolSpec(
        name="sync_skill_repo",
        route="POST /api/agents/git-repos/{repo_id}/sync",
        effect=ToolEffect.CHANGE,
        is_open_world=True,
        scope=Scope.INFER,
        then="show_run has the state of the run in run_id.",
    ),
)
SKILL_EXCLUDED_BY_REASON: Mapping[str, tuple[str, ...]] = {
    "People write the instructions that agents follow, and choose where they come from.": (
        "POST /api/agents/skills",
        "PUT /api/agents/skills/{name}",
        "DELETE /api/agents/skills/{name}",
        "POST /api/agents/git-repos",
        "PUT /api/agents/git-repos/{repo_id}",
        "DELETE /api/agents/git-repos/{repo_id}",
        "POST /api/agents/git-repos/{repo_id}/toggle",
    ),
    "Bytes of files and archives, which do not fit into the arguments or the result of a tool.": (
        "GET /api/agents/skills/export/{name}",
        "POST /api/agents/skills/import",
        "POST /api/agents/skills/{name}/resources",
        "GET /api/agents/skills/{name}/resources/{path}",
        "PUT /api/agents/skills/{name}/resources/{path}",
        "DELETE /api/agents/skills/{name}/resources/{path}",
    ),
    "Limits for people who write skills.": ("GET /api/agents/skills/config",),
    "show_skill and list_skill_repos show the same.": (
        "GET /api/agents/skills/{name}/resources",
        "GET /api/agents/git-repos/{repo_id}",
    ),
}
