"""The MCP servers of a model, as workers get them.

Guarantee: what is returned is read in the caller's transaction, so a change counts for the next call. Sessions are
shared by the calls, chats and jobs of one owner for one model; the worker replaces one whose server has changed.
References stand in place of secrets. Limit: a server is opened in the name of each owner on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.errors import InvalidRequest, NotFound
from corral.domain.model import ModelConfig
from corral.policy.agents import make_session_key
from corral.policy.models.mcp_servers import make_server_specs
from corral.store import agents as store
from corral.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServerSelection:
    """MCP servers of a model for one call, in the form of `wire.run_work.McpServerSpec`, and their session key."""

    servers: list[dict[str, Any]]
    # Empty if there are no servers.
    session_key: str
    # Names of declared servers that do not exist any more.
    missing: tuple[str, ...] = ()


async def select_model_servers(
    tx: Transaction,
    config: ModelConfig,
    owner: str,
    names: Sequence[str] | None = None,
    *,
    allows_missing: bool = False,
) -> ModelServerSelection:
    """Return the named servers of a model for one owner (`str(Principal.owner)`); without names, all of them.

    Raises `InvalidRequest` (unknown_mcp_server) for a name that the model does not have. A declared server that was
    deleted is left out like one that is dead; if it was named, this raises `NotFound`, unless `allows_missing`.
    """
    known = config.mcp.names
    unknown = next((name for name in names or () if name not in known), None)
    if unknown is not None:
        has = (
            f"The model has: {', '.join(known)}."
            if known
            else "The model has none: add some under `mcp` in its configuration."
        )
        raise InvalidRequest(
            f"Model {config.name} has no MCP server {unknown[:60]!r}.", hint=has, code="unknown_mcp_server"
        )
    declared = {server.name: server for server in await store.list_servers(tx, config.mcp.declared)}
    specs = make_server_specs(config.mcp, declared)
    chosen = known if names is None else tuple(name for name in known if name in names)
    missing = tuple(name for name in chosen if name not in specs)
    if missing and names is not None and not allows_missing:
        raise NotFound(
            f"Model {config.name} uses the MCP server {missing[0]}, which is not declared any more.",
            hint="Declare it again with `corral mcp servers set`, or take it out of `mcp.servers`.",
            code="mcp_server_not_found",
        )
    servers = [specs[name] for name in chosen if name in specs]
    return ModelServerSelection(
        servers=servers,
        # Without what the servers are: a worker that is given another one under this key closes the old session.
        session_key=make_session_key(owner, [{"model": config.name}]) if servers else "",
        missing=missing,
    )
