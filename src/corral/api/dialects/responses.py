"""Translates OpenAI's responses to chat completions, and back. Pure: a request in, a body out; events in, events out.

Exact for text, instructions, pictures, functions and their outputs, JSON schemas, logprobs and sampling. Responses are
not stored here: a request that refers to an earlier response, or asks for storage, is refused.

Agents bring tools of their own together with tools that OpenAI's service runs (web_search, namespace, …). If the model
may choose, the latter are left out and named in `ignored`: the model cannot choose what it is not offered. They are
refused by name where there are no others, or where a call is required.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

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
    make_image_part,
    make_not_expressible_error,
    make_text_part,
    make_value_error,
    read_flag,
    read_word,
    refuse_unknown,
    require_object,
    require_some_text,
    require_text,
)
from corral.domain.errors import CorralError

_SAME = {
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "user": "user",
}
_KNOWN = frozenset({
    *_SAME, "model", "input", "instructions", "stream", "tools", "tool_choice", "text", "reasoning", "include",
    "top_logprobs", "store", "truncation", "background", "stream_options",
    # Fields about billing, caching and bookkeeping; the last counts calls of OpenAI's own tools.
    "metadata", "client_metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
    "safety_identifier", "max_tool_calls",
})  # fmt: skip
_ECHOED: Json = {
    "instructions": None, "max_output_tokens": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0,
    "top_p": 1.0, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "user": None,
}  # fmt: skip
_LOGPROBS = "message.output_text.logprobs"
# Responses are not stored here, so nothing has to be sent back encrypted.
_INCLUDED = frozenset({_LOGPROBS, "reasoning.encrypted_content"})
# How much of a caller's text is repeated in a header.
_TYPE_CHARS_MAX = 64
# Chat templates know the developer as the system, as OpenAI documents.
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
# The reason of an incomplete response; any other end is a completed one.
CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesTranslation:
    """Translates one request of OpenAI's Responses API to a chat completion, and the response back.

    `model` is the requested name, `id` the one that its response gets.
    """

    model: str
    id: str
    created_at: int
    chat: Json = field(repr=False)
    is_stream: bool
    # The fields of the request that the response repeats. Those of a stream are encoded once, because several events
    # have them, and a list of tools may be long.
    echoed: Json = field(repr=False)
    echoed_json: bytes = field(default=b"", repr=False)
    # Ignored fields, which cannot change what the model is offered.
    ignored: tuple[str, ...] = ()
    stream_type: bytes = b"text/event-stream"
    call: str = "chat"

    def without_chat(self) -> ResponsesTranslation:
        return replace(self, chat={})

    def translate_response(self, chat: Json) -> Json:
        content, items = build_items(chat, self.id)
        return self.render_head() | render_finished(content, items)

    def render_head(self) -> Json:
        """Return the response as it is before the first output."""
        return self._render_own_head() | (json.loads(self.echoed_json) if self.echoed_json else self.echoed)

    def _render_own_head(self) -> Json:
        return {
            "id": f"resp_{self.id}",
            "object": "response",
            "created_at": self.created_at,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": [],
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            "usage": None,
        }

    def begin_stream(self) -> ResponsesStreamTranslation:
        return ResponsesStreamTranslation(self._render_own_head(), self.id, self.echoed_json)


def parse_request(body: Json, *, model: str, answer_id: str, created_at: int) -> ResponsesTranslation:
    """Parse a request as a chat. Raises `InvalidRequest` that names what is wrong, or what cannot be translated."""
    refuse_unknown(body, _KNOWN)
    _refuse_stored(body)
    is_stream = read_flag(body.get("stream"), "stream", default=False)
    chat: Json = copy_renamed(body, _SAME) | {
        "messages": _join_system(list(_translate_messages(body))),
        "stream": is_stream,
    }
    if is_stream:
        chat["stream_options"] = {"include_usage": True}
    tools, left_out = _split_tools(body)
    chat |= (
        _translate_tools(body, tools)
        | _translate_text_options(body)
        | _translate_reasoning(body)
        | _translate_logprobs(body)
    )
    echoed = {name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()}
    echoed["text"] = body.get("text") or {"format": {"type": "text"}}
    echoed["reasoning"] = {"effort": None, "summary": None} | (body.get("reasoning") or {})
    echoed["tools"] = [tool for _, tool in tools]
    return ResponsesTranslation(
        model=model,
        id=answer_id,
        created_at=created_at,
        chat=chat,
        is_stream=is_stream,
        echoed={} if is_stream else echoed,
        echoed_json=json.dumps(echoed, ensure_ascii=False).encode(errors="replace") if is_stream else b"",
        ignored=(*left_out, *_list_ignored_includes(body)),
    )


def _refuse_stored(body: Json) -> None:
    for name in ("store", "background"):
        if read_flag(body.get(name), name, default=False):
            raise make_not_expressible_error(f"{name}: true", "responses are not stored here")
    if body.get("truncation") not in (None, "disabled"):
        raise make_not_expressible_error(f"truncation: {body['truncation']}")


def _join_system(messages: list[Json]) -> list[Json]:
    """Join the system's texts at the beginning into one message: many chat templates read the first one only."""
    leading = list(takewhile(lambda one: one["role"] == "system" and isinstance(one["content"], str), messages))
    if len(leading) < 2:
        return messages
    joined = "\n\n".join(one["content"] for one in leading)
    return [{"role": "system", "content": joined}, *messages[len(leading) :]]


def _translate_messages(body: Json) -> Iterator[Json]:
    if body.get("instructions") is not None:
        yield {"role": "system", "content": require_text(body["instructions"], "instructions")}
    given = body.get("input")
    if isinstance(given, str):
        yield {"role": "user", "content": given}
        return
    found = list(iter_objects(given, "input"))
    if not found:
        raise make_value_error("input", "a text, or at least one item")
    messages: list[Json] = []
    for where, item in found:
        _add_item(messages, where, item)
    if messages and "tool_calls" in messages[-1]:
        raise make_value_error("input", "the output of every function that was called")
    yield from messages


def _add_item(messages: list[Json], where: str, item: Json) -> None:
    """Add an item. The model's text and calls of one turn are one message of a chat; reasoning is left out."""
    kind = item.get("type")
    if kind == "reasoning":
        return
    last = messages[-1] if messages else {}
    if kind == "function_call":
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": None}
            messages.append(last)
        last.setdefault("tool_calls", []).append(_translate_call(where, item))
        return
    message = _translate_item(where, item)
    if message["role"] == "assistant" and "tool_calls" in last and last["content"] is None:
        last["content"] = message["content"]
    else:
        messages.append(message)


def _translate_item(where: str, item: Json) -> Json:
    kind = item.get("type")
    if kind in (None, "message"):
        return _translate_message(where, item)
    if kind == "function_call_output":
        output = item.get("output")
        parts = [make_text_part(output)] if isinstance(output, str) else _translate_parts(output, f"{where}.output")
        content = join_content(parts)
        if not isinstance(content, str):
            raise make_not_expressible_error("A picture as the output of a function")
        return {
            "role": "tool",
            "tool_call_id": require_some_text(item.get("call_id"), f"{where}.call_id"),
            "content": content,
        }
    if kind == "item_reference":
        raise make_not_expressible_error("An item_reference", "responses are not stored here")
    raise make_not_expressible_error(f"An item of the type {kind}")


def _translate_call(where: str, item: Json) -> Json:
    function = {
        "name": require_some_text(item.get("name"), f"{where}.name"),
        "arguments": require_text(item.get("arguments"), f"{where}.arguments"),
    }
    return {"id": require_some_text(item.get("call_id"), f"{where}.call_id"), "type": "function", "function": function}


def _translate_message(where: str, item: Json) -> Json:
    role = _ROLES.get(read_word(item.get("role")))
    if role is None:
        raise make_value_error(f"{where}.role", "user, assistant, system or developer")
    content = item.get("content")
    if not isinstance(content, str):
        content = join_content(_translate_parts(content, f"{where}.content"))
    return {"role": role, "content": content}


def _translate_parts(value: object, where: str) -> list[Json]:
    return [_translate_part(path, part) for path, part in iter_objects(value, where)]


def _translate_part(where: str, part: Json) -> Json:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return make_text_part(require_text(part.get("text"), f"{where}.text"))
    if kind == "refusal":
        return make_text_part(require_text(part.get("refusal"), f"{where}.refusal"))
    if kind == "input_image" and part.get("image_url") is not None:
        return make_image_part(require_some_text(part["image_url"], f"{where}.image_url"), part.get("detail"))
    raise make_not_expressible_error(
        "A picture from a file_id" if kind == "input_image" else f"Content of the type {kind}"
    )


def _split_tools(body: Json) -> tuple[list[tuple[str, Json]], tuple[str, ...]]:
    """Return the functions among the tools, and the types of the tools that are left out."""
    tools = list(iter_objects(body.get("tools") or [], "tools"))
    functions = [(where, tool) for where, tool in tools if tool.get("type") == "function"]
    others = [str(tool.get("type"))[:_TYPE_CHARS_MAX] for _, tool in tools if tool.get("type") != "function"]
    choice = body.get("tool_choice")
    is_free = choice in (None, "auto") and bool(functions)
    if others and not (is_free or choice == "none" or _is_function_choice(choice)):
        raise make_not_expressible_error(f"The tool {others[0]}", "it is run by OpenAI's own service")
    return functions, tuple(f"tools.{kind}" for kind in dict.fromkeys(others))


def _is_function_choice(choice: object) -> bool:
    return isinstance(choice, dict) and choice.get("type") == "function"


def _translate_tools(body: Json, functions: list[tuple[str, Json]]) -> Json:
    chat: Json = {}
    if functions:
        chat["tools"] = [_translate_tool(where, tool) for where, tool in functions]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            raise make_not_expressible_error(f"tool_choice {choice.get('type')}")
        chat["tool_choice"] = {
            "type": "function",
            "function": {"name": require_text(choice.get("name"), "tool_choice.name")},
        }
    elif choice is not None:
        chat["tool_choice"] = require_text(choice, "tool_choice")
    return chat


def _translate_tool(where: str, tool: Json) -> Json:
    function = {"name": require_some_text(tool.get("name"), f"{where}.name")}
    same = {"description": "description", "parameters": "parameters", "strict": "strict"}
    return {"type": "function", "function": function | copy_renamed(tool, same)}


def _translate_text_options(body: Json) -> Json:
    options = require_object(body.get("text") or {}, "text")
    refuse_unknown(options, {"format"} | ({"verbosity"} if options.get("verbosity") == "medium" else set()), "text")
    form = require_object(options.get("format") or {}, "text.format")
    kind = form.get("type", "text")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if kind != "json_schema":
        raise make_not_expressible_error(f"text.format {kind}")
    schema = {name: value for name, value in form.items() if name != "type" and value is not None}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _translate_reasoning(body: Json) -> Json:
    options = require_object(body.get("reasoning") or {}, "reasoning")
    # Reasoning is sent unchanged, never summarised, whatever form of summary is requested.
    refuse_unknown(options, {"effort", "summary", "generate_summary"}, "reasoning")
    return copy_renamed(options, {"effort": "reasoning_effort"})


def _list_ignored_includes(body: Json) -> Iterator[str]:
    """Yield the includes that concern tools which do not run here, so that there is nothing to include."""
    for index, one in enumerate(body.get("include") or []):
        if require_text(one, f"include[{index}]") not in _INCLUDED:
            yield f"include.{one[:_TYPE_CHARS_MAX]}"


def _translate_logprobs(body: Json) -> Json:
    included = body.get("include") or []
    if not isinstance(included, list):
        raise make_value_error("include", "a list")
    if body.get("top_logprobs"):
        return {"logprobs": True, "top_logprobs": body["top_logprobs"]}
    return {"logprobs": True} if _LOGPROBS in included else {}


def build_items(chat: Json, response_id: str) -> tuple[ChatContent, list[Json]]:
    """Return the content of a whole chat completion, and the items that it becomes."""
    content = chat_completion.parse_completion(chat)
    items = []
    if content.reasoning:
        items.append(render_reasoning(f"rs_{response_id}", content.reasoning))
    if content.refusal:
        items.append(render_message(f"msg_{response_id}", [render_refusal(content.refusal)]))
    elif content.text or not content.calls:
        items.append(render_message(f"msg_{response_id}", [render_output_text(content.text, content.logprobs)]))
    items += [render_function_call(f"fc_{response_id}_{call.index}", call) for call in content.calls]
    return content, items


def render_finished(content: ChatContent, items: Sequence[Json]) -> Json:
    """Return the fields that a response has when it is complete."""
    reason = CUT_SHORT.get(content.finish)
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(items),
        "usage": render_usage(content.tokens or TokenCounts()),
    }


def render_usage(tokens: TokenCounts) -> Json:
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.prompt + tokens.completion,
    }


def render_reasoning(item_id: str, text: str, status: str = "completed") -> Json:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": item_id, "type": "reasoning", "status": status, "summary": [], "content": content}


def render_message(item_id: str, content: list[Json], status: str = "completed") -> Json:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def render_output_text(text: str, logprobs: Sequence[Json] = ()) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}


def render_refusal(text: str) -> Json:
    return {"type": "refusal", "refusal": text}


def render_function_call(item_id: str, call: ToolCall, status: str = "completed") -> Json:
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        # Clients send the id with the call's output, so a call without an id gets one.
        "call_id": call.id or f"call_{item_id}",
        "name": call.name,
        "arguments": call.arguments,
    }


class _OpenItem:
    """Collects one output item of a response while it is streamed. Kinds: reasoning, text, refusal, call."""

    def __init__(self, kind: str, item_id: str, index: int, call: ToolCall | None = None) -> None:
        self.kind = kind
        self.id = item_id
        self.index = index
        self.pieces: list[str] = []
        self.logprobs: list[Json] = []
        self._call = call

    def is_for(self, kind: str, call: ToolCall | None) -> bool:
        return self.kind == kind and (call is None or (self._call is not None and self._call.index == call.index))

    @property
    def position(self) -> Json:
        """Return the fields that say where an event belongs. A call has no parts."""
        whole = {"item_id": self.id, "output_index": self.index}
        return whole if self.kind == "call" else whole | {"content_index": 0}

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def render_part(self) -> Json:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": self.text}
        if self.kind == "refusal":
            return render_refusal(self.text)
        return render_output_text(self.text, self.logprobs)

    def render_item(self, status: str) -> Json:
        if self._call is not None:
            return render_function_call(self.id, replace(self._call, arguments=self.text), status)
        if self.kind == "reasoning":
            return render_reasoning(self.id, self.text, status)
        return render_message(self.id, [self.render_part()] if status == "completed" else [], status)


# The names of the pieces of an item.
_DELTAS = {
    "reasoning": "response.reasoning_text",
    "text": "response.output_text",
    "refusal": "response.refusal",
    "call": "response.function_call_arguments",
}
_RESPONSE_END = b"}}\n\n"
_PREFIXES = {"reasoning": "rs", "text": "msg", "refusal": "msg", "call": "fc"}


class ResponsesStreamTranslation:
    """Translates the events of a chat completion's stream to those of OpenAI's Responses API.

    `head` is the response before the first output. `echoed` is a JSON object whose members each response repeats after
    its own: it is put there as it is, because encoding a long list of tools for each event would block other requests.
    """

    def __init__(self, head: Json, response_id: str, echoed: bytes) -> None:
        self._head = head
        self._id = response_id
        self._echoed = echoed
        self._number = -1
        self._open: _OpenItem | None = None
        self._done: list[Json] = []
        self._last = ChatContent()

    def translate_event(self, chunk: Json) -> bytes:
        return b"".join(self._event(chat_completion.parse_chunk(chunk)))

    def render_extra(self, name: str, data: Json) -> bytes:
        return self._render_event(f"response.{name}", data)

    def render_quiet(self, state: str) -> bytes:
        return render_comment(state)

    def render_end(self) -> bytes:
        return b"".join(self._end())

    def render_error(self, error: CorralError) -> bytes:
        details = {"code": error.slug, "message": error.message}
        failed = self._head | {"status": "failed", "error": {"code": "server_error", "message": error.message}}
        return self._render_event("error", details | {"param": None}) + self._render_response("failed", failed)

    def _event(self, content: ChatContent) -> Iterator[bytes]:
        yield self._begin()
        self._last = replace(
            content, finish=content.finish or self._last.finish, tokens=content.tokens or self._last.tokens
        )
        if content.reasoning:
            yield self._add("reasoning", content.reasoning)
        if content.text:
            yield self._add("text", content.text, content.logprobs)
        if content.refusal:
            yield self._add("refusal", content.refusal)
        for call in content.calls:
            yield self._add("call", call.arguments, call=call)

    def _end(self) -> Iterator[bytes]:
        yield self._begin()
        if not self._last.finish:
            yield self.render_error(chat_completion.make_unfinished_error())
            return
        if self._open is None and not self._done:
            # An empty response has one empty message.
            yield self._start(_OpenItem("text", f"msg_{self._id}_0", 0))
        yield self._close()
        response = self._head | render_finished(self._last, self._done)
        yield self._render_response(str(response["status"]), response)

    def _begin(self) -> bytes:
        if self._number >= 0:
            return b""
        return b"".join(self._render_response(name, self._head) for name in ("created", "in_progress"))

    def _add(self, kind: str, piece: str, logprobs: tuple[Json, ...] = (), *, call: ToolCall | None = None) -> bytes:
        events = b""
        if self._open is None or not self._open.is_for(kind, call):
            events = self._close()
            index = len(self._done)
            events += self._start(_OpenItem(kind, f"{_PREFIXES[kind]}_{self._id}_{index}", index, call))
        item = self._open
        assert item is not None, "it was opened just now"
        if not piece:
            return events
        item.pieces.append(piece)
        item.logprobs += logprobs
        delta = item.position | {"delta": piece} | ({"logprobs": list(logprobs)} if kind == "text" else {})
        return events + self._render_event(f"{_DELTAS[kind]}.delta", delta)

    def _start(self, item: _OpenItem) -> bytes:
        self._open = item
        added = {"output_index": item.index, "item": item.render_item("in_progress")}
        rendered = self._render_event("response.output_item.added", added)
        if item.kind != "call":
            rendered += self._render_event("response.content_part.added", item.position | {"part": item.render_part()})
        return rendered

    def _close(self) -> bytes:
        item = self._open
        if item is None:
            return b""
        self._open = None
        whole = item.render_item("completed")
        self._done.append(whole)
        return b"".join([
            self._render_event(f"{_DELTAS[item.kind]}.done", item.position | _render_final_text(item, whole)),
            b"" if item.kind == "call" else self._render_event(
                "response.content_part.done", item.position | {"part": item.render_part()}
            ),
            self._render_event("response.output_item.done", {"output_index": item.index, "item": whole}),
        ])  # fmt: skip

    def _render_response(self, name: str, response: Json) -> bytes:
        """Render an event with the whole response in it: its own members, and then the echoed ones."""
        event = self._render_event(f"response.{name}", {"response": response})
        # The event ends with the response's brace, its own and an empty line.
        return b"".join([event[: -len(_RESPONSE_END)], b", ", self._echoed[1:-1], _RESPONSE_END])

    def _render_event(self, kind: str, data: Json) -> bytes:
        self._number += 1
        return render_server_sent_event(kind, {"type": kind, "sequence_number": self._number} | data)


def _render_final_text(item: _OpenItem, whole: Json) -> Json:
    if item.kind == "call":
        return {"arguments": item.text, "name": whole["name"]}
    if item.kind == "refusal":
        return {"refusal": item.text}
    return {"text": item.text} | ({"logprobs": item.logprobs} if item.kind == "text" else {})
