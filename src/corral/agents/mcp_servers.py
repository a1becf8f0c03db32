"""MCP servers that admins declare for everybody: programs that workers start, or addresses in private networks.

Guarantee: a change is one transaction with its audit line and its event; a secret in clear is refused. Turns that begin
after a change use the new declaration, in sessions of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.agents.service import make_unknown_server_error
from corral.domain.agent import DeclaredMcpServer
from corral.domain.errors import Conflict, InvalidRequest
from corral.policy import agents as policy
from corral.store import access as access_store
from corral.store import agents as store
from corral.store import outbox
from corral.store.database import Database, Transaction

SERVERS_MAX = 500


class McpServerService:
    """Lists, declares and deletes the MCP servers of the cluster."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[DeclaredMcpServer]:
        async with self._database.transaction() as tx:
            return await store.list_servers(tx)

    async def get(self, name: str) -> DeclaredMcpServer:
        async with self._database.transaction() as tx:
            found = await store.list_servers(tx, [name])
        if not found:
            raise make_unknown_server_error(name)
        return found[0]

    async def put(self, name: str, config: Mapping[str, Any], actor: str) -> DeclaredMcpServer:
        """Declare a server, and replace the previous one of this name."""
        async with self._database.transaction() as tx:
            return await self.put_in(tx, name, config, actor)

    async def put_in(self, tx: Transaction, name: str, config: Mapping[str, Any], actor: str) -> DeclaredMcpServer:
        """Declare a server inside a larger transaction."""
        _check(name, config)
        if len(await store.list_servers(tx)) >= SERVERS_MAX and not await store.list_servers(tx, [name]):
            raise Conflict(f"{SERVERS_MAX} MCP servers are declared, which is the limit.", code="too_many_mcp_servers")
        stored = await store.put_server(tx, name, config, actor)
        await access_store.record_audit(tx, actor, "mcp_server.put", name)
        await outbox.append(tx, "mcp_server.changed", name)
        return stored

    async def delete(self, name: str, actor: str) -> None:
        """Delete a server. Turns of agents that need it fail from now on."""
        async with self._database.transaction() as tx:
            await self.delete_in(tx, name, actor)

    async def delete_in(self, tx: Transaction, name: str, actor: str) -> None:
        """Delete a server inside a larger transaction."""
        if not await store.delete_server(tx, name):
            raise make_unknown_server_error(name)
        await access_store.record_audit(tx, actor, "mcp_server.delete", name)
        await outbox.append(tx, "mcp_server.deleted", name)


def _check(name: str, config: Mapping[str, Any]) -> None:
    policy.check_server_name(name)
    server = DeclaredMcpServer(
        name=name,
        transport=config.get("transport", "stdio"),
        command=config.get("command", ""),
        url=config.get("url", ""),
        env=config.get("env") or {},
        headers=config.get("headers") or {},
    )
    if server.transport == "stdio":
        if not server.command.strip() or server.url:
            raise InvalidRequest("A stdio server needs a command, and no url.", code="bad_mcp_server")
    else:
        if server.command or not server.url:
            raise InvalidRequest("A remote server needs a url, and no command.", code="bad_mcp_server")
        policy.check_address(server.url, allows_private=True)
    policy.check_variables(server)
