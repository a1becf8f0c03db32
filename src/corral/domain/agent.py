"""Agents: a model with instructions and tools that answers in threads, or works towards a goal by itself.

agent           a name, a configuration and an owner; a shared one may be used by every key of the cluster
thread          one conversation of an owner with an agent; its messages are those of OpenAI's chat API
turn            one answer of an agent: a run of the kind `agent_turn`
MCP server      a source of tools: an address that the owner gives, or a server that an admin has declared by name
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from corral.domain.run import RunBudgets
from corral.domain.skill import SkillUse

ToolRule = Literal["auto", "ask", "deny"]
McpTransport = Literal["http", "sse", "stdio"]
# Where a request names a model, a name that begins so means an agent and never a model.
AGENT_PREFIX = "agent/"


class AgentStatus(StrEnum):
    """Names whether an LLM agent is active, or is paused and takes no messages."""

    ACTIVE = "active"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMcpServer:
    """Describes an MCP server at an address. `token` and header values are references where they are secret."""

    name: str
    url: str
    transport: McpTransport = "http"
    headers: Mapping[str, str] = field(default_factory=dict)
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMcpServer:
    """Describes an MCP server that an admin has declared: a program that workers start, or an address."""

    name: str
    description: str = ""
    transport: McpTransport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    created_by: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Configuration of an LLM agent as its owner wrote it: its model, instructions, tools and limits."""

    description: str = ""
    model: str = ""
    system_prompt: str = ""
    permanent_goal: str = ""
    inner_monologue_template: str = ""
    # Whether the agent runs by itself, and how often.
    standalone_job: bool = False
    period_s: float = 600.0
    budgets: RunBudgets = field(default_factory=RunBudgets)
    max_attempts: int = 2
    loop_detection: int = 5
    # Above so many tokens of history earlier messages are summarised; 0: never.
    compaction_tokens: int = 4096
    strips_thinking: bool = True
    cancels_previous: bool = True
    mcp_servers: tuple[RemoteMcpServer, ...] = ()
    # Names of servers that an admin has declared.
    declared_servers: tuple[str, ...] = ()
    tool_rules: Mapping[str, ToolRule] = field(default_factory=dict)
    # Names of agents that this one may ask as tools.
    agents: tuple[str, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    # Labels that a node needs to run this agent.
    selector: Mapping[str, str] = field(default_factory=dict)
    tool_mode: str = "auto"
    # `required`: every turn begins with the call of a tool.
    tool_choice: str = "auto"
    skills: SkillUse = field(default_factory=SkillUse)
    # The collection of the run's owner that a turn searches; empty: the one with the agent's name.
    collection: str = ""
    enables_kb: bool = False
    kb_mode: Literal["auto_search", "tools", "both"] = "auto_search"
    kb_results: int = 5
    # Whether turns are remembered in the collection, and what of them.
    remembers: bool = False
    memory_mode: Literal["user_only", "user_and_assistant", "whole_conversation", "summary"] = "user_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Describes an LLM agent as stored in PostgreSQL: its owner, configuration and status."""

    id: str
    # `user:<id>` or `key:<id>`.
    owner: str
    # The name of the owner's user or key.
    owner_name: str
    name: str
    is_shared: bool
    status: AgentStatus
    # The configuration as it was written, in the names of the API; `policy.agents.read_config` types it.
    settings: Mapping[str, Any]
    revision: int
    next_run_at: datetime | None
    last_run_at: datetime | None
    created_at: datetime
    created_by: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Describes one conversation of an owner with an LLM agent."""

    id: str
    agent_id: str
    owner: str
    title: str
    # The number of the last message.
    last_seq: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """Holds one message of a conversation with an LLM agent. `seq` grows by one with each message."""

    seq: int
    role: str
    # A message of OpenAI's chat API: role, content, tool_calls, tool_call_id.
    message: Mapping[str, Any]
    run_id: str | None
    created_at: datetime
