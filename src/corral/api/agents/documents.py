"""Reads documents that describe an agent, also those of LocalAGI, and makes the form of an agent from its schema.

A document of LocalAGI has fields that mean nothing here; they are named in the answer instead of being kept. Its zeros
and empty texts mean "not set".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from corral.agents.service import NewAgent
from corral.domain.errors import InvalidRequest
from corral.wire.agents import (
    AgentEntry,
    AgentFieldOut,
    AgentIn,
    AgentMetadataOut,
    FormFieldOut,
    FormOptionOut,
    FormTagsOut,
    McpServerIn,
)
from corral.wire.localai import EMPTY_VALUES, IGNORED_MAX, list_programs

_SERVER_FIELDS = frozenset(McpServerIn.model_fields)
# Fields for which LocalAGI writes 0 where it means the default.
_ZERO_MEANS_UNSET = frozenset({
    "auto_compaction_threshold", "kb_results", "loop_detection", "max_attempts", "max_iterations", "max_tokens",
    "temperature",
})  # fmt: skip
_DEFAULTED = frozenset({"conversation_storage_mode", "kb_mode", "periodic_runs", "skills_mode"})
# In the form of LocalAI's page: longer texts have several lines, and MCP servers have controls of their own.
LINE_CHARS_MAX = 255
_OWN_CONTROLS = frozenset({"mcp_servers", "mcp_stdio_servers"})
_FORM_TYPES = {"boolean": "checkbox", "integer": "number", "number": "number"}
_FORM_SECTIONS = {
    "identity": "BasicInfo",
    "model": "ModelSettings",
    "prompts": "PromptsGoals",
    "tools": "AdvancedSettings",
    "skills": "AdvancedSettings",
    "knowledge": "AdvancedSettings",
    "execution": "AdvancedSettings",
    "schedule": "AdvancedSettings",
}


def to_new_agent(body: AgentEntry) -> NewAgent:
    """Return the agent that a checked body describes, with a name for each MCP server."""
    settings = body.model_dump(mode="json", exclude={"name", "shared"})
    names: set[str] = set()
    for server in settings["mcp_servers"]:
        server["name"] = server["name"] or make_server_name(server["url"], names)
        names.add(server["name"])
    return NewAgent(name=body.name, settings=settings, is_shared=body.shared)


def make_server_name(url: str, taken: Collection[str]) -> str:
    """Return a name for an MCP server that was given none, by its host."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    base = re.sub(r"[^a-z0-9]+", "-", host.removeprefix("www.").lower()).strip("-")[:40].strip("-") or "server"
    return base if base not in taken else next(n for i in range(2, 100) if (n := f"{base}-{i}") not in taken)


def read_document(
    document: Mapping[str, Any], *, name: str, may_share: bool, declared: Collection[str]
) -> tuple[AgentEntry, list[str]]:
    """Return an agent that a document describes, and the fields of the document that have no effect here.

    `declared` are the names of declared MCP servers: a program that the document describes is only accepted by such a
    name, because users start no programs."""
    fields, ignored = _split_fields(document)
    if name:
        fields["name"] = name
    if fields.get("shared") and not may_share:
        del fields["shared"]
        ignored.append("shared")
    fields["mcp_servers"] = _read_servers(fields.get("mcp_servers"), ignored)
    fields["mcp_stdio_servers"] = _read_programs(fields.get("mcp_stdio_servers"), declared, ignored)
    try:
        body = AgentEntry.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{where or 'The document'}: {first['msg']}.", code="bad_agent") from None
    return body, ignored[:IGNORED_MAX]


def _split_fields(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    fields: dict[str, Any] = {}
    ignored: list[str] = []
    for key, value in document.items():
        if key not in AgentEntry.model_fields:
            if value not in EMPTY_VALUES:
                ignored.append(str(key)[:100])
        elif not _is_unset(key, value):
            fields[key] = value
    return fields, ignored


def _is_unset(key: str, value: object) -> bool:
    if value is None or (value == "" and key in _DEFAULTED):
        return True
    return key in _ZERO_MEANS_UNSET and value == 0 and not isinstance(value, bool)


def _read_servers(value: object, ignored: list[str]) -> list[Any]:
    servers: list[Any] = []
    for index, server in enumerate(value if isinstance(value, list) else []):
        if not isinstance(server, Mapping):
            servers.append(server)
            continue
        ignored += [f"mcp_servers.{index}.{key}"[:100] for key in server if key not in _SERVER_FIELDS]
        servers.append({key: item for key, item in server.items() if key in _SERVER_FIELDS and item is not None})
    return servers


def _read_programs(value: object, declared: Collection[str], ignored: list[str]) -> list[str]:
    programs = list_programs(value)
    ignored += [f"mcp_stdio_servers.{place}"[:100] for place, name in programs if name not in declared]
    return [name for _, name in programs if name in declared]


@lru_cache(maxsize=1)
def make_metadata() -> AgentMetadataOut:
    """Return the form of an agent, made from the type that checks agents, so that every field has an effect."""
    schema = AgentIn.model_json_schema()
    required = set(schema.get("required", ()))
    fields = [
        _make_field(name, part, schema, is_required=name in required) for name, part in schema["properties"].items()
    ]
    return AgentMetadataOut(
        fields=fields,
        sections=list(dict.fromkeys(field.section for field in fields)),
        json_schema=schema,
        form_fields=[_make_form_field(field, schema) for field in fields if field.name not in _OWN_CONTROLS],
    )


def _make_field(name: str, part: Mapping[str, Any], schema: Mapping[str, Any], *, is_required: bool) -> AgentFieldOut:
    shape = next((one for one in part.get("anyOf", ()) if one.get("type") != "null"), part)
    if "$ref" in shape:
        shape = schema["$defs"][shape["$ref"].rpartition("/")[2]]
    return AgentFieldOut(
        name=name,
        section=part.get("section", ""),
        type=shape.get("type", "string"),
        description=part.get("description") or shape.get("description", ""),
        default=None if is_required else AgentIn(name="x").model_dump(mode="json")[name],
        required=is_required,
        options=list(shape.get("enum", ())),
        minimum=shape.get("minimum"),
        maximum=shape.get("maximum"),
    )


def _make_form_field(field: AgentFieldOut, schema: Mapping[str, Any]) -> FormFieldOut:
    """Return a field for the form of LocalAI's page, which has controls for texts, numbers, choices and switches."""
    is_long = schema["properties"][field.name].get("maxLength", 0) > LINE_CHARS_MAX
    form_type = "select" if field.options else "textarea" if is_long else _FORM_TYPES.get(field.type, "text")
    return FormFieldOut(
        name=field.name,
        type=form_type,
        label=field.name.replace("_", " ").capitalize(),
        default_value=field.default,
        help_text=field.description,
        required=field.required,
        disabled=field.type in ("array", "object"),
        options=[FormOptionOut(value=option, label=str(option)) for option in field.options],
        min=field.minimum,
        max=field.maximum,
        tags=FormTagsOut(section=_FORM_SECTIONS[field.section]),
    )
