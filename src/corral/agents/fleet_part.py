"""Agents and declared MCP servers of a fleet file.

Ownership: an agent that the file declares belongs to the caller who applies the file. A shared agent of another user
is changed in place, and stays theirs. Pruning deletes agents of the caller only. MCP servers have no owner:
admins declare and prune them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corral.agents.mcp_servers import McpServerService
from corral.agents.service import AgentLookup, AgentService, NewAgent
from corral.domain.access import Principal
from corral.domain.agent import Agent, DeclaredMcpServer
from corral.domain.errors import NotAllowed
from corral.domain.run import RunId
from corral.models.fleet import FleetAction, FleetChange, FleetItem, FleetPartResult, make_change, name_entry
from corral.store import agents as store
from corral.store.database import Transaction

AGENT, SERVER = "agent", "MCP server"
Entry = Mapping[str, Any]


# Of rules the first that matches counts, so their order is a part of what they say.
ORDER_LINE = "~ tool_rules: in another order"


def _list_rules(agent: NewAgent) -> list[tuple[str, str]]:
    return list((agent.settings.get("tool_rules") or {}).items())


class AgentFleetPart:
    """Applies the LLM agents of a fleet file in the name of its caller. Implements `models.fleet.FleetPart`."""

    def __init__(
        self,
        service: AgentService,
        caller: Principal,
        desired: Sequence[NewAgent],
        render: Callable[[NewAgent], Entry],
    ) -> None:
        """`render` returns an agent as it is written in a file."""
        self._service = service
        self._caller = caller
        self._desired = desired
        self._render = render
        self._cancelled: list[RunId] = []

    async def apply_in(self, tx: Transaction, previous: set[FleetItem], *, prunes: bool) -> FleetPartResult:
        steps: list[FleetChange] = []
        listed: set[FleetItem] = set()
        for new in sorted(self._desired, key=lambda one: one.name):
            with name_entry("agents", new.name):
                step, owner = await self._apply_agent(tx, new)
            steps.append(step)
            listed.add((AGENT, f"{owner}/{new.name}"))
        own = f"{self._caller.owner}/"
        removed = {item for item in previous - listed if prunes and item[0] == AGENT and item[1].startswith(own)}
        for _, key in sorted(removed):
            name = key.removeprefix(own)
            if await self._find(tx, name, is_shared=False) is not None:
                self._cancelled += await self._service.delete_in(tx, self._look_up(name))
                steps.append(FleetChange(kind=AGENT, name=name, action=FleetAction.REMOVE))
        return FleetPartResult(steps=steps, listed=listed, removed=removed)

    async def finish(self) -> None:
        await self._service.announce_cancelled(self._cancelled)

    async def _apply_agent(self, tx: Transaction, new: NewAgent) -> tuple[FleetChange, str]:
        """Create or change an agent; return what was changed, and the owner of the agent."""
        known = await self._find(tx, new.name, is_shared=new.is_shared)
        if known is None:
            made = await self._service.create_in(tx, self._caller, new)
            return make_change(AGENT, new.name, None, self._render(new)), made.owner
        before = NewAgent(name=known.name, settings=known.settings, is_shared=known.is_shared)
        change = make_change(AGENT, new.name, self._render(before), self._render(new))
        if change.action is FleetAction.SAME and _list_rules(before) != _list_rules(new):
            change = FleetChange(kind=AGENT, name=new.name, action=FleetAction.CHANGE, lines=(ORDER_LINE,))
        if change.action is FleetAction.CHANGE:
            await self._service.update_in(tx, self._look_up(new.name), new)
        return change, known.owner

    async def _find(self, tx: Transaction, name: str, *, is_shared: bool) -> Agent | None:
        """Return the caller's agent of this name, else with `is_shared` the shared one of another user."""
        return next(iter(await store.find_agents(tx, name, str(self._caller.owner), shared=is_shared)), None)

    def _look_up(self, name: str) -> AgentLookup:
        return AgentLookup(name=name, principal=self._caller)


async def list_fleet_agents(tx: Transaction, caller: Principal) -> list[NewAgent]:
    """Return the agents that an export has: those of the caller, and for admins also those that are shared."""
    found = await store.list_agents(tx, str(caller.owner), shared=caller.is_admin)
    by_name: dict[str, Agent] = {}
    for agent in found:
        # The caller's own come first, and win over a shared one of the same name.
        by_name.setdefault(agent.name, agent)
    return [NewAgent(name=one.name, settings=one.settings, is_shared=one.is_shared) for one in by_name.values()]


class McpServerFleetPart:
    """Applies the MCP servers that a fleet file declares. Implements `models.fleet.FleetPart`."""

    def __init__(
        self,
        service: McpServerService,
        caller: Principal,
        desired: Mapping[str, Mapping[str, Any]],
        render: Callable[[DeclaredMcpServer], Entry],
    ) -> None:
        self._service = service
        self._caller = caller
        self._desired = desired
        self._render = render

    async def apply_in(self, tx: Transaction, previous: set[FleetItem], *, prunes: bool) -> FleetPartResult:
        known = {server.name: server for server in await store.list_servers(tx)}
        steps = []
        for name, config in sorted(self._desired.items()):
            with name_entry("mcp_servers", name):
                steps.append(await self._apply_server(tx, name, config, known.get(name)))
        listed = {(SERVER, name) for name in self._desired}
        removed = {item for item in previous - listed if prunes and item[0] == SERVER}
        for _, name in sorted(removed):
            if name in known:
                self._require_admin(name)
                await self._service.delete_in(tx, name, self._caller.name)
                steps.append(FleetChange(kind=SERVER, name=name, action=FleetAction.REMOVE))
        return FleetPartResult(steps=steps, listed=listed, removed=removed)

    async def finish(self) -> None:
        """Do nothing: workers learn of servers with the next turn that uses them."""

    async def _apply_server(
        self, tx: Transaction, name: str, config: Mapping[str, Any], known: DeclaredMcpServer | None
    ) -> FleetChange:
        desired = self._render(_make_server(name, config))
        change = make_change(SERVER, name, None if known is None else self._render(known), desired)
        if change.action is not FleetAction.SAME:
            self._require_admin(name)
            await self._service.put_in(tx, name, config, self._caller.name)
        return change

    def _require_admin(self, name: str) -> None:
        if not self._caller.is_admin:
            raise NotAllowed(
                f"The file changes the MCP server {name[:80]}, which takes an admin key.",
                hint="Let an admin apply it, or take `mcp_servers` out of the file.",
                code="admin_required",
            )


def _make_server(name: str, config: Mapping[str, Any]) -> DeclaredMcpServer:
    fields = {key: value for key, value in config.items() if key != "args"}
    return DeclaredMcpServer(name=name, args=tuple(config.get("args") or ()), **fields)
