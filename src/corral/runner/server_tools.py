"""Takes the tools of a run's MCP servers into its catalog: of those that answer soon before the first step, of the
others at a later one.

Guarantee: a server that is late or dead costs a run a short moment at most, and the trace names it. Only a run that has
to begin with the call of a tool, and has none, waits for the first server that answers. Tools are added between two
steps only, so the model is never offered one that the loop does not know yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from corral.domain.errors import CorralError
from corral.runner.mcp_pool import McpPool
from corral.runner.mcp_session import McpUnavailable, ServerOffer, describe_error
from corral.runner.schema_checker import SCHEMA_CHARACTERS_MAX
from corral.runner.server_reads import iter_read_tools
from corral.runner.tool_catalog import RunToolCatalog
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import McpServerSpec

DESCRIPTION_CHARACTERS_MAX = 4096


class StatusReporter(Protocol):
    """Callable that puts a sentence about a run into its trace, with further fields for programs."""

    async def __call__(self, sentence: str, **fields: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerToolDeps:
    """Dependencies of the search for a run's tools: pool of sessions, servers by name, catalog and trace."""

    pool: McpPool
    session_key: str
    # Whether sessions with this key are for other runs, too.
    is_shared: bool
    servers: Mapping[str, McpServerSpec]
    catalog: RunToolCatalog
    report: StatusReporter
    # How long the first step waits for servers.
    grace_s: float
    # Whether the first step has to call one of their tools: without any it would be worth nothing.
    needs_tool: bool


class ServerToolLoader:
    """Lists the tools of a run's MCP servers beside each other, and adds them to the run's catalog."""

    def __init__(self, deps: ServerToolDeps) -> None:
        self._deps = deps
        self._tasks = TaskSet("server-tools")
        # Of the servers whose tools have not come yet, in their order.
        self._listings: dict[str, asyncio.Task[AttemptSuccess[ServerOffer] | AttemptFailure]] = {}

    async def begin(self) -> None:
        """Ask all servers for their tools, and add those that come within the grace."""
        deps = self._deps
        self._listings = {
            name: self._tasks.start(attempt(partial(self._list_offer, server)), name=f"list-{name}")
            for name, server in deps.servers.items()
        }
        if self._listings:
            await asyncio.wait(self._listings.values(), timeout=deps.grace_s)
        await self._add_arrived()
        while deps.needs_tool and self._listings and not len(deps.catalog):
            await asyncio.wait(self._listings.values(), return_when=asyncio.FIRST_COMPLETED)
            await self._add_arrived()
        for name in self._listings:
            sentence = (
                f"MCP server {name} is left out for now: it has not answered within {deps.grace_s:g} s. "
                "Its tools are added when it does."
            )
            await deps.report(sentence, server=name, code="mcp_late")

    async def add_late(self) -> None:
        """Add the tools that have come since the last step."""
        left_out = self._deps.catalog.left_out
        for name in await self._add_arrived():
            await self._deps.report(f"MCP server {name} has answered: its tools are added.", server=name)
        if self._deps.catalog.left_out > left_out:
            await self._deps.report(f"{self._deps.catalog.left_out} tools are left out: the run has too many.")

    async def close(self) -> None:
        """Wait for no server any more."""
        await self._tasks.close()

    async def _add_arrived(self) -> list[str]:
        """Add the tools that have come, and return their servers. One that cannot be used is named in the trace."""
        found = []
        for name in [name for name, listing in self._listings.items() if listing.done()]:
            result = self._listings.pop(name).result()
            if isinstance(result, AttemptFailure):
                await self._report_failure(name, result.error)
            else:
                await self._add_offer(self._deps.servers[name], result.value)
                found.append(name)
        return found

    async def _list_offer(self, server: McpServerSpec) -> ServerOffer:
        deps = self._deps
        return await deps.pool.list_offer(deps.session_key, server, outlives_callers=deps.is_shared)

    async def _report_failure(self, name: str, error: Exception) -> None:
        reason = error.message if isinstance(error, CorralError) else describe_error(error)
        code = error.slug if isinstance(error, CorralError) else McpUnavailable.code
        await self._deps.report(f"MCP server {name} is left out: {reason}", server=name, code=code)

    async def _add_offer(self, server: McpServerSpec, offer: ServerOffer) -> None:
        for tool in offer.tools:
            if server.tools is not None and tool.name not in server.tools:
                continue
            if len(str(tool.input_schema)) > SCHEMA_CHARACTERS_MAX:
                sentence = f"Tool {tool.name} of MCP server {server.name} is left out: its schema is too large."
                await self._deps.report(sentence, server=server.name)
                continue
            hints = tool.annotations
            self._deps.catalog.add_mcp_tool(
                server.name,
                tool.name,
                description=(tool.description or "")[:DESCRIPTION_CHARACTERS_MAX],
                schema=tool.input_schema,
                is_repeatable=hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
            )
        # A run that may use certain tools only may read nothing else.
        for read_tool in iter_read_tools(offer) if server.tools is None else ():
            self._deps.catalog.add_read_tool(server.name, read_tool)
