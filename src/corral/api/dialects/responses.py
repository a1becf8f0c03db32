"""OpenAI's responses as chat completions, and back. Pure: a request in, a body out; events in, events out.

Exact for text, instructions, pictures, functions and their outputs, JSON schemas, logprobs and sampling. Nothing is
kept here: whoever refers to an earlier response, or wants one to be kept, is told so.

Agents bring tools of their own together with tools that OpenAI's service runs (web_search, namespace, …). If the model
may choose, the latter are left out and named in `ignored`: the model cannot choose what it is not offered. They are
refused by name where they are all there is, or where a call is required.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from corral.api.dialects.reading import (
    Json,
    content_of,
    copied,
    flag,
    image_part,
    mapping,
    not_expressible,
    objects,
    refuse_others,
    some_text,
    text,
    text_part,
    word,
    wrong,
)
from corral.api.dialects.response_stream import ResponseStream
from corral.api.dialects.response_words import finished, items_of

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
    # About billing, caching and bookkeeping, not about the answer; the last counts calls of OpenAI's own tools.
    "metadata", "client_metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
    "safety_identifier", "max_tool_calls",
})  # fmt: skip
_ECHOED: Json = {
    "instructions": None, "max_output_tokens": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0,
    "top_p": 1.0, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "user": None,
}  # fmt: skip
_LOGPROBS = "message.output_text.logprobs"
# Nothing is kept here, so there is nothing that would have to be sent back encrypted.
_INCLUDED = frozenset({_LOGPROBS, "reasoning.encrypted_content"})
# What of a caller's word is repeated in a header.
_TYPE_CHARS_MAX = 64
# To chat templates the developer is the system; OpenAI says the same.
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One request. `model` is the name that it asked for, `id` the one that its answer gets."""

    model: str
    id: str
    created_at: int
    chat: Json = field(repr=False)
    is_stream: bool
    # What an answer repeats of its request.
    echoed: Json = field(repr=False)
    # What was left out, because it cannot change what the model is offered.
    ignored: tuple[str, ...] = ()
    stream_type: bytes = b"text/event-stream"

    def answer(self, chat: Json) -> Json:
        said, items = items_of(chat, self.id)
        return self.head() | finished(said, items)

    def head(self) -> Json:
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
        } | self.echoed

    def stream(self) -> ResponseStream:
        return ResponseStream(self.head(), self.id)


def read(body: Json, *, model: str, answer_id: str, created_at: int) -> Response:
    """A request as a chat. `InvalidRequest` names what is wrong, or what cannot be said."""
    refuse_others(body, _KNOWN)
    _refuse_keeping(body)
    is_stream = flag(body.get("stream"), "stream", default=False)
    chat: Json = copied(body, _SAME) | {"messages": _join_system(list(_messages(body))), "stream": is_stream}
    if is_stream:
        chat["stream_options"] = {"include_usage": True}
    tools, left_out = _split_tools(body)
    chat |= _tools(body, tools) | _text(body) | _reasoning(body) | _logprobs(body)
    echoed = {name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()}
    echoed["text"] = body.get("text") or {"format": {"type": "text"}}
    echoed["reasoning"] = {"effort": None, "summary": None} | (body.get("reasoning") or {})
    echoed["tools"] = [tool for _, tool in tools]
    return Response(
        model=model,
        id=answer_id,
        created_at=created_at,
        chat=chat,
        is_stream=is_stream,
        echoed=echoed,
        ignored=(*left_out, *_ignored_includes(body)),
    )


def _refuse_keeping(body: Json) -> None:
    for name in ("store", "background"):
        if flag(body.get(name), name, default=False):
            raise not_expressible(f"{name}: true", "answers are not kept here")
    if body.get("truncation") not in (None, "disabled"):
        raise not_expressible(f"truncation: {body['truncation']}")


def _join_system(messages: list[Json]) -> list[Json]:
    """Join the system's texts at the beginning into one message: many chat templates read the first one only."""
    leading = list(takewhile(lambda one: one["role"] == "system" and isinstance(one["content"], str), messages))
    if len(leading) < 2:
        return messages
    joined = "\n\n".join(one["content"] for one in leading)
    return [{"role": "system", "content": joined}, *messages[len(leading) :]]


def _messages(body: Json) -> Iterator[Json]:
    if body.get("instructions") is not None:
        yield {"role": "system", "content": text(body["instructions"], "instructions")}
    given = body.get("input")
    if isinstance(given, str):
        yield {"role": "user", "content": given}
        return
    found = list(objects(given, "input"))
    if not found:
        raise wrong("input", "a text, or at least one item")
    # Calls that the model made at a time are one message of a chat.
    calls: list[Json] = []
    for where, item in found:
        if item.get("type") == "function_call":
            calls.append(_call(where, item))
            continue
        if calls:
            yield {"role": "assistant", "content": None, "tool_calls": calls}
            calls = []
        yield from _item(where, item)
    if calls:
        raise wrong("input", "the output of every function that was called")


def _item(where: str, item: Json) -> Iterator[Json]:
    kind = item.get("type")
    if kind in (None, "message"):
        yield _message(where, item)
    elif kind == "function_call_output":
        output = item.get("output")
        parts = [text_part(output)] if isinstance(output, str) else _parts(output, f"{where}.output")
        said = content_of(parts)
        if not isinstance(said, str):
            raise not_expressible("A picture as the output of a function")
        yield {"role": "tool", "tool_call_id": some_text(item.get("call_id"), f"{where}.call_id"), "content": said}
    elif kind == "item_reference":
        raise not_expressible("An item_reference", "answers are not kept here")
    elif kind != "reasoning":
        raise not_expressible(f"An item of the type {kind}")


def _call(where: str, item: Json) -> Json:
    function = {
        "name": some_text(item.get("name"), f"{where}.name"),
        "arguments": text(item.get("arguments"), f"{where}.arguments"),
    }
    return {"id": some_text(item.get("call_id"), f"{where}.call_id"), "type": "function", "function": function}


def _message(where: str, item: Json) -> Json:
    role = _ROLES.get(word(item.get("role")))
    if role is None:
        raise wrong(f"{where}.role", "user, assistant, system or developer")
    content = item.get("content")
    if not isinstance(content, str):
        content = content_of(_parts(content, f"{where}.content"))
    return {"role": role, "content": content}


def _parts(value: object, where: str) -> list[Json]:
    return [_part(place, part) for place, part in objects(value, where)]


def _part(where: str, part: Json) -> Json:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return text_part(text(part.get("text"), f"{where}.text"))
    if kind == "refusal":
        return text_part(text(part.get("refusal"), f"{where}.refusal"))
    if kind == "input_image" and part.get("image_url") is not None:
        return image_part(some_text(part["image_url"], f"{where}.image_url"), part.get("detail"))
    raise not_expressible("A picture from a file_id" if kind == "input_image" else f"Content of the type {kind}")


def _split_tools(body: Json) -> tuple[list[tuple[str, Json]], tuple[str, ...]]:
    """Return the functions among the tools, and the types of the tools that are left out."""
    tools = list(objects(body.get("tools") or [], "tools"))
    functions = [(where, tool) for where, tool in tools if tool.get("type") == "function"]
    others = [str(tool.get("type"))[:_TYPE_CHARS_MAX] for _, tool in tools if tool.get("type") != "function"]
    choice = body.get("tool_choice")
    is_free = choice in (None, "auto") and bool(functions)
    if others and not (is_free or choice == "none" or _names_function(choice)):
        raise not_expressible(f"The tool {others[0]}", "it is run by OpenAI's own service")
    return functions, tuple(f"tools.{kind}" for kind in dict.fromkeys(others))


def _names_function(choice: object) -> bool:
    return isinstance(choice, dict) and choice.get("type") == "function"


def _tools(body: Json, functions: list[tuple[str, Json]]) -> Json:
    chat: Json = {}
    if functions:
        chat["tools"] = [_tool(where, tool) for where, tool in functions]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            raise not_expressible(f"tool_choice {choice.get('type')}")
        chat["tool_choice"] = {"type": "function", "function": {"name": text(choice.get("name"), "tool_choice.name")}}
    elif choice is not None:
        chat["tool_choice"] = text(choice, "tool_choice")
    return chat


def _tool(where: str, tool: Json) -> Json:
    function = {"name": some_text(tool.get("name"), f"{where}.name")}
    same = {"description": "description", "parameters": "parameters", "strict": "strict"}
    return {"type": "function", "function": function | copied(tool, same)}


def _text(body: Json) -> Json:
    wanted = mapping(body.get("text") or {}, "text")
    refuse_others(wanted, {"format"} | ({"verbosity"} if wanted.get("verbosity") == "medium" else set()), "text")
    form = mapping(wanted.get("format") or {}, "text.format")
    kind = form.get("type", "text")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if kind != "json_schema":
        raise not_expressible(f"text.format {kind}")
    schema = {name: value for name, value in form.items() if name != "type" and value is not None}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _reasoning(body: Json) -> Json:
    wanted = mapping(body.get("reasoning") or {}, "reasoning")
    # Thoughts are told as they are, never summed up, whatever form of summary is asked for.
    refuse_others(wanted, {"effort", "summary", "generate_summary"}, "reasoning")
    return copied(wanted, {"effort": "reasoning_effort"})


def _ignored_includes(body: Json) -> Iterator[str]:
    """What is to be told of tools that do not run here: there is nothing to tell of them."""
    for index, one in enumerate(body.get("include") or []):
        if text(one, f"include[{index}]") not in _INCLUDED:
            yield f"include.{one[:_TYPE_CHARS_MAX]}"


def _logprobs(body: Json) -> Json:
    included = body.get("include") or []
    if not isinstance(included, list):
        raise wrong("include", "a list")
    if body.get("top_logprobs"):
        return {"logprobs": True, "top_logprobs": body["top_logprobs"]}
    return {"logprobs": True} if _LOGPROBS in included else {}
