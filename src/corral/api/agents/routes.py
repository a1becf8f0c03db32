"""`/api/agents`: the caller's agents and the shared ones; create, edit, rename, pause, copy, import, export, delete.

An agent of another owner does not exist for the caller, unless it is shared. Admins see all of them with
`all_users=true`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from corral.agents.service import NewAgent, list_warnings
from corral.api.agents.document_upload import DOCUMENT_BODY, receive_document
from corral.api.agents.documents import make_metadata, read_document, to_new_agent
from corral.api.agents.lookups import (
    AllUsersIn,
    LookupIn,
    agent_to_wire,
    config_to_wire,
    list_to_wire,
    render_config_for_localai,
    require_admin_view,
)
from corral.api.deps import ApiDeps, DepsIn, OwnerIn
from corral.api.downloads import make_attachment_headers, make_file_name
from corral.api.idempotency import create_once
from corral.api.revisions import IfMatch, parse_expected_revision
from corral.backends.sources import refuse_private
from corral.domain.access import Owner, Principal
from corral.domain.agent import Agent, AgentStatus
from corral.domain.secret import SecretScope
from corral.policy import agents as policy
from corral.store.database import Transaction
from corral.wire.agents import (
    AgentConfigOut,
    AgentImportOut,
    AgentIn,
    AgentListOut,
    AgentMetadataOut,
    AgentOut,
    CloneAgentIn,
)
from corral.wire.localai import describe_ignored

router = APIRouter(prefix="/api/agents", tags=["agents"])


@router.get("")
async def list_agents(deps: DepsIn, caller: OwnerIn, *, all_users: AllUsersIn = False) -> AgentListOut:
    """List your agents by name, then those that are shared with everybody: as `items`, and as names for LocalAI's
    page."""
    if all_users:
        require_admin_view(caller)
    found = await deps.agents.service.list(caller, sees_all=all_users)
    return list_to_wire(found, caller, sees_all=all_users)


@router.post("", status_code=201, response_model=AgentConfigOut)
async def create_agent(request: Request, deps: DepsIn, caller: OwnerIn, body: AgentIn) -> Response:
    """Create an agent. Its name must not be that of a model. Secrets are references: `secret:NAME`. A model that does
    not exist is no error, because it may be added later: the answer has a warning. Fields of LocalAI without effect
    are named there, too."""
    new = to_new_agent(body)
    await refuse_private_addresses(deps, new)

    async def work(tx: Transaction) -> AgentConfigOut:
        agent = await deps.agents.service.create_in(tx, caller, new)
        return await _render_with_warnings(tx, agent, caller, body.ignored)

    return await create_once(request, deps.database, caller, work)


@router.get("/config/metadata")
async def show_agent_form(caller: OwnerIn) -> AgentMetadataOut:
    """Show the fields of an agent's configuration, generated from its schema."""
    del caller
    return make_metadata()


@router.post("/import", status_code=201, response_model=AgentImportOut, openapi_extra=DOCUMENT_BODY)
async def import_agent(
    request: Request,
    deps: DepsIn,
    caller: OwnerIn,
    name: Annotated[str, Query(max_length=100, description="Another name than that in the document.")] = "",
) -> Response:
    """Create an agent from an exported document, also from one of LocalAGI, as the body or as `file` of a form. Fields
    that have no effect here, and secrets that are not stored yet, are named in the answer. A token in clear is
    refused."""
    document = await receive_document(request, deps)
    declared = {server.name for server in await deps.agents.servers.list()}
    body, ignored = read_document(document, name=name, may_share=caller.is_admin, declared=declared)
    new = to_new_agent(body)
    await refuse_private_addresses(deps, new)
    missing = await _list_missing_secrets(deps, caller.owner, new)

    async def work(tx: Transaction) -> AgentImportOut:
        agent = await deps.agents.service.create_in(tx, caller, new)
        shown = await _render_with_warnings(tx, agent, caller)
        return AgentImportOut(**shown.model_dump(), ignored=ignored, missing_secrets=missing)

    return await create_once(request, deps.database, caller, work)


@router.get("/{name}")
async def show_agent(deps: DepsIn, lookup: LookupIn) -> AgentConfigOut:
    """Show one agent."""
    return config_to_wire(await deps.agents.service.get(lookup), lookup.principal)


@router.put("/{name}")
async def put_agent(deps: DepsIn, lookup: LookupIn, body: AgentIn, if_match: IfMatch = None) -> AgentConfigOut:
    """Replace the configuration of an agent. Another name in the body renames it. A paused agent stays paused."""
    new, expects = to_new_agent(body), parse_expected_revision(if_match)
    await refuse_private_addresses(deps, new)
    async with deps.database.transaction() as tx:
        agent = await deps.agents.service.update_in(tx, lookup, new, expects=expects)
        return await _render_with_warnings(tx, agent, lookup.principal, body.ignored)


@router.delete("/{name}", status_code=204)
async def delete_agent(deps: DepsIn, lookup: LookupIn) -> None:
    """Delete an agent with its threads, and cancel its turns."""
    await deps.agents.service.delete(lookup)


@router.get("/{name}/config")
async def show_agent_config(deps: DepsIn, lookup: LookupIn) -> dict[str, Any]:
    """Show the configuration of an agent in the form of LocalAI's page, as `PUT /api/agents/{name}` takes it, too."""
    return render_config_for_localai(await deps.agents.service.get(lookup))


@router.put("/{name}/pause")
async def pause_agent(deps: DepsIn, lookup: LookupIn) -> AgentOut:
    """Pause an agent: it refuses messages with 409 and does not run by itself. A turn that runs goes on."""
    return await _set_status(deps, lookup, AgentStatus.PAUSED)


@router.put("/{name}/resume")
async def resume_agent(deps: DepsIn, lookup: LookupIn) -> AgentOut:
    """Resume a paused agent. One that runs by itself does so after one interval."""
    return await _set_status(deps, lookup, AgentStatus.ACTIVE)


async def _set_status(deps: ApiDeps, lookup: LookupIn, status: AgentStatus) -> AgentOut:
    return agent_to_wire(await deps.agents.service.set_status(lookup, status), lookup.principal)


@router.post("/{name}/clone", status_code=201)
async def clone_agent(deps: DepsIn, lookup: LookupIn, body: CloneAgentIn) -> AgentConfigOut:
    """Create an agent of your own with the configuration of one that you may use. It is not shared."""
    return config_to_wire(await deps.agents.service.clone(lookup, body.name), lookup.principal)


@router.get("/{name}/export", response_class=JSONResponse)
async def export_agent(deps: DepsIn, lookup: LookupIn) -> Response:
    """Return an agent as a document that `POST /api/agents/import` takes. It holds references, and no secret."""
    agent = await deps.agents.service.get(lookup)
    # Indented: people keep and edit it.
    document = json.dumps({"name": agent.name, **agent.settings}, indent=2, ensure_ascii=False)
    headers = make_attachment_headers(make_file_name(agent.name, ".json"))
    return Response(f"{document}\n", media_type="application/json", headers=headers)


async def _render_with_warnings(
    tx: Transaction, agent: Agent, caller: Principal, ignored: Sequence[str] = ()
) -> AgentConfigOut:
    shown = config_to_wire(agent, caller)
    shown.warnings = [*await list_warnings(tx, caller, agent), *describe_ignored(ignored)]
    return shown


async def refuse_private_addresses(deps: ApiDeps, new: NewAgent) -> None:
    """Raise if the address of an MCP server leads into a private network, by its name or by the name service."""
    if deps.allows_private_sources:
        return
    policy.check_settings(new.settings, allows_private=False)
    for server in new.settings["mcp_servers"]:
        await refuse_private(server["url"], deps.fetcher)


async def _list_missing_secrets(deps: ApiDeps, owner: Owner, new: NewAgent) -> list[str]:
    references = policy.list_references(policy.read_config(new.settings))
    stored = {secret.name for secret in await deps.secret_store.list(owner)}
    return [str(one) for one in references if one.scope is SecretScope.OWN and one.name not in stored]
