"""`/api/fleet`: the whole fleet as one file, with agents, tasks and MCP servers.

Entries of these three sections are in the form of their own routes. An error names the section, the entry and the
field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ValidationError

from corral.agents.fleet_part import AgentFleetPart, McpServerFleetPart, list_fleet_agents
from corral.agents.service import NewAgent
from corral.api.agents.documents import to_new_agent
from corral.api.agents.routes import refuse_private_addresses
from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.models.configs import request_adapter_files
from corral.api.models.request_bodies import (
    check_sources,
    parse_document,
    refresh_served_models,
    require_adapter_engine,
)
from corral.api.tasks import parse_task, render_server_lists
from corral.domain.access import Principal
from corral.domain.agent import DeclaredMcpServer
from corral.domain.errors import InvalidRequest
from corral.domain.task import TaskSpec
from corral.models import fleet
from corral.models.fleet import FleetPart, name_entry
from corral.policy.models.fleet_file import CODE, FleetFile, from_mapping, to_mapping
from corral.store import agents as agent_store
from corral.store import models as model_store
from corral.store import tasks as task_store
from corral.store.database import Transaction
from corral.tasks.fleet_part import TaskFleetPart
from corral.wire.agents import AgentEntry, DeclaredServerIn
from corral.wire.models import FleetChangeOut, FleetChangesOut
from corral.wire.tasks import TaskEntry

router = APIRouter(tags=["models"])
Body = TypeVar("Body", bound=BaseModel)
Fleet = dict[str, Any]
_SHOWN_WITH_SERVERS = ("name", "created_by", "created_at", "updated_at")


@router.get("/api/fleet")
async def export_fleet(deps: DepsIn, caller: OperatorIn) -> Fleet:
    """Export models, rules, labels of admins, limits of nodes and galleries, your agents and tasks, and for admins also
    shared agents and MCP servers. Applying the export changes nothing. Secrets are references."""
    async with deps.database.transaction() as tx:
        return to_mapping(await _add_entries(tx, await fleet.export(tx), caller))


@router.post(
    "/api/fleet",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}, "application/yaml": {"schema": {}}},
        }
    },
)
async def apply_fleet(
    request: Request,
    deps: DepsIn,
    operator: OperatorIn,
    *,
    plan: Annotated[bool, Query(description="Dry run: only return what would change.")] = False,
    prune: Annotated[
        bool, Query(description="Also remove what an earlier file created and this file does not name.")
    ] = False,
) -> FleetChangesOut:
    """Apply a file to the fleet in one transaction. Agents and tasks in it are yours. Only an admin key can change
    galleries, MCP servers and shared agents."""
    desired = from_mapping(await parse_document(request, deps))
    for config in desired.models:
        check_sources(deps, config)
    await _check_adapter_engines(deps, desired)
    parts = await _make_parts(deps, desired, operator)
    work = fleet.plan if plan else fleet.apply
    steps = await work(deps.database, desired, operator.name, prunes=prune, is_admin=operator.is_admin, parts=parts)
    if not plan:
        await _request_adapter_files(deps, desired, operator.name)
        await refresh_served_models(deps, {one.name for one in steps})
    return FleetChangesOut(
        plan=plan,
        steps=[
            FleetChangeOut(
                kind=one.kind, name=one.name, action=one.action, changes=list(one.lines), stopped=one.stopped
            )
            for one in steps
        ],
    )


async def _check_adapter_engines(deps: ApiDeps, desired: FleetFile) -> None:
    """Raise `Unprocessable` for an adapter whose base, in the file or in the catalog, has an engine that takes none."""
    backends = {config.name: config.backend for config in desired.models}
    for config in desired.models:
        if config.base and config.base not in backends:
            async with deps.database.transaction() as tx:
                known = await model_store.find_model(tx, config.base)
            backends[config.base] = known.config.backend if known is not None else ""
        if config.base:
            require_adapter_engine(deps, backends[config.base])


async def _request_adapter_files(deps: ApiDeps, desired: FleetFile, actor: str) -> None:
    async with deps.database.transaction() as tx:
        for model in await model_store.list_models(tx, [one.name for one in desired.models if one.base]):
            await request_adapter_files(deps, tx, model, actor)


async def _make_parts(deps: ApiDeps, desired: FleetFile, caller: Principal) -> Sequence[FleetPart]:
    """Return the parts of a file that apply its agents, tasks and MCP servers: servers first, others refer to them."""
    servers = {
        name: _parse_entry(DeclaredServerIn, "mcp_servers", name, _leave_out(entry, ("name",))).model_dump()
        for name, entry in desired.mcp_servers.items()
    }
    agents = []
    for name, entry in desired.agents.items():
        new = to_new_agent(_parse_entry(AgentEntry, "agents", name, entry))
        with name_entry("agents", name):
            await refuse_private_addresses(deps, new)
        agents.append(new)
    tasks = []
    for name, entry in desired.tasks.items():
        body = _parse_entry(TaskEntry, "tasks", name, entry)
        with name_entry("tasks", name):
            tasks.append(parse_task(body))
    return (
        McpServerFleetPart(deps.agents.servers, caller, servers, render_server),
        AgentFleetPart(deps.agents.service, caller, agents, render_agent),
        TaskFleetPart(deps.tasks, caller, tasks, render_task),
    )


def _parse_entry(kind: type[Body], section: str, name: str, entry: Mapping[str, Any]) -> Body:
    try:
        return kind.model_validate(dict(entry))
    except ValidationError as error:
        # Neither inputs nor contexts are shown: a value may be a secret that was written in clear.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(
            f"{section}: {name[:80]}: {f'{where}: ' if where else ''}{first['msg']}.", code=CODE
        ) from None


async def _add_entries(tx: Transaction, exported: FleetFile, caller: Principal) -> FleetFile:
    """Return an export with the agents and tasks of the caller, and what admins see beside them."""
    servers = await agent_store.list_servers(tx) if caller.is_admin else []
    agents = await list_fleet_agents(tx, caller)
    tasks = await task_store.list_tasks(tx, str(caller.owner))
    return replace(
        exported,
        mcp_servers={server.name: render_server(server) for server in servers},
        agents={agent.name: render_agent(agent) for agent in agents},
        tasks={task.spec.name: render_task(task.spec) for task in tasks},
    )


def render_agent(agent: NewAgent) -> dict[str, Any]:
    """Return an agent as a fleet file has it: without what is as it would be anyway."""
    known = {key: value for key, value in agent.settings.items() if key in AgentEntry.model_fields}
    body = AgentEntry.model_validate({**known, "name": agent.name, "shared": agent.is_shared})
    return {"name": agent.name, **body.model_dump(mode="json", exclude_defaults=True)}


def render_server(server: DeclaredMcpServer) -> dict[str, Any]:
    """Return a declared MCP server as a fleet file has it."""
    body = DeclaredServerIn.model_validate(_leave_out(asdict(server), _SHOWN_WITH_SERVERS))
    return {"name": server.name, **body.model_dump(mode="json", exclude_defaults=True)}


def render_task(spec: TaskSpec) -> dict[str, Any]:
    """Return a task as a fleet file has it."""
    fields = asdict(spec)
    body = TaskEntry.model_validate(
        {
            **_leave_out(fields, ("is_enabled", "media_sources", "declared_servers", "uses_model_servers")),
            "enabled": spec.is_enabled,
            "multimedia_sources": [
                {"type": one.kind, "url": one.url, "headers": dict(one.headers)} for one in spec.media_sources
            ],
            "mcp_stdio_servers": list(spec.declared_servers),
        }
    )
    empty = {name: servers for name, servers in render_server_lists(spec).items() if not servers}
    return {"name": spec.name, **body.model_dump(mode="json", exclude_defaults=True), **empty}


def _leave_out(entry: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in names}
