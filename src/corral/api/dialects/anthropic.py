"""Anthropic's messages as chat completions, and back. Pure: a request in, a body out; events in, events out.

Exact for text, system prompts, pictures, tools and their results, stop sequences, sampling and JSON schemas. Whatever
else changes what the model is to do is refused by its name. Limits: an engine seldom says which stop sequence ended an
answer, and then it is told as `end_turn`; that a tool's result is an error is told by its text alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from corral.api.dialects import chats
from corral.api.dialects.chats import Said, Tokens, ToolCall, server_sent
from corral.api.dialects.reading import (
    Json,
    content_of,
    copied,
    data_url,
    flag,
    image_part,
    mapping,
    not_expressible,
    objects,
    refuse_others,
    some_text,
    text,
    text_part,
    whole,
    word,
    wrong,
)
from corral.domain.errors import CorralError

_SAME = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop_sequences": "stop",
}
_KNOWN = frozenset({
    *_SAME, "model", "messages", "system", "stream", "tools", "tool_choice", "metadata", "thinking", "output_config",
    # About billing and caching, not about the answer.
    "service_tier", "cache_control", "inference_geo",
})  # fmt: skip
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
# Thoughts of earlier turns are left out, as Anthropic does.
_PAST_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_body(status: int, sentence: str, request_id: str) -> Json:
    kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": sentence}, "request_id": request_id}


def model_object(name: str, created_at: datetime) -> Json:
    return {"type": "model", "id": name, "display_name": name, "created_at": created_at.isoformat()}


def model_list(models: list[Json]) -> Json:
    """All of them on one page."""
    ids = [model["id"] for model in models] or [None]
    return {"data": models, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request. `model` is the name that it asked for, `id` the one that its answer gets."""

    model: str
    id: str
    chat: Json = field(repr=False)
    is_stream: bool
    stream_type: bytes = b"text/event-stream"
    ignored: tuple[str, ...] = ()

    def answer(self, chat: Json) -> Json:
        said = chats.said_in(chat)
        reason, sequence = _ending(said)
        return self.head(said.tokens or Tokens()) | {
            "content": list(_blocks(said)),
            "stop_reason": reason,
            "stop_sequence": sequence,
        }

    def head(self, tokens: Tokens) -> Json:
        return {
            "id": f"msg_{self.id}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(tokens),
        }

    def stream(self) -> MessageStream:
        return MessageStream(self)


def read(body: Json, *, model: str, answer_id: str) -> Message:
    """A request as a chat. `InvalidRequest` names what is wrong, or what cannot be said."""
    refuse_others(body, _KNOWN)
    whole(body.get("max_tokens"), "max_tokens")
    messages = [*_system(body.get("system")), *_messages(body.get("messages"))]
    is_stream = flag(body.get("stream"), "stream", default=False)
    chat: Json = copied(body, _SAME) | {"messages": messages, "stream": is_stream}
    if is_stream:
        chat["stream_options"] = {"include_usage": True}
    chat |= _tools(body) | _thinking(body.get("thinking")) | _format(body.get("output_config"))
    user = mapping(body.get("metadata") or {}, "metadata").get("user_id")
    if isinstance(user, str):
        chat["user"] = user
    return Message(model=model, id=answer_id, chat=chat, is_stream=is_stream)


def _system(value: object) -> Iterator[Json]:
    if value is None:
        return
    said = (
        value if isinstance(value, str) else content_of([_part(where, one) for where, one in objects(value, "system")])
    )
    if not isinstance(said, str):
        raise wrong("system", "text")
    yield {"role": "system", "content": said}


def _messages(value: object) -> Iterator[Json]:
    found = list(objects(value, "messages"))
    if not found:
        raise wrong("messages", "at least one message")
    for where, message in found:
        role = message.get("role")
        content = message.get("content")
        blocks = [("", text_part(content))] if isinstance(content, str) else list(objects(content, f"{where}.content"))
        if role == "user":
            yield from _from_user(blocks)
        elif role == "assistant":
            yield from _from_assistant(blocks)
        else:
            raise wrong(f"{where}.role", "user or assistant")
    if found[-1][1].get("role") == "assistant":
        raise not_expressible("An answer that goes on from the assistant's own words (a last message of the assistant)")


def _from_user(blocks: list[tuple[str, Json]]) -> Iterator[Json]:
    """Results of tools are messages of their own, and they come first."""
    results = [(where, block) for where, block in blocks if block.get("type") == "tool_result"]
    for where, block in results:
        yield {
            "role": "tool",
            "tool_call_id": some_text(block.get("tool_use_id"), f"{where}.tool_use_id"),
            "content": _result(block.get("content"), f"{where}.content"),
        }
    parts = [_part(where, block) for where, block in blocks if block.get("type") != "tool_result"]
    if parts or not results:
        yield {"role": "user", "content": content_of(parts)}


def _result(value: object, where: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    said = content_of([_part(place, part) for place, part in objects(value, where)])
    if not isinstance(said, str):
        raise not_expressible("A picture as the result of a tool")
    return said


def _from_assistant(blocks: list[tuple[str, Json]]) -> Iterator[Json]:
    message: Json = {"role": "assistant", "content": None}
    said, calls = [], []
    for where, block in blocks:
        kind = word(block.get("type"))
        if kind == "tool_use":
            function = {
                "name": some_text(block.get("name"), f"{where}.name"),
                "arguments": json.dumps(mapping(block.get("input"), f"{where}.input"), ensure_ascii=False),
            }
            calls.append({"id": some_text(block.get("id"), f"{where}.id"), "type": "function", "function": function})
        elif kind == "text":
            said.append(text(block.get("text"), f"{where}.text"))
        elif kind not in _PAST_THOUGHTS:
            raise not_expressible(f"A block of the type {kind} in a message of the assistant")
    if said:
        message["content"] = "".join(said)
    if calls:
        message["tool_calls"] = calls
    if said or calls:
        yield message


def _part(where: str, block: Json) -> Json:
    kind = block.get("type")
    if kind == "text":
        return text_part(text(block.get("text"), f"{where}.text"))
    if kind == "image":
        source = mapping(block.get("source"), f"{where}.source")
        if source.get("type") == "base64":
            media_type = some_text(source.get("media_type"), f"{where}.source.media_type")
            return image_part(data_url(media_type, some_text(source.get("data"), f"{where}.source.data")))
        if source.get("type") == "url":
            return image_part(some_text(source.get("url"), f"{where}.source.url"))
        raise not_expressible(f"A picture from a source of the type {source.get('type')}")
    raise not_expressible(f"A block of the type {kind}")


def _tools(body: Json) -> Json:
    chat: Json = {}
    tools = [_tool(where, tool) for where, tool in objects(body.get("tools") or [], "tools")]
    if tools:
        chat["tools"] = tools
    if body.get("tool_choice") is None:
        return chat
    choice = mapping(body["tool_choice"], "tool_choice")
    kind = word(choice.get("type"))
    if kind == "tool":
        chat["tool_choice"] = {"type": "function", "function": {"name": text(choice.get("name"), "tool_choice.name")}}
    elif kind in _CHOICES:
        chat["tool_choice"] = _CHOICES[kind]
    else:
        raise wrong("tool_choice.type", "auto, any, tool or none")
    if flag(choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use", default=False):
        chat["parallel_tool_calls"] = False
    return chat


def _tool(where: str, tool: Json) -> Json:
    if tool.get("type") not in (None, "custom"):
        raise not_expressible(f"The tool {tool['type']}", "it is run by Anthropic's own service")
    function = {
        "name": some_text(tool.get("name"), f"{where}.name"),
        "parameters": mapping(tool.get("input_schema"), f"{where}.input_schema"),
    }
    return {"type": "function", "function": function | copied(tool, {"description": "description", "strict": "strict"})}


def _thinking(value: object) -> Json:
    kind = mapping(value, "thinking").get("type") if value is not None else "adaptive"
    if kind == "enabled":
        raise not_expressible("thinking with a budget")
    return {}


def _format(value: object) -> Json:
    config = mapping(value or {}, "output_config")
    refuse_others(config, {"format"}, "output_config")
    wanted = mapping(config.get("format") or {}, "output_config.format")
    if not wanted:
        return {}
    if wanted.get("type") != "json_schema":
        raise not_expressible(f"output_config.format {wanted.get('type')}")
    schema = mapping(wanted.get("schema"), "output_config.format.schema")
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    }


def _usage(tokens: Tokens) -> Json:
    """Anthropic counts what came from a cache apart."""
    return {
        "input_tokens": max(0, tokens.prompt - tokens.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.completion,
    }


def _ending(said: Said) -> tuple[str, str | None]:
    if said.stopped_by is not None and said.finish == "stop":
        return "stop_sequence", said.stopped_by
    return _STOPS.get(said.finish, "end_turn"), None


def _blocks(said: Said) -> Iterator[Json]:
    if said.reasoning:
        yield {"type": "thinking", "thinking": said.reasoning, "signature": ""}
    spoken = said.text or said.refusal
    if spoken:
        yield {"type": "text", "text": spoken}
    for call in said.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": chats.arguments_of(call)}


class MessageStream:
    """Blocks are opened one after the other; what belongs to another kind, or to another tool, closes the last one."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._has_begun = False
        self._index = -1
        # What the open block is: its type, and for a tool the number of the call.
        self._open: tuple[str, int] | None = None
        self._ending: tuple[str, str | None] | None = None
        self._tokens = Tokens()

    def event(self, chunk: Json) -> bytes:
        return b"".join(self._event(chats.added_by(chunk)))

    def end(self) -> bytes:
        if self._ending is None:
            return self._begin() + self.error(chats.unfinished())
        reason, sequence = self._ending
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        return (
            self._begin()
            + self._close()
            + server_sent("message_delta", {"type": "message_delta", "delta": delta, "usage": _usage(self._tokens)})
            + server_sent("message_stop", {"type": "message_stop"})
        )

    def error(self, error: CorralError) -> bytes:
        return server_sent("error", error_body(error.status, error.message, ""))

    def _event(self, said: Said) -> Iterator[bytes]:
        yield self._begin()
        self._tokens = said.tokens or self._tokens
        if said.reasoning:
            yield self._ensure(("thinking", 0), {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta({"type": "thinking_delta", "thinking": said.reasoning})
        spoken = said.text or said.refusal
        if spoken:
            yield self._ensure(("text", 0), {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": spoken})
        for call in said.calls:
            yield from self._call(call)
        if said.finish:
            self._ending = _ending(said)

    def _call(self, call: ToolCall) -> Iterator[bytes]:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield self._ensure(("tool_use", call.index), block)
        if call.arguments:
            yield self._delta({"type": "input_json_delta", "partial_json": call.arguments})

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        # How long the prompt was is told by a chat at its end; `message_delta` says it.
        start = {"type": "message_start", "message": self._message.head(Tokens())}
        return server_sent("message_start", start)

    def _ensure(self, wanted: tuple[str, int], block: Json) -> bytes:
        if self._open == wanted:
            return b""
        closed = self._close()
        self._open = wanted
        self._index += 1
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closed + server_sent("content_block_start", start)

    def _delta(self, delta: Json) -> bytes:
        return server_sent("content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return server_sent("content_block_stop", {"type": "content_block_stop", "index": self._index})
