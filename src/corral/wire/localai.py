"""What LocalAI's page sends about agents and tasks beside Corral's own fields, and other forms of their values.

A field of LocalAI that has no effect here is left out and named; an unknown field is an error, unless it is empty.
Users choose programs of MCP servers only by the names that admins have declared, so of their descriptions names count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, model_validator

from corral.wire.base import StrictModel

# Forms send these for fields that were not filled in.
EMPTY_VALUES: tuple[object, ...] = (None, "", [], {}, False, 0)
# How many ignored fields are named.
IGNORED_MAX = 200
# `allowed_tools` and `excluded_tools` are not among them: an agent that ignored these would do more than it may.
AGENT_FIELDS_WITHOUT_EFFECT = frozenset({
    "actions", "api_key", "api_url", "can_stop_itself", "connectors",
    "disable_sink_state", "dynamic_prompts", "embedding_model", "enable_evaluation", "enable_guided_tools",
    "enable_kb_compaction", "enable_planning", "enable_reasoning", "enable_reasoning_for_instruct",
    "enable_reasoning_tool", "filters", "initiate_conversations", "kb_as_tools", "kb_auto_search",
    "kb_compaction_interval", "kb_compaction_summarize", "last_message_duration",
    "local_rag_api_key", "local_rag_url", "max_evaluation_loops", "mcp_prepare_script",
    "multimodal_model", "parallel_jobs", "plan_reviewer_model", "required_tool_before_finish",
    "required_tool_before_finish_attempts", "required_tool_before_finish_prompt", "scheduler_poll_interval",
    "scheduler_task_template",
    "transcription_language", "transcription_model", "tts_model",
})  # fmt: skip
TASK_FIELDS_WITHOUT_EFFECT = frozenset({"context"})


class LocalAiBody(StrictModel):
    """Base class of request bodies that LocalAI's page sends, too: `ignored` names its fields that have no effect."""

    fields_without_effect: ClassVar[frozenset[str]] = frozenset()
    _ignored: list[str] = PrivateAttr(default_factory=list)

    @property
    def ignored(self) -> Sequence[str]:
        """Return the names of fields that had a value and were left out."""
        return self._ignored

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            return handler(value)
        ignored = [
            name for name, item in value.items() if name in cls.fields_without_effect and item not in EMPTY_VALUES
        ]
        made = handler({name: item for name, item in value.items() if not cls._is_left_out(name, item)})
        made._ignored = ignored[:IGNORED_MAX]  # noqa: SLF001 - the model's own
        return made

    @classmethod
    def _is_left_out(cls, name: str, value: object) -> bool:
        field = cls.model_fields.get(name)
        if field is None:
            return name in cls.fields_without_effect or value in EMPTY_VALUES
        # Forms send an empty text for a number, a choice or a list that was not filled in.
        is_unset = value is None or (value == "" and field.default != "")
        return is_unset and not field.is_required()


def describe_ignored(names: Sequence[str]) -> list[str]:
    """Return the warning that names fields without effect; none if there are none."""
    return [f"Ignored fields, which have no effect in Corral: {', '.join(names)}."] if names else []


def list_programs(value: object) -> list[tuple[str, str]]:
    """Return the programs of MCP servers that a value names: the place of each in the value, and its name, which is
    empty if it has none. LocalAI sends names, objects with names, or a text in the form of Claude Desktop."""
    if isinstance(value, str):
        value = _parse_text(value)
    if isinstance(value, Mapping):
        servers = value.get("mcpServers", value)
        return [(str(name), str(name)) for name in servers] if isinstance(servers, Mapping) else [("0", "")]
    entries = value if isinstance(value, list) else [] if value is None else [value]
    return [(str(index), _read_name(entry)) for index, entry in enumerate(entries)]


def _parse_text(text: str) -> object:
    """Return the objects or names in a text; a text that is no JSON is a name."""
    if not text.strip():
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    return found if isinstance(found, dict | list) else [text]


def _read_name(entry: object) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else entry
    return name if isinstance(name, str) else ""
