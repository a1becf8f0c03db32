"""The tools of one run: their names for the model, what a call of one means, and the rule that applies to it.

Tools of MCP servers are named `server__tool`, those that read from a server `server--read_resource`, other agents
`ask_<name>`, the one that reads skills `request_skill`, tools of the caller as the caller names them. Names are made
of letters, digits, `_` and `-`, at most 64, as engines require, and are unique: of two tools that would have the same
name, the later one gets a number.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from corral.runner.server_reads import ServerReadTool
from corral.wire.run_work import CallableAgentSpec

NAME_CHARACTERS_MAX = 64
# A run with more tools than any model can choose from; the rest is left out with a status event.
TOOLS_MAX = 512
# Of all schemas and descriptions, which are in each request to the model: more than any context holds.
CHARACTERS_MAX = 4 * 1024 * 1024
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}
_ASK_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What to ask, with all that the agent has to know."}},
    "required": ["message"],
    "additionalProperties": False,
}


class ToolKind(StrEnum):
    """Names who executes a tool that a run may call: an MCP server, another LLM agent, the API's client, or the runner,
    which reads skills and the run's collection of documents."""

    MCP = "mcp"
    AGENT = "agent"
    CLIENT = "client"
    SKILL = "skill"
    KNOWLEDGE = "knowledge"


class ToolRule(StrEnum):
    """Names what happens when a model calls a tool: the call is made, is put to a person, or is denied."""

    AUTO = "auto"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """Describes one tool of a run as the model sees it, and what executes its calls."""

    name: str
    kind: ToolKind
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: _EMPTY_SCHEMA)
    rule: ToolRule = ToolRule.AUTO
    # A call may be made again after the worker was lost: it has no effects, or the same ones.
    is_repeatable: bool = False
    # The name of the MCP server, and of the tool there or of the agent.
    server: str = ""
    target: str = ""
    # The target is something to read of the server (`server_reads.py`), and not a tool of it.
    is_read: bool = False

    def render(self) -> dict[str, Any]:
        """Return the tool in the form of OpenAI's chat API."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.schema)}
        return {"type": "function", "function": function}


class RunToolCatalog:
    """Collects the tools that a run may call under unique names."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._rules = rules
        self._tools: dict[str, RunTool] = {}
        self._characters = 0
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[RunTool]:
        return iter(self._tools.values())

    def find(self, name: str) -> RunTool | None:
        return self._tools.get(name)

    def add_client_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Add tools of the caller. Rules do not apply to them: the caller executes them itself."""
        for tool in tools:
            function = tool.get("function")
            if isinstance(function, Mapping) and isinstance(name := function.get("name"), str) and name:
                schema = function.get("parameters")
                tool_of_caller = RunTool(
                    name=name,
                    kind=ToolKind.CLIENT,
                    description=str(function.get("description") or ""),
                    schema=schema if isinstance(schema, Mapping) else _EMPTY_SCHEMA,
                    target=name,
                )
                if self._take_room(tool_of_caller.description, tool_of_caller.schema):
                    self._tools.setdefault(name, tool_of_caller)

    def add_agents(self, agents: Sequence[CallableAgentSpec]) -> None:
        """Add agents that the run may call. A call is repeatable: the same one is one run of that agent."""
        for agent in agents:
            description = agent.description or f"Ask the agent {agent.name}."
            if not self._take_room(description, _ASK_SCHEMA):
                continue
            qualified = f"ask_{agent.name}"
            name = self._choose_name(qualified)
            self._tools[name] = RunTool(
                name=name,
                kind=ToolKind.AGENT,
                description=description,
                schema=_ASK_SCHEMA,
                rule=self._find_rule(name, qualified),
                is_repeatable=True,
                target=agent.name,
            )

    def add_runner_tools(self, kind: ToolKind, tools: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Add tools of the runner itself, as name, description and schema. The same call of one may be made again:
        skills are only read, and a collection stores what a call adds once."""
        for target, description, schema in tools:
            if not self._take_room(description, schema):
                continue
            name = self._choose_name(target)
            self._tools[name] = RunTool(
                name=name,
                kind=kind,
                description=description,
                schema=schema,
                rule=self._find_rule(name, target),
                is_repeatable=True,
                target=target,
            )

    def add_mcp_tool(
        self, server: str, tool: str, *, description: str, schema: Mapping[str, Any], is_repeatable: bool
    ) -> None:
        if not self._take_room(description, schema):
            return
        qualified = f"{server}__{tool}"
        name = self._choose_name(qualified)
        self._tools[name] = RunTool(
            name=name,
            kind=ToolKind.MCP,
            description=description,
            schema=schema,
            rule=self._find_rule(name, qualified),
            is_repeatable=is_repeatable,
            server=server,
            target=tool,
        )

    def add_read_tool(self, server: str, tool: ServerReadTool) -> None:
        """Add a tool that reads something of an MCP server. Without `__` its name is none of the server's own tools."""
        description = tool.description.format(server=server)
        if not self._take_room(description, tool.schema):
            return
        name = self._choose_name(f"{server}--{tool.name}")
        self._tools[name] = RunTool(
            name=name,
            kind=ToolKind.MCP,
            description=description,
            schema=tool.schema,
            # A rule that denies all tools of a server is meant for these, too.
            rule=self._find_rule(name, f"{server}__{tool.name}"),
            is_repeatable=True,
            server=server,
            target=tool.name,
            is_read=True,
        )

    def _take_room(self, description: str, schema: Mapping[str, Any]) -> bool:
        """Take the room of one more tool. If there is none, count the tool as left out and return False."""
        characters = len(description) + len(json.dumps(schema))
        if len(self._tools) >= TOOLS_MAX or self._characters + characters > CHARACTERS_MAX:
            self.left_out += 1
            return False
        self._characters += characters
        return True

    def _choose_name(self, qualified: str) -> str:
        name = _FORBIDDEN.sub("_", qualified)
        if len(name) > NAME_CHARACTERS_MAX:
            digest = hashlib.sha256(qualified.encode()).hexdigest()[:8]
            name = f"{name[: NAME_CHARACTERS_MAX - 9]}_{digest}"
        chosen, number = name, 2
        while chosen in self._tools:
            suffix = f"_{number}"
            chosen = name[: NAME_CHARACTERS_MAX - len(suffix)] + suffix
            number += 1
        return chosen

    def _find_rule(self, name: str, qualified: str) -> ToolRule:
        """Return the rule of the first pattern that matches the name for the model or `server__tool` as configured."""
        for pattern, rule in self._rules.items():
            if fnmatchcase(name, pattern) or fnmatchcase(qualified, pattern):
                return ToolRule(rule)
        return ToolRule.AUTO
