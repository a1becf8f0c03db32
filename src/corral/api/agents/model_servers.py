"""`/v1/mcp`: the MCP servers of a model, what they offer, their prompts and resources (LocalAI-compatible).

Everybody who may use the model may use its servers. Servers are called by agent nodes, never by the frontend.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query

from corral.agents.mcp_calls import ModelServerReport
from corral.api.deps import DepsIn, OwnerIn
from corral.wire.model_servers import (
    ModelPromptArgumentOut,
    ModelPromptOut,
    ModelResourceOut,
    ModelServerOut,
    ModelServersOut,
    ModelToolOut,
    PromptExpansionIn,
    PromptMessageOut,
    PromptMessagesOut,
    ResourceContentOut,
    ResourceReadIn,
)

router = APIRouter(prefix="/v1/mcp", tags=["agents"])
ModelIn = Annotated[str, Path(max_length=255, description="The name of a model, or an alias.")]
PromptIn = Annotated[str, Path(max_length=500, description="The name of a prompt, alone or as `server__prompt`.")]
ServersIn = Annotated[
    list[str] | None, Query(max_length=50, description="Only this server; may be repeated. Without: all of them.")
]


@router.get("/servers/{model:path}")
async def list_model_servers(
    deps: DepsIn, caller: OwnerIn, model: ModelIn, server: ServersIn = None
) -> ModelServersOut:
    """List the MCP servers of a model with their tools, prompts and resources. A server that does not answer is listed
    with its error."""
    name, reports = await deps.agents.mcp_calls.describe(caller, model, server)
    return ModelServersOut(model=name, servers=[_server_to_wire(report) for report in reports])


@router.get("/prompts/{model:path}")
async def list_model_prompts(deps: DepsIn, caller: OwnerIn, model: ModelIn) -> list[ModelPromptOut]:
    """List the prompts of a model's MCP servers. Servers that do not answer are left out, unless none does."""
    reports = _require_any((await deps.agents.mcp_calls.describe(caller, model))[1])
    return [_prompt_to_wire(report.name, item) for report in reports for item in report.prompts]


@router.post("/prompts/{model:path}/{prompt}")
async def expand_model_prompt(
    deps: DepsIn,
    caller: OwnerIn,
    model: ModelIn,
    prompt: PromptIn,
    body: Annotated[PromptExpansionIn | None, Body()] = None,
) -> PromptMessagesOut:
    """Return the messages of a prompt, with arguments filled in by its MCP server."""
    body = body or PromptExpansionIn()
    found = await deps.agents.mcp_calls.get_prompt(caller, model, prompt, body.arguments, body.server)
    messages = [message for message in found.get("messages") or () if isinstance(message, Mapping)]
    return PromptMessagesOut(
        description=str(found.get("description") or ""),
        messages=[
            PromptMessageOut(role=str(message.get("role") or "user"), content=_render_content(message.get("content")))
            for message in messages
        ],
    )


@router.get("/resources/{model:path}")
async def list_model_resources(deps: DepsIn, caller: OwnerIn, model: ModelIn) -> list[ModelResourceOut]:
    """List the resources of a model's MCP servers. Servers that do not answer are left out, unless none does."""
    reports = _require_any((await deps.agents.mcp_calls.describe(caller, model))[1])
    return [_resource_to_wire(report.name, item) for report in reports for item in report.resources]


@router.post("/resources/{model:path}/read")
async def read_model_resource(
    deps: DepsIn, caller: OwnerIn, model: ModelIn, body: ResourceReadIn
) -> ResourceContentOut:
    """Read a resource of a model's MCP servers."""
    server, found = await deps.agents.mcp_calls.read_resource(caller, model, body.uri, body.server)
    contents = [part for part in found.get("contents") or () if isinstance(part, Mapping)]
    texts = [str(part["text"]) for part in contents if part.get("text") is not None]
    binary = next((str(part["blob"]) for part in contents if part.get("blob") is not None), "")
    mime = next((str(part["mimeType"]) for part in contents if part.get("mimeType")), "")
    is_base64 = not texts and bool(binary)
    content = binary if is_base64 else "\n".join(texts)
    return ResourceContentOut(uri=body.uri, content=content, mimeType=mime, server=server, is_base64=is_base64)


def _require_any(reports: Sequence[ModelServerReport]) -> Sequence[ModelServerReport]:
    """Return the reports, or raise the first error if no server has answered."""
    if reports and all(report.error is not None for report in reports):
        assert reports[0].error is not None
        raise reports[0].error
    return reports


def _server_to_wire(report: ModelServerReport) -> ModelServerOut:
    tools = [_tool_to_wire(report.name, item) for item in report.tools]
    return ModelServerOut(
        name=report.name,
        type="stdio" if report.is_program else "remote",
        tools=[tool.name for tool in tools],
        prompts=[_read_text(item, "name") for item in report.prompts],
        resources=[_read_text(item, "uri") for item in report.resources],
        error=report.error.message if report.error is not None else "",
        error_code=report.error.slug if report.error is not None else "",
        tool_details=tools,
    )


def _tool_to_wire(server: str, item: Mapping[str, Any]) -> ModelToolOut:
    schema, hints = item.get("inputSchema"), item.get("annotations")
    return ModelToolOut(
        name=f"{server}__{_read_text(item, 'name')}",
        tool=_read_text(item, "name"),
        description=_read_text(item, "description"),
        input_schema=dict(schema) if isinstance(schema, Mapping) else {},
        read_only=isinstance(hints, Mapping) and hints.get("readOnlyHint") is True,
    )


def _prompt_to_wire(server: str, item: Mapping[str, Any]) -> ModelPromptOut:
    arguments = [one for one in item.get("arguments") or () if isinstance(one, Mapping)]
    return ModelPromptOut(
        name=_read_text(item, "name"),
        title=_read_text(item, "title"),
        description=_read_text(item, "description"),
        arguments=[
            ModelPromptArgumentOut(
                name=_read_text(one, "name"),
                description=_read_text(one, "description"),
                required=one.get("required") is True,
            )
            for one in arguments
        ],
        server=server,
    )


def _resource_to_wire(server: str, item: Mapping[str, Any]) -> ModelResourceOut:
    return ModelResourceOut(
        name=_read_text(item, "name"),
        uri=_read_text(item, "uri"),
        description=_read_text(item, "description"),
        mimeType=_read_text(item, "mimeType"),
        server=server,
    )


def _read_text(item: Mapping[str, Any], key: str) -> str:
    return str(item.get(key) or "")


def _render_content(content: object) -> str:
    """Return a part of a prompt as text; a part that is no text is its JSON."""
    if isinstance(content, Mapping) and content.get("type") == "text":
        return _read_text(content, "text")
    if isinstance(content, list):
        return "\n".join(_render_content(part) for part in content)
    return json.dumps(content)
