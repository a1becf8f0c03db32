"""Reads a chat request as the work of a run: the whole conversation, the caller's tools and the options. Pure.

Guarantee: what a run cannot do is refused by its name and never dropped silently; whatever passes has the types that
workers expect. Limit: a conversation has at most `CONVERSATION_BYTES_MAX` bytes, because it is stored with its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from corral.agents.turns import TurnRequest
from corral.api.dialects.request_values import (
    Json,
    NotExpressible,
    iter_objects,
    make_value_error,
    read_flag,
    read_word,
    require_integer,
    require_object,
    require_some_text,
    require_text,
)
from corral.domain.errors import InvalidRequest, TooLarge
from corral.gateway.request.request_body import decode_shortened
from corral.policy.serving.mcp_choice import has_mcp_keys
from corral.policy.storable_values import check_storable

# Enough for a long conversation with a few pictures. Rows of this size are read whenever the run's state is.
CONVERSATION_BYTES_MAX = 4 * 1024 * 1024
# The values of a large body; more take too long to decode.
CONVERSATION_VALUES_MAX = 20_000
TOOLS_MAX = 256
# Passed on to the model with every step.
_SETTINGS = frozenset({
    "top_p", "top_k", "min_p", "stop", "seed", "presence_penalty", "frequency_penalty", "repeat_penalty",
    "repeat_last_n", "repetition_penalty", "logit_bias", "parallel_tool_calls", "reasoning_effort", "verbosity",
    "chat_template_kwargs", "user",
})  # fmt: skip
_KNOWN = _SETTINGS | {
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "temperature", "max_tokens",
    "max_completion_tokens", "response_format",
    # Fields about billing, caching and bookkeeping, which do not affect the answer.
    "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
}  # fmt: skip
# Values of further fields that ask for nothing.
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "functions": ([],),
    "function_call": ("auto", "none"),
}
_SYSTEM_ROLES = ("system", "developer")
_ROLES = frozenset({*_SYSTEM_ROLES, "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A chat request that a run (such as an LLM agent's turn) will answer: its messages and options."""

    request: TurnRequest
    is_stream: bool = False
    # Whether the last event of a stream counts the tokens.
    includes_usage: bool = False


def read_conversation(chat: Json) -> Conversation:
    """Read the body of a chat completion. Raises `InvalidRequest` that names what is wrong, or what no run can do."""
    check_storable(chat)
    _refuse_unknown(chat)
    messages = list(_iter_messages(chat.get("messages")))
    system = list(takewhile(lambda message: message["role"] == "system", messages))
    if len(system) == len(messages):
        raise make_value_error("messages", "at least one message of a user")
    if messages[-1]["role"] == "assistant":
        raise _make_error("A last message of the assistant, which the answer would continue,")
    stream_options = require_object(chat.get("stream_options") or {}, "stream_options")
    return Conversation(
        request=TurnRequest(
            messages=messages[len(system) :],
            instructions="\n\n".join(_read_text(message) for message in system),
            client_tools=_read_tools(chat),
            options=_read_options(chat),
        ),
        is_stream=read_flag(chat.get("stream"), "stream", default=False),
        includes_usage=read_flag(stream_options.get("include_usage"), "stream_options.include_usage", default=False),
    )


def read_written_conversation(chat: bytes) -> tuple[Conversation, bytes]:
    """Decode and read the bytes of a chat completion: in another process, if they are large."""
    return read_conversation(decode_shortened(chat)), b""


def _make_error(what: str, why: str = "its answer is the work of several steps") -> NotExpressible:
    return NotExpressible(f"{what} is not possible for a request that a run answers: {why}.", hint="Leave it out.")


def _refuse_unknown(chat: Json) -> None:
    for name, value in chat.items():
        if value is not None and name not in _KNOWN and value not in _NEUTRAL.get(name, ()):
            raise _make_error(name[:80])


def _iter_messages(value: object) -> Iterator[Json]:
    for where, message in iter_objects(value, "messages"):
        role = read_word(message.get("role"))
        if role not in _ROLES:
            raise make_value_error(f"{where}.role", "system, developer, user, assistant or tool")
        _check_content(message.get("content"), f"{where}.content")
        if role == "tool":
            require_some_text(message.get("tool_call_id"), f"{where}.tool_call_id")
        for place, call in iter_objects(message.get("tool_calls") or [], f"{where}.tool_calls"):
            _check_call(call, place)
        # Chat templates know the developer as the system.
        yield message | {"role": "system"} if role in _SYSTEM_ROLES else message


def _check_content(value: object, where: str) -> None:
    if value is None or isinstance(value, str):
        return
    for place, part in iter_objects(value, where):
        require_some_text(part.get("type"), f"{place}.type")
        if part["type"] == "text":
            require_text(part.get("text"), f"{place}.text")


def _check_call(call: Json, where: str) -> None:
    require_some_text(call.get("id"), f"{where}.id")
    function = require_object(call.get("function"), f"{where}.function")
    require_some_text(function.get("name"), f"{where}.function.name")
    require_text(function.get("arguments"), f"{where}.function.arguments")


def _read_text(message: Json) -> str:
    content = message.get("content")
    if not isinstance(content, list):
        return content or ""
    if any(part["type"] != "text" for part in content):
        raise make_value_error("messages", "text alone in messages of the system")
    return "\n".join(part["text"] for part in content)


def _read_tools(chat: Json) -> list[Json]:
    """Return the caller's own tools; none if the model may not call them."""
    tools = list(iter_objects(chat.get("tools") or [], "tools"))
    if len(tools) > TOOLS_MAX:
        raise make_value_error("tools", f"a list of at most {TOOLS_MAX}")
    for where, tool in tools:
        if tool.get("type") != "function":
            raise _make_error(f"A tool of the type {str(tool.get('type'))[:80]}", "only functions are known")
        function = require_object(tool.get("function"), f"{where}.function")
        require_some_text(function.get("name"), f"{where}.function.name")
        require_object(function.get("parameters") or {}, f"{where}.function.parameters")
    return [] if chat.get("tool_choice") == "none" else [tool for _, tool in tools]


def _read_options(chat: Json) -> Json:
    """Return what takes the place of the agent's own options (`wire.run_work.RunOptionsSpec`)."""
    options: Json = {}
    if chat.get("temperature") is not None:
        options["temperature"] = _require_number(chat["temperature"], "temperature")
    for name in ("max_tokens", "max_completion_tokens"):
        if chat.get(name) is not None:
            options["max_tokens"] = require_integer(chat[name], name)
    schema = _read_schema(chat.get("response_format"))
    if schema is not None:
        options["response_schema"] = schema
    settings = {name: chat[name] for name in sorted(_SETTINGS & chat.keys()) if chat[name] is not None}
    choice = chat.get("tool_choice")
    if choice not in (None, "auto", "none"):
        if choice != "required":
            require_object(choice, "tool_choice")
        settings["tool_choice"] = choice
    if settings:
        options["model_settings"] = settings
    return options


def _require_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise make_value_error(where, "a number")
    try:
        return float(value)
    except OverflowError as error:
        raise make_value_error(where, "a number") from error


def _read_schema(value: object) -> Json | None:
    """Return the schema that the answer has to match; None if it is free text."""
    if value is None:
        return None
    form = require_object(value, "response_format")
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        raise _make_error(f"response_format {str(kind)[:80]}", "only text, json_object and json_schema are known")
    described = require_object(form.get("json_schema"), "response_format.json_schema")
    return require_object(described.get("schema") or {}, "response_format.json_schema.schema")


def check_size(size_bytes: int, values: int) -> None:
    """Raise `TooLarge` or `InvalidRequest` for a conversation that is too large to be stored or decoded."""
    if size_bytes > CONVERSATION_BYTES_MAX:
        raise TooLarge(
            f"The conversation is larger than {CONVERSATION_BYTES_MAX // 1024} KiB, the limit where a run answers.",
            hint="Leave out old messages, or send smaller pictures.",
        )
    if values > CONVERSATION_VALUES_MAX:
        raise InvalidRequest(
            f"The body has more than {CONVERSATION_VALUES_MAX} values.",
            hint="Leave out or join some of them.",
            code="too_many_values",
        )


def refuse_mcp_keys(metadata: object) -> None:
    """Raise `InvalidRequest` if a call for an agent chooses MCP servers: an agent has its own."""
    if has_mcp_keys(metadata):
        raise InvalidRequest(
            "metadata: an agent uses its own MCP servers, and none that a request chooses.",
            hint="Leave mcp_servers, mcp_prompt and mcp_resources out, or ask a model.",
            code="mcp_with_agent",
        )
