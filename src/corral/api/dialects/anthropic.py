"""Translates Anthropic's messages to chat completions, and back. Pure: a request in, a body out; events in, events out.

Exact for text, system prompts, pictures, tools and their results, stop sequences, sampling and JSON schemas. Any other
field that changes what the model does is refused by its name. Limits: an engine seldom reports which stop sequence
ended a response, which is then reported as `end_turn`; that a tool's result is an error shows in its text alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from corral.api.dialects import chat_completion
from corral.api.dialects.chat_completion import (
    ChatContent,
    TokenCounts,
    ToolCall,
    render_comment,
    render_server_sent_event,
)
from corral.api.dialects.request_values import (
    Json,
    copy_renamed,
    iter_objects,
    join_content,
    make_data_url,
    make_image_part,
    make_not_expressible_error,
    make_text_part,
    make_value_error,
    read_flag,
    read_word,
    refuse_unknown,
    require_integer,
    require_object,
    require_some_text,
    require_text,
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
    # Fields about billing and caching, which do not affect the response.
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


def render_error_body(status: int, sentence: str, request_id: str) -> Json:
    kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": sentence}, "request_id": request_id}


def render_model(name: str, created_at: datetime) -> Json:
    return {"type": "model", "id": name, "display_name": name, "created_at": created_at.isoformat()}


def render_model_list(models: list[Json]) -> Json:
    """Render all models on one page."""
    ids = [model["id"] for model in models] or [None]
    return {"data": models, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesTranslation:
    """Translates one request of Anthropic's Messages API to a chat completion, and the response back.

    `model` is the requested name, `id` the one that its response gets.
    """

    model: str
    id: str
    chat: Json = field(repr=False)
    is_stream: bool
    stream_type: bytes = b"text/event-stream"
    call: str = "chat"
    ignored: tuple[str, ...] = ()

    def without_chat(self) -> MessagesTranslation:
        return replace(self, chat={})

    def translate_response(self, chat: Json) -> Json:
        content = chat_completion.parse_completion(chat)
        reason, sequence = _find_stop_reason(content)
        return self.render_head(content.tokens or TokenCounts()) | {
            "content": list(_render_blocks(content, self.id)),
            "stop_reason": reason,
            "stop_sequence": sequence,
        }

    def render_head(self, tokens: TokenCounts) -> Json:
        return {
            "id": f"msg_{self.id}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _render_usage(tokens),
        }

    def begin_stream(self) -> MessagesStreamTranslation:
        return MessagesStreamTranslation(self)


def parse_request(body: Json, *, model: str, answer_id: str) -> MessagesTranslation:
    """Parse a request as a chat. Raises `InvalidRequest` that names what is wrong, or what cannot be translated."""
    refuse_unknown(body, _KNOWN)
    require_integer(body.get("max_tokens"), "max_tokens")
    messages = [*_translate_system(body.get("system")), *_translate_messages(body.get("messages"))]
    is_stream = read_flag(body.get("stream"), "stream", default=False)
    chat: Json = copy_renamed(body, _SAME) | {"messages": messages, "stream": is_stream}
    if is_stream:
        chat["stream_options"] = {"include_usage": True}
    chat |= (
        _translate_tools(body) | _check_thinking(body.get("thinking")) | _translate_format(body.get("output_config"))
    )
    user = require_object(body.get("metadata") or {}, "metadata").get("user_id")
    if isinstance(user, str):
        chat["user"] = user
    return MessagesTranslation(model=model, id=answer_id, chat=chat, is_stream=is_stream)


def _translate_system(value: object) -> Iterator[Json]:
    if value is None:
        return
    system_text = (
        value
        if isinstance(value, str)
        else join_content([_translate_part(where, one) for where, one in iter_objects(value, "system")])
    )
    if not isinstance(system_text, str):
        raise make_value_error("system", "text")
    yield {"role": "system", "content": system_text}


def _translate_messages(value: object) -> Iterator[Json]:
    found = list(iter_objects(value, "messages"))
    if not found:
        raise make_value_error("messages", "at least one message")
    for where, message in found:
        role = message.get("role")
        content = message.get("content")
        blocks = (
            [("", make_text_part(content))]
            if isinstance(content, str)
            else list(iter_objects(content, f"{where}.content"))
        )
        if role == "user":
            yield from _translate_user(blocks)
        elif role == "assistant":
            yield from _translate_assistant(blocks)
        else:
            raise make_value_error(f"{where}.role", "user or assistant")
    if found[-1][1].get("role") == "assistant":
        raise make_not_expressible_error(
            "A response that continues the assistant's own text (a last message of the assistant)"
        )


def _translate_user(blocks: list[tuple[str, Json]]) -> Iterator[Json]:
    """Translate the blocks of a user message. Results of tools are messages of their own, and they come first."""
    results = [(where, block) for where, block in blocks if block.get("type") == "tool_result"]
    for where, block in results:
        yield {
            "role": "tool",
            "tool_call_id": require_some_text(block.get("tool_use_id"), f"{where}.tool_use_id"),
            "content": _translate_tool_result(block.get("content"), f"{where}.content"),
        }
    parts = [_translate_part(where, block) for where, block in blocks if block.get("type") != "tool_result"]
    if parts or not results:
        yield {"role": "user", "content": join_content(parts)}


def _translate_tool_result(value: object, where: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    content = join_content([_translate_part(path, part) for path, part in iter_objects(value, where)])
    if not isinstance(content, str):
        raise make_not_expressible_error("A picture as the result of a tool")
    return content


def _translate_assistant(blocks: list[tuple[str, Json]]) -> Iterator[Json]:
    message: Json = {"role": "assistant", "content": None}
    texts, calls = [], []
    for where, block in blocks:
        kind = read_word(block.get("type"))
        if kind == "tool_use":
            function = {
                "name": require_some_text(block.get("name"), f"{where}.name"),
                "arguments": json.dumps(require_object(block.get("input"), f"{where}.input"), ensure_ascii=False),
            }
            calls.append(
                {"id": require_some_text(block.get("id"), f"{where}.id"), "type": "function", "function": function}
            )
        elif kind == "text":
            texts.append(require_text(block.get("text"), f"{where}.text"))
        elif kind not in _PAST_THOUGHTS:
            raise make_not_expressible_error(f"A block of the type {kind} in a message of the assistant")
    if texts:
        message["content"] = "".join(texts)
    if calls:
        message["tool_calls"] = calls
    if texts or calls:
        yield message


def _translate_part(where: str, block: Json) -> Json:
    kind = block.get("type")
    if kind == "text":
        return make_text_part(require_text(block.get("text"), f"{where}.text"))
    if kind == "image":
        source = require_object(block.get("source"), f"{where}.source")
        if source.get("type") == "base64":
            media_type = require_some_text(source.get("media_type"), f"{where}.source.media_type")
            return make_image_part(
                make_data_url(media_type, require_some_text(source.get("data"), f"{where}.source.data"))
            )
        if source.get("type") == "url":
            return make_image_part(require_some_text(source.get("url"), f"{where}.source.url"))
        raise make_not_expressible_error(f"A picture from a source of the type {source.get('type')}")
    raise make_not_expressible_error(f"A block of the type {kind}")


def _translate_tools(body: Json) -> Json:
    chat: Json = {}
    tools = [_translate_tool(where, tool) for where, tool in iter_objects(body.get("tools") or [], "tools")]
    if tools:
        chat["tools"] = tools
    if body.get("tool_choice") is None:
        return chat
    choice = require_object(body["tool_choice"], "tool_choice")
    kind = read_word(choice.get("type"))
    if kind == "tool":
        chat["tool_choice"] = {
            "type": "function",
            "function": {"name": require_text(choice.get("name"), "tool_choice.name")},
        }
    elif kind in _CHOICES:
        chat["tool_choice"] = _CHOICES[kind]
    else:
        raise make_value_error("tool_choice.type", "auto, any, tool or none")
    if read_flag(choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use", default=False):
        chat["parallel_tool_calls"] = False
    return chat


def _translate_tool(where: str, tool: Json) -> Json:
    if tool.get("type") not in (None, "custom"):
        raise make_not_expressible_error(f"The tool {tool['type']}", "it is run by Anthropic's own service")
    function = {
        "name": require_some_text(tool.get("name"), f"{where}.name"),
        "parameters": require_object(tool.get("input_schema"), f"{where}.input_schema"),
    }
    return {
        "type": "function",
        "function": function | copy_renamed(tool, {"description": "description", "strict": "strict"}),
    }


def _check_thinking(value: object) -> Json:
    kind = require_object(value, "thinking").get("type") if value is not None else "adaptive"
    if kind == "enabled":
        raise make_not_expressible_error("thinking with a budget")
    return {}


def _translate_format(value: object) -> Json:
    config = require_object(value or {}, "output_config")
    refuse_unknown(config, {"format"}, "output_config")
    response_format = require_object(config.get("format") or {}, "output_config.format")
    if not response_format:
        return {}
    if response_format.get("type") != "json_schema":
        raise make_not_expressible_error(f"output_config.format {response_format.get('type')}")
    schema = require_object(response_format.get("schema"), "output_config.format.schema")
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    }


def _render_usage(tokens: TokenCounts) -> Json:
    """Render the usage. Anthropic counts cached tokens separately."""
    return {
        "input_tokens": max(0, tokens.prompt - tokens.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.completion,
    }


def _find_stop_reason(content: ChatContent) -> tuple[str, str | None]:
    if content.stopped_by is not None and content.finish == "stop":
        return "stop_sequence", content.stopped_by
    return _STOPS.get(content.finish, "end_turn"), None


def _render_blocks(content: ChatContent, message_id: str) -> Iterator[Json]:
    if content.reasoning:
        yield {"type": "thinking", "thinking": content.reasoning, "signature": ""}
    spoken = content.text or content.refusal
    if spoken:
        yield {"type": "text", "text": spoken}
    for call in content.calls:
        yield _render_tool_use(call, message_id) | {"input": chat_completion.parse_arguments(call)}


def _render_tool_use(call: ToolCall, message_id: str) -> Json:
    """Return the block of a call. Clients name its id with the result, so a call without an id gets one."""
    call_id = call.id or f"toolu_{message_id}_{call.index}"
    return {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}


class MessagesStreamTranslation:
    """Translates the events of a chat completion's stream to those of Anthropic's Messages API.

    Blocks are opened one after the other.
    """

    def __init__(self, message: MessagesTranslation) -> None:
        self._message = message
        self._has_begun = False
        self._index = -1
        # The open block: its type, and for a tool the number of the call.
        self._open: tuple[str, int] | None = None
        self._stop_reason: tuple[str, str | None] | None = None
        self._tokens = TokenCounts()

    def translate_event(self, chunk: Json) -> bytes:
        return b"".join(self._render_event(chat_completion.parse_chunk(chunk)))

    def render_extra(self, name: str, data: Json) -> bytes:
        return render_server_sent_event(name, {"type": name} | data)

    def render_quiet(self, state: str) -> bytes:
        return render_comment(state)

    def render_end(self) -> bytes:
        if self._stop_reason is None:
            return self._begin() + self.render_error(chat_completion.make_unfinished_error())
        reason, sequence = self._stop_reason
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        return (
            self._begin()
            + self._close()
            + render_server_sent_event(
                "message_delta", {"type": "message_delta", "delta": delta, "usage": _render_usage(self._tokens)}
            )
            + render_server_sent_event("message_stop", {"type": "message_stop"})
        )

    def render_error(self, error: CorralError) -> bytes:
        return render_server_sent_event("error", render_error_body(error.status, error.message, ""))

    def _render_event(self, content: ChatContent) -> Iterator[bytes]:
        yield self._begin()
        self._tokens = content.tokens or self._tokens
        if content.reasoning:
            yield self._ensure_block(("thinking", 0), {"type": "thinking", "thinking": "", "signature": ""})
            yield self._render_delta({"type": "thinking_delta", "thinking": content.reasoning})
        spoken = content.text or content.refusal
        if spoken:
            yield self._ensure_block(("text", 0), {"type": "text", "text": ""})
            yield self._render_delta({"type": "text_delta", "text": spoken})
        for call in content.calls:
            yield from self._call(call)
        if content.finish:
            self._stop_reason = _find_stop_reason(content)

    def _call(self, call: ToolCall) -> Iterator[bytes]:
        yield self._ensure_block(("tool_use", call.index), _render_tool_use(call, self._message.id))
        if call.arguments:
            yield self._render_delta({"type": "input_json_delta", "partial_json": call.arguments})

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        # A chat reports the length of the prompt at its end, so `message_delta` has it.
        start = {"type": "message_start", "message": self._message.render_head(TokenCounts())}
        return render_server_sent_event("message_start", start)

    def _ensure_block(self, key: tuple[str, int], block: Json) -> bytes:
        if self._open == key:
            return b""
        closed = self._close()
        self._open = key
        self._index += 1
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closed + render_server_sent_event("content_block_start", start)

    def _render_delta(self, delta: Json) -> bytes:
        return render_server_sent_event(
            "content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta}
        )

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return render_server_sent_event("content_block_stop", {"type": "content_block_stop", "index": self._index})
