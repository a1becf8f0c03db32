"""Finds the agent that a request names, in the eyes of its caller, and renders agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Path, Query

from corral.agents.service import AgentLookup
from corral.api.deps import OwnerIn
from corral.domain.access import Owner, Principal
from corral.domain.agent import Agent, AgentStatus
from corral.domain.errors import NotAllowed
from corral.wire.agents import AgentConfigOut, AgentListOut, AgentOut, UserAgentOut, UserAgentsOut

NameIn = Annotated[str, Path(max_length=255, description="The name of an agent: your own, or a shared one.")]
AllUsersIn = Annotated[bool, Query(description="For admins: those of all users.")]
OwnerQueryIn = Annotated[str, Query(max_length=64, description="For admins: whose agent is meant, as in user:….")]
UserQueryIn = Annotated[
    str, Query(max_length=64, description="The same as `owner`, for LocalAI's page; or a user's id.")
]


async def _make_lookup(
    caller: OwnerIn,
    name: NameIn,
    *,
    all_users: AllUsersIn = False,
    owner: OwnerQueryIn = "",
    user_id: UserQueryIn = "",
) -> AgentLookup:
    if user_id and not owner:
        owner = user_id if ":" in user_id else str(Owner(user_id=user_id))
    sees_all = all_users or bool(owner)
    if sees_all:
        require_admin_view(caller)
    return AgentLookup(name=name, principal=caller, sees_all=sees_all, owner=owner)


def require_admin_view(caller: Principal) -> None:
    """Raise `NotAllowed` unless the caller may see agents and runs of other users."""
    if not caller.is_admin:
        raise NotAllowed("Only admins see the agents, threads and runs of other users.", hint="Leave all_users out.")


LookupIn = Annotated[AgentLookup, Depends(_make_lookup)]


def get_visible_owner(lookup: AgentLookup) -> str | None:
    """Return the owner whose threads and runs the caller sees: the caller, or None for all owners."""
    return None if lookup.sees_all else str(lookup.principal.owner)


def agent_to_wire(agent: Agent, caller: Principal) -> AgentOut:
    return AgentOut(**_make_fields(agent, caller))


def list_to_wire(found: Sequence[Agent], caller: Principal, *, sees_all: bool) -> AgentListOut:
    """Return agents as the list shows them: as objects, and by the names that mean them, as LocalAI's page reads."""
    own = str(caller.owner)
    statuses: dict[str, bool] = {}
    for agent in sorted(found, key=lambda one: (one.owner != own, one.name)):
        if agent.owner == own or agent.is_shared:
            statuses.setdefault(agent.name, agent.status is AgentStatus.ACTIVE)
    groups: dict[str, UserAgentsOut] = {}
    for agent in found if sees_all else ():
        if agent.owner != own:
            shown = UserAgentOut(name=agent.name, active=agent.status is AgentStatus.ACTIVE)
            groups.setdefault(agent.owner, UserAgentsOut(agents=[])).agents.append(shown)
    return AgentListOut(
        items=[agent_to_wire(agent, caller) for agent in found],
        agents=list(statuses),
        agent_count=len(statuses),
        statuses=statuses,
        user_groups=groups or None,
    )


def config_to_wire(agent: Agent, caller: Principal) -> AgentConfigOut:
    return AgentConfigOut(**_make_fields(agent, caller), config=render_config(agent))


def render_config(agent: Agent) -> dict[str, Any]:
    """Return the configuration as `AgentIn` takes it."""
    return {"name": agent.name, "shared": agent.is_shared, **agent.settings}


def render_config_for_localai(agent: Agent) -> dict[str, Any]:
    """Return the configuration as LocalAI's page reads it, which `AgentIn` takes, too: programs as objects with names,
    which that page loses when they are texts."""
    programs = [{"name": name} for name in agent.settings.get("mcp_stdio_servers") or ()]
    return render_config(agent) | {"mcp_stdio_servers": programs}


def _make_fields(agent: Agent, caller: Principal) -> dict[str, Any]:
    settings = agent.settings
    return {
        "id": agent.id,
        "name": agent.name,
        "description": settings.get("description", ""),
        "model": settings.get("model", ""),
        "status": agent.status,
        "active": agent.status is AgentStatus.ACTIVE,
        "shared": agent.is_shared,
        "owner": agent.owner,
        "owner_name": agent.owner_name,
        "is_own": agent.owner == str(caller.owner),
        "revision": agent.revision,
        "standalone_job": settings.get("standalone_job", False),
        "next_run_at": agent.next_run_at,
        "last_run_at": agent.last_run_at,
        "created_at": agent.created_at,
        "updated_at": agent.updated_at,
    }
