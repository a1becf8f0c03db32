"""Tools by which a model reads the resources and prompts of an MCP server.

MCP leaves both to people, who are not there during a run. The tools only read, so a call may be repeated. Their names
have no `__`, which every name of a server's own tool has, so the two cannot clash; rules match them as `server__tool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types import CallToolResult

from corral.runner.mcp_session import McpSession, ServerOffer

# What a model is shown of an entry of a listing.
_SHOWN_FIELDS = ("uri", "uriTemplate", "name", "description", "mimeType", "arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReadTool:
    """Describes a tool that reads something of an MCP server; `name` is also the action of the session."""

    name: str
    description: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        schema = {"type": "object", "properties": dict(self.properties), "additionalProperties": False}
        return schema | ({"required": list(self.required)} if self.required else {})


_OF_RESOURCES = (
    ServerReadTool(name="list_resources", description="List the resources of the MCP server {server}."),
    ServerReadTool(
        name="read_resource",
        description="Read a resource of the MCP server {server}.",
        properties={"uri": {"type": "string", "description": "The address of the resource, as it is listed."}},
        required=("uri",),
    ),
)
_OF_PROMPTS = (
    ServerReadTool(name="list_prompts", description="List the prompts of the MCP server {server}: instructions."),
    ServerReadTool(
        name="get_prompt",
        description="Get a prompt of the MCP server {server}, filled in with its arguments.",
        properties={
            "name": {"type": "string", "description": "The name of the prompt, as it is listed."},
            "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        required=("name",),
    ),
)


def iter_read_tools(offer: ServerOffer) -> Iterator[ServerReadTool]:
    """Yield the tools for what a server has."""
    if offer.has_resources:
        yield from _OF_RESOURCES
    if offer.has_prompts:
        yield from _OF_PROMPTS


async def read_from_server(session: McpSession, action: str, arguments: Mapping[str, Any]) -> CallToolResult:
    """Carry out the call of such a tool. Raises `McpUnavailable` or `McpCallFailed`."""
    answer = await session.request(action, arguments)
    content: list[Mapping[str, Any]]
    match action:
        case "read_resource":
            content = [{"type": "resource", "resource": part} for part in answer.get("contents", ())]
        case "get_prompt":
            content = [
                part
                for message in answer.get("messages", ())
                for part in ({"type": "text", "text": f"{message.get('role')}:"}, message.get("content"))
            ]
        case _:
            entries = [_show(entry) for listed in answer.values() for entry in listed]
            content = [{"type": "text", "text": json.dumps(entry, ensure_ascii=False)} for entry in entries]
    return CallToolResult.model_validate({"content": content})


def _show(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in _SHOWN_FIELDS if entry.get(name)}
