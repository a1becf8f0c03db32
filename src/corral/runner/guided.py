"""Guided steps: tool calls for models that have none of their own, by a JSON schema that each answer has to match.

An answer is an object that is either `{"tool": <name>, "arguments": {…}}`, with the schema of that tool, or
`{"answer": "…"}`; a step that has to call a tool, or that may not, has no choice. The engine enforces it
(`response_format`); one that ignores it gives plain text, which is taken as the answer. Also reads calls that a model
with native tools has written as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from corral.runner.tool_catalog import RunTool

_FENCE = re.compile(r"\A```[a-zA-Z]*\s*\n(?P<inner>.*?)\n?```\s*\Z", re.DOTALL)
_WRAPPERS = (("<tool_call>", "</tool_call>"), ("[TOOL_CALLS]", ""), ("<|python_tag|>", ""))
# How a call that is written as text begins, without spaces.
_CALL_BEGINNINGS = ('{"', '[{"', *(opening.replace(" ", "") for opening, _ in _WRAPPERS))
_LANGUAGE_CHARACTERS_MAX = 20
# While an answer grows, it is parsed again after so many characters, so that a long one does not cost its square.
_PARSE_EVERY = 1024
_PARSE_ALWAYS_BELOW = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A tool call that a model asks for in its answer. `arguments` is None if they are no JSON object; see `raw`."""

    name: str
    arguments: Mapping[str, Any] | None = field(default_factory=dict)
    raw: str = ""


def make_step_format(
    tools: Sequence[RunTool], answer_schema: Mapping[str, Any] | None, *, must_call: bool = False
) -> dict[str, Any]:
    """Return the `response_format` of a guided step: the call of one of the tools, or an answer. Without tools it is an
    answer; with `must_call` it is a call."""
    definitions: dict[str, Any] = {}
    variants = [_make_call_schema(tool, index, definitions) for index, tool in enumerate(tools)]
    answer: Mapping[str, Any] = {"type": "string"}
    if answer_schema is not None:
        answer = _hoist_definitions(answer_schema, "answer", definitions)
    if not must_call:
        variants.append(_make_object({"answer": answer}))
    schema: dict[str, Any] = {"anyOf": variants} if len(variants) > 1 else dict(variants[0])
    if definitions:
        schema["$defs"] = definitions
    return make_response_format("step", schema)


def make_response_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}


def _make_call_schema(tool: RunTool, index: int, definitions: dict[str, Any]) -> dict[str, Any]:
    arguments = _hoist_definitions(tool.schema, f"t{index}", definitions)
    return _make_object({"tool": {"const": tool.name}, "arguments": arguments})


def _make_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _hoist_definitions(schema: Mapping[str, Any], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Move the definitions of a schema to the top of the whole one, under names of its own: references are absolute."""
    renamed: dict[str, str] = {}
    for section in ("$defs", "definitions"):
        entries = schema.get(section)
        for name in entries if isinstance(entries, Mapping) else ():
            renamed[f"#/{section}/{name}"] = f"#/$defs/{prefix}_{name}"
    for section in ("$defs", "definitions"):
        entries = schema.get(section)
        if isinstance(entries, Mapping):
            definitions |= {f"{prefix}_{name}": _rename(entry, renamed) for name, entry in entries.items()}
    rest = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", "$schema", "$id")}
    moved: dict[str, Any] = _rename(rest, renamed)
    return moved


def _rename(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: renamed.get(item, item) if key == "$ref" and isinstance(item, str) else _rename(item, renamed)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_rename(item, renamed) for item in value]
    return value


_MAY_CALL = (
    "You can use the tools below. Answer with one JSON object and nothing else.",
    'To call a tool: {"tool": "<name>", "arguments": {…}}. You get its result in the next message.',
    'To answer the user: {"answer": "<your answer>"}.',
    "",
)
# What cannot be chosen is not mentioned: small models copy from what they read.
_MUST_CALL = (
    "Call one of the tools below for the user. Answer with one JSON object and nothing else:",
    '{"tool": "<name>", "arguments": {…}}',
    "Take the arguments from what the user says. You get the result in the next message.",
    "",
)
_MUST_ANSWER = (
    "Answer the user with the results that you have. Answer with one JSON object and nothing else:",
    '{"answer": "<your answer>"}',
)


def describe_tools(tools: Sequence[RunTool], *, must_call: bool = False) -> str:
    """Return the part of the system prompt that explains guided steps and lists the tools."""
    lines = list(_MUST_CALL if must_call else _MAY_CALL if tools else _MUST_ANSWER)
    lines += [
        f"- {tool.name}: {tool.description.strip()}\n  arguments: {json.dumps(tool.schema, ensure_ascii=False)}"
        for tool in tools
    ]
    return "\n".join(lines)


def read_step(text: str) -> RequestedCall | str:
    """Return what a guided answer says: a call, or the text of an answer."""
    value = _find_json(text)
    if not isinstance(value, Mapping):
        return text.strip()
    if isinstance(name := value.get("tool"), str):
        return _make_call(name, value.get("arguments"))
    if "answer" in value:
        answer = value["answer"]
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text.strip()


def may_become_call(text: str) -> bool:
    """Return whether an answer that begins like this may be a call that is written as text."""
    begun = text.lstrip()
    if begun.startswith("```") or "```".startswith(begun):
        language, is_complete, begun = begun.removeprefix("```").partition("\n")
        if not is_complete:
            return len(language) <= _LANGUAGE_CHARACTERS_MAX
    begun = "".join(begun[:40].split())
    return any(begun.startswith(mark) or mark.startswith(begun) for mark in _CALL_BEGINNINGS)


def read_written_calls(text: str, names: Iterable[str]) -> list[RequestedCall]:
    """Return the calls of known tools that make up a whole answer; none if the answer is anything else."""
    known = frozenset(names)
    value = _find_json(text)
    entries = value if isinstance(value, list) else [value]
    calls: list[RequestedCall] = []
    for entry in entries:
        call = _read_written_call(entry)
        if call is None or call.name not in known:
            return []
        calls.append(call)
    return calls


def _read_written_call(entry: object) -> RequestedCall | None:
    if not isinstance(entry, Mapping):
        return None
    if isinstance(inner := entry.get("function"), Mapping):
        entry = inner
    name = next((entry[key] for key in ("name", "tool", "function") if isinstance(entry.get(key), str)), None)
    arguments = next((entry[key] for key in ("arguments", "parameters", "args") if key in entry), None)
    return None if name is None or arguments is None else _make_call(name, arguments)


def _make_call(name: str, arguments: object) -> RequestedCall:
    if isinstance(arguments, str):
        return make_requested_call(name, arguments)
    if arguments is None:
        arguments = {}
    if isinstance(arguments, Mapping):
        return RequestedCall(name=name, arguments=arguments)
    return RequestedCall(name=name, arguments=None, raw=json.dumps(arguments, ensure_ascii=False))


def make_requested_call(name: str, raw: str) -> RequestedCall:
    """Return the call with arguments as an engine writes them; no arguments at all are an empty object."""
    try:
        arguments = from_json(raw) if raw.strip() else {}
    except ValueError:
        arguments = None
    return RequestedCall(name=name, arguments=arguments if isinstance(arguments, dict) else None, raw=raw)


def _find_json(text: str) -> Any:
    text = text.strip()
    for opening, closing in _WRAPPERS:
        if text.startswith(opening):
            text = text.removeprefix(opening).removesuffix(closing).strip()
    if fenced := _FENCE.match(text):
        text = fenced["inner"].strip()
    try:
        return from_json(text)
    except ValueError:
        return None


class AnswerReader:
    """Reads a model's answer text out of the forced JSON while it arrives, to show the text piece by piece.

    Used in a guided step, where a JSON schema forces the answer.
    """

    def __init__(self) -> None:
        self.text = ""
        self._shown = ""
        self._parsed = 0

    def feed(self, piece: str) -> str:
        """Return what this piece adds to the answer; nothing if the step is a call, or not known to be an answer."""
        self.text += piece
        if len(self.text) > _PARSE_ALWAYS_BELOW and len(self.text) - self._parsed < _PARSE_EVERY:
            return ""
        self._parsed = len(self.text)
        try:
            value = from_json(self.text, allow_partial="trailing-strings")
        except ValueError:
            return ""
        answer = value.get("answer") if isinstance(value, dict) else None
        return self._advance(answer) if isinstance(answer, str) else ""

    def finish(self, answer: str) -> str:
        """Return the part of the complete answer that has not been shown."""
        return self._advance(answer)

    def _advance(self, answer: str) -> str:
        if not answer.startswith(self._shown):
            return ""
        new = answer[len(self._shown) :]
        self._shown = answer
        return new
