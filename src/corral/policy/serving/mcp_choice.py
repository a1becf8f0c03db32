"""Which MCP servers, prompt and resources a request asks for: the keys of its `metadata`, read and taken out.

    mcp_servers      names of servers of the model, as a list or separated by commas
    mcp_prompt       a prompt of one of them, whose messages come before the conversation; `mcp_prompt_args` fills it in
    mcp_resources    addresses of resources, whose text is added to the last message of the user

Guarantee: an unknown form is refused, never ignored. Limit: `metadata` of OpenAI holds texts alone, so arguments may be
a JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.domain.errors import InvalidRequest

KEYS = ("mcp_servers", "mcp_prompt", "mcp_prompt_args", "mcp_resources")
SERVERS_MAX = 50
RESOURCES_MAX = 20
NAME_CHARACTERS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class McpChoice:
    """Says which MCP servers of its model a chat request uses. `servers` are those whose tools it gets; None: all."""

    servers: tuple[str, ...] | None = ()
    prompt: str = ""
    prompt_arguments: Mapping[str, str] = field(default_factory=dict)
    resources: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether the request asks for nothing, so that its engine alone can answer it."""
        return self.servers == () and not self.prompt and not self.resources


NO_SERVERS = McpChoice()
ALL_SERVERS = McpChoice(servers=None)


def has_mcp_keys(metadata: object) -> bool:
    return isinstance(metadata, Mapping) and any(key in metadata for key in KEYS)


def drop_mcp_keys(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the keys that engines must not get."""
    return {key: value for key, value in metadata.items() if key not in KEYS}


def read_mcp_choice(metadata: object, *, default: McpChoice = NO_SERVERS) -> McpChoice:
    """Return what a request asks for; `default` says which servers it gets if it names none. Raises
    `InvalidRequest`."""
    found: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    prompt = found.get("mcp_prompt")
    if prompt is not None and (not isinstance(prompt, str) or len(prompt) > NAME_CHARACTERS_MAX):
        raise _make_error("mcp_prompt", "the name of a prompt")
    servers = default.servers
    if found.get("mcp_servers") is not None:
        servers = _read_names(found["mcp_servers"], "mcp_servers", SERVERS_MAX)
    return McpChoice(
        servers=servers,
        prompt=prompt or "",
        prompt_arguments=_read_arguments(found.get("mcp_prompt_args")),
        resources=_read_names(found.get("mcp_resources") or (), "mcp_resources", RESOURCES_MAX),
    )


def _make_error(key: str, expected: str) -> InvalidRequest:
    return InvalidRequest(
        f"metadata.{key}: {expected} is required.", code="bad_value", details={"field": f"metadata.{key}"}
    )


def _read_names(value: object, key: str, most: int) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise _make_error(key, "a list of names, or names separated by commas,")
    names = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if len(names) > most or any(len(name) > NAME_CHARACTERS_MAX for name in names):
        raise _make_error(key, f"at most {most} names")
    return names


def _read_arguments(value: object) -> dict[str, str]:
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise _make_error("mcp_prompt_args", "an object, or one as JSON text,") from error
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise _make_error("mcp_prompt_args", "an object, or one as JSON text,")
    # Arguments of prompts are texts by the protocol.
    return {str(name): one if isinstance(one, str) else json.dumps(one) for name, one in value.items()}
