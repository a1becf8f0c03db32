"""Puts a prompt and resources of MCP servers into a conversation. Pure: what the servers have answered goes in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from corral.agents.turns import TurnRequest
from corral.api.dialects.request_values import Json, make_value_error
from corral.domain.errors import Unprocessable


def add_prompt(request: TurnRequest, prompt: Mapping[str, Any]) -> TurnRequest:
    """Return the request with the messages of a prompt before its own."""
    messages = [message for message in prompt.get("messages") or () if isinstance(message, Mapping)]
    added = [
        {
            "role": "assistant" if message.get("role") == "assistant" else "user",
            "content": _read_content(message.get("content")),
        }
        for message in messages
    ]
    return replace(request, messages=[*added, *request.messages])


def add_resources(request: TurnRequest, resources: Iterable[tuple[str, Mapping[str, Any]]]) -> TurnRequest:
    """Return the request with the texts of resources behind the last message of the user. Raises `Unprocessable` for a
    resource that is not text."""
    texts = [f"Resource {uri}:\n{_read_resource(uri, found)}" for uri, found in resources]
    if not texts:
        return request
    messages = [dict(message) for message in request.messages]
    last = next((message for message in reversed(messages) if message.get("role") == "user"), None)
    if last is None:
        raise make_value_error("messages", "a message of the user, to which resources are added,")
    last["content"] = _append_text(last.get("content"), "\n\n".join(texts))
    return replace(request, messages=messages)


def _append_text(content: object, text: str) -> str | list[Json]:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}\n\n{text}" if content else text


def _read_content(content: object) -> str:
    if isinstance(content, Mapping) and isinstance(text := content.get("text"), str):
        return text
    if isinstance(content, list):
        return "\n".join(map(_read_content, content))
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _read_resource(uri: str, found: Mapping[str, Any]) -> str:
    parts = [part for part in found.get("contents") or () if isinstance(part, Mapping)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    if not texts:
        raise Unprocessable(f"Resource {uri[:200]} is no text.", hint="Leave it out.", code="resource_not_text")
    return "\n".join(texts)
