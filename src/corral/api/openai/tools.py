"""Refuses tools that a model's chat template has no place for. Engines drop such tools without a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.store.use import Served

# `functions` is the older name in OpenAI's API.
_NAMES = ("tools", "functions")
# What of a request has to be known to refuse it.
TOOL_NAMES = (*_NAMES, "tool_choice", "function_call")
_MARKS = tuple(f'"{name}"'.encode() for name in _NAMES)


def may_have_tools(body: bytes) -> bool:
    """Return whether a body can name tools at all, without decoding it. An escaped name is left to the engine."""
    return any(body.find(mark) >= 0 for mark in _MARKS)


def refuse_tools(model: Served, members: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` if a decoded request brings tools to a model that takes none.

    With `tool_choice` "none" nothing is lost: the caller wants no call.
    """
    if model.takes_tools is not False:
        return
    if any(members.get(name) for name in _NAMES) and not _wants_none(members):
        raise InvalidRequest(
            f"Model {model.name} does not support tools: its chat template has no place for them.",
            hint="`corral models show` says which models take tools. Without tools this model answers; a JSON schema "
            "as response_format works with every chat model.",
            code="tools_not_supported",
        )


def _wants_none(members: Mapping[str, Any]) -> bool:
    choice = members.get("tool_choice", members.get("function_call"))
    return choice == "none" or (isinstance(choice, dict) and choice.get("type") == "none")
