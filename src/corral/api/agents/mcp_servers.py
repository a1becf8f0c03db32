"""`/api/mcp/servers`: MCP servers that admins declare for everybody, and that agents choose by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path

from corral.api.deps import AdminIn, DepsIn, OwnerIn
from corral.domain.access import Principal
from corral.domain.agent import DeclaredMcpServer
from corral.wire.agents import DeclaredServerIn, DeclaredServerListOut, DeclaredServerOut

router = APIRouter(prefix="/api/mcp/servers", tags=["agents"])
ServerNameIn = Annotated[str, Path(max_length=50, description="The name of the server.")]


@router.get("")
async def list_mcp_servers(deps: DepsIn, caller: OwnerIn) -> DeclaredServerListOut:
    """List the declared MCP servers by name. Admins see how they are declared."""
    found = await deps.agents.servers.list()
    return DeclaredServerListOut(servers=[_server_to_wire(server, caller) for server in found])


@router.get("/{name}")
async def show_mcp_server(deps: DepsIn, caller: OwnerIn, name: ServerNameIn) -> DeclaredServerOut:
    """Show one declared MCP server."""
    return _server_to_wire(await deps.agents.servers.get(name), caller)


@router.put("/{name}")
async def put_mcp_server(deps: DepsIn, admin: AdminIn, name: ServerNameIn, body: DeclaredServerIn) -> DeclaredServerOut:
    """Declare an MCP server, and replace the previous one of this name. Secrets are references:
    `cluster-secret:NAME`."""
    return _server_to_wire(await deps.agents.servers.put(name, body.model_dump(), admin.name), admin)


@router.delete("/{name}", status_code=204)
async def delete_mcp_server(deps: DepsIn, admin: AdminIn, name: ServerNameIn) -> None:
    """Delete a declared MCP server. Agents that use it fail from now on."""
    await deps.agents.servers.delete(name, admin.name)


def _server_to_wire(server: DeclaredMcpServer, caller: Principal) -> DeclaredServerOut:
    is_admin = caller.is_admin
    shown = {"name", "description", "created_by", "created_at", "updated_at"}
    return DeclaredServerOut(
        name=server.name,
        description=server.description,
        transport=server.transport,
        config={key: value for key, value in asdict(server).items() if key not in shown} if is_admin else None,
        created_by=server.created_by if is_admin else None,
        updated_at=server.updated_at,
    )
