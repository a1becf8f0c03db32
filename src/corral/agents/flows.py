"""The flows about agents as one value, for the routes."""

from __future__ import annotations

from dataclasses import dataclass

from corral.agents.chats import ChatRunService
from corral.agents.delegation import AgentDelegationService
from corral.agents.mcp_calls import McpCallDeps, McpCallService
from corral.agents.mcp_servers import McpServerService
from corral.agents.schedule import AgentScheduler
from corral.agents.service import AgentService, AgentServiceDeps
from corral.agents.skills import AgentSkillReader
from corral.agents.stream import AgentStreamReader
from corral.agents.turns import AgentTurnService
from corral.domain.run import RunKind
from corral.knowledge.agent_memory import AgentMemory
from corral.reconcile.leader import LeaderElector


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFlows:
    """Bundles the services of a frontend for LLM agents, for the API routes."""

    service: AgentService
    turns: AgentTurnService
    delegation: AgentDelegationService
    streams: AgentStreamReader
    servers: McpServerService
    scheduler: AgentScheduler
    mcp_calls: McpCallService
    chats: ChatRunService
    skills: AgentSkillReader


def make_agent_flows(
    deps: AgentServiceDeps, leader: LeaderElector, mcp: McpCallDeps, memory: AgentMemory
) -> AgentFlows:
    """Make the services about agents, and register the handlers of their kinds of runs."""
    service = AgentService(deps)
    turns = AgentTurnService(
        deps.database,
        deps.runs,
        service,
        allows_private=deps.allows_private_addresses,
        default_wall_s=deps.default_wall_s,
        memory=memory,
    )
    deps.runs.add_kind(RunKind.AGENT_TURN, turns)
    chats = ChatRunService(deps.database, deps.runs, deps.default_wall_s)
    deps.runs.add_kind(RunKind.CHAT, chats)
    return AgentFlows(
        service=service,
        turns=turns,
        delegation=AgentDelegationService(deps.database, turns),
        streams=AgentStreamReader(deps.database, deps.runs.readers),
        servers=McpServerService(deps.database),
        scheduler=AgentScheduler(deps.database, leader, turns),
        mcp_calls=McpCallService(mcp),
        chats=chats,
        skills=AgentSkillReader(deps.database),
    )
