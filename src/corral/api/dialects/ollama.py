"""Translates Ollama's chats, texts and embeddings to OpenAI's calls, and back. Pure: requests and events in, bodies and
lines out.

Of `options`, those that shape the response are passed on, those that no chat supports are refused by name, and those
that tell Ollama how to load a model are ignored, because here the model's configuration decides; a response header
names them. Limit: times that the engine does not report are measured here, so they include the way to it.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from corral.api.dialects import chat_completion
from corral.api.dialects.chat_completion import ChatContent, TokenCounts, ToolCall
from corral.api.dialects.request_values import (
    Json,
    copy_renamed,
    iter_objects,
    join_content,
    make_image_part,
    make_not_expressible_error,
    make_picture_url,
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
from corral.ports.requests import EngineLost

# Options that have the same meaning in a chat. The last four are not OpenAI's; llama.cpp knows them all, vLLM and
# SGLang know the first two of them.
_SAMPLING = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "top_k": "top_k",
    "min_p": "min_p",
    "repeat_penalty": "repeat_penalty",
    "repeat_last_n": "repeat_last_n",
}
# The names of vLLM and SGLang for the same; each engine ignores the other's name.
_SECOND_NAMES = {"repeat_penalty": "repetition_penalty"}
# Options about loading the model, which its configuration decides here.
_LOADING = frozenset({
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "numa", "use_mmap", "use_mlock",
    "low_vram", "f16_kv", "vocab_only", "logits_all", "embedding_only",
})  # fmt: skip
# Options that no chat supports, and the value with which they have no effect.
_NEUTRAL = {"typical_p": 1.0, "tfs_z": 1.0, "mirostat": 0}
# Only a part of one of those.
_DETAILS = frozenset({"mirostat_tau", "mirostat_eta", "penalize_newline"})
_SHARED = frozenset({
    "model", "stream", "format", "options", "keep_alive", "think", "logprobs", "top_logprobs",
})  # fmt: skip
_OF_CHAT = _SHARED | {"messages", "tools"}
_OF_TEXT = _SHARED | {"prompt", "system", "images", "raw"}
_OF_EMBED = frozenset({"model", "input", "options", "keep_alive", "truncate", "dimensions"})
_ROLES = frozenset({"system", "user", "assistant"})
_REASONS = {"length": "length", "stop": "stop", "tool_calls": "stop", "content_filter": "stop"}
_ZERO = re.compile(r"0+(\.0+)?(ns|us|µs|ms|s|m|h)?")
# The least size of one piece of a tool call beside its arguments.
CALL_BYTES = 64
_NANO = 1_000_000_000
_NANO_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaClock:
    """Tells a translation of Ollama's API the time: monotonic seconds, and now as Ollama writes it."""

    monotonic: Callable[[], float]
    format_now: Callable[[], str]

    def __reduce__(self) -> tuple[Callable[[float, str], OllamaClock], tuple[float, str]]:
        """Pickle the clock as the moment in which it was sent to another process."""
        return _make_fixed_clock, (self.monotonic(), self.format_now())


def _make_fixed_clock(now_s: float, stamp: str) -> OllamaClock:
    return OllamaClock(monotonic=lambda: now_s, format_now=lambda: stamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaTranslation:
    """Translates one request of Ollama's API to a chat or text completion, and the response back."""

    model: str
    call: str
    chat: Json = field(repr=False)
    is_stream: bool
    clock: OllamaClock = field(repr=False)
    began_s: float
    # Whether the answer is a `message` or a `response`.
    is_chat: bool
    # Options that were ignored.
    ignored: tuple[str, ...] = ()
    stream_type: bytes = b"application/x-ndjson"

    def without_chat(self) -> OllamaTranslation:
        return replace(self, chat={})

    def translate_response(self, chat: Json) -> Json:
        content = chat_completion.parse_completion(_to_chat_shape(chat))
        return self.render_line(content.text or content.refusal, content) | self.render_last(
            content, self.clock.monotonic()
        )

    def begin_stream(self) -> OllamaStreamTranslation:
        return OllamaStreamTranslation(self)

    def render_line(self, words: str, content: ChatContent) -> Json:
        """Render one line with this content."""
        found: Json = {"model": self.model, "created_at": self.clock.format_now()}
        thinking = {"thinking": content.reasoning} if content.reasoning else {}
        if not self.is_chat:
            found |= {"response": words, "done": False} | thinking
        else:
            calls = {"tool_calls": [_render_tool_call(call) for call in content.calls]} if content.calls else {}
            found |= {"message": {"role": "assistant", "content": words} | thinking | calls, "done": False}
        return found | ({"logprobs": list(content.logprobs)} if content.logprobs else {})

    def render_last(self, content: ChatContent, first_s: float) -> Json:
        """Render the extra fields of the last line. `first_s`: when the first token was there."""
        tokens, now = content.tokens or TokenCounts(), self.clock.monotonic()
        prompt_ms, predicted_ms = content.timings.get("prompt_ms"), content.timings.get("predicted_ms")
        return {
            "done": True,
            "done_reason": _REASONS.get(content.finish, "stop"),
            "total_duration": to_nanoseconds(now - self.began_s),
            "load_duration": 0,
            "prompt_eval_count": tokens.prompt,
            "prompt_eval_duration": _choose_nanoseconds(prompt_ms, first_s - self.began_s),
            "eval_count": tokens.completion,
            "eval_duration": _choose_nanoseconds(predicted_ms, now - first_s),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadRequest:
    """A request of Ollama's API without a prompt, which only loads a model, or unloads it."""

    model: str
    clock: OllamaClock = field(repr=False)
    is_chat: bool
    unloads: bool

    def render_answer(self) -> Json:
        empty_content: Json = {"message": {"role": "assistant", "content": ""}} if self.is_chat else {"response": ""}
        reason = "unload" if self.unloads else "load"
        return (
            {"model": self.model, "created_at": self.clock.format_now()}
            | empty_content
            | {"done": True, "done_reason": reason}
        )


def render_error_body(sentence: str) -> Json:
    return {"error": sentence}


def encode_line(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def read_preload(body: Json, *, model: str, clock: OllamaClock, is_chat: bool) -> PreloadRequest | None:
    """Return what a request without a prompt is for: loading a model, or with `keep_alive` 0 unloading it.

    None if the request has a prompt."""
    if body.get("messages" if is_chat else "prompt") not in (None, "", []):
        return None
    return PreloadRequest(model=model, clock=clock, is_chat=is_chat, unloads=_is_zero(body.get("keep_alive")))


def _is_zero(keep_alive: object) -> bool:
    """Return whether a time, as a number of seconds or with a unit, is zero."""
    if isinstance(keep_alive, str):
        return _ZERO.fullmatch(keep_alive.strip()) is not None
    return keep_alive == 0 and not isinstance(keep_alive, bool)


def read_chat(body: Json, *, model: str, clock: OllamaClock) -> OllamaTranslation:
    refuse_unknown(body, _OF_CHAT)
    messages = list(_MessageReader().read(body.get("messages")))
    tools = [tool for _, tool in iter_objects(body.get("tools") or [], "tools")]
    chat = {"messages": messages} | ({"tools": tools} if tools else {})
    return _make_translation(body, chat, model=model, clock=clock, call="chat", is_chat=True)


def read_generate(body: Json, *, model: str, clock: OllamaClock) -> OllamaTranslation:
    refuse_unknown({name: value for name, value in body.items() if value not in ("", [])}, _OF_TEXT)
    prompt = require_text(body.get("prompt") or "", "prompt")
    if read_flag(body.get("raw"), "raw", default=False):
        for name in ("system", "images", "format", "think"):
            if body.get(name):
                raise make_not_expressible_error(f"{name} beside a raw prompt")
        return _make_translation(body, {"prompt": prompt}, model=model, clock=clock, call="completions")
    system = require_text(body.get("system") or "", "system")
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": _translate_content(prompt, body.get("images"), "")})
    return _make_translation(body, {"messages": messages}, model=model, clock=clock, call="chat")


def _make_translation(
    body: Json, chat: Json, *, model: str, clock: OllamaClock, call: str, is_chat: bool = False
) -> OllamaTranslation:
    is_stream = read_flag(body.get("stream"), "stream", default=True)
    options, ignored = _translate_options(body.get("options"))
    chat |= (
        options | {"stream": is_stream} | _translate_format(body.get("format")) | _translate_thinking(body.get("think"))
    )
    if is_stream:
        chat["stream_options"] = {"include_usage": True}
    if read_flag(body.get("logprobs"), "logprobs", default=False):
        chat |= {"logprobs": True} | copy_renamed(body, {"top_logprobs": "top_logprobs"})
    return OllamaTranslation(
        model=model,
        call=call,
        chat=chat,
        is_stream=is_stream,
        clock=clock,
        began_s=clock.monotonic(),
        is_chat=is_chat,
        ignored=ignored,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedRequest:
    """Translates one request of Ollama's API for embeddings, and its response.

    `is_old`: for one text, answered with one vector and nothing else.
    """

    model: str
    is_old: bool
    chat: Json = field(repr=False)
    clock: OllamaClock = field(repr=False)
    began_s: float
    ignored: tuple[str, ...] = ()
    call: str = "embeddings"
    is_stream: bool = False
    stream_type: bytes = b""

    def without_chat(self) -> EmbedRequest:
        return replace(self, chat={})

    def translate_response(self, chat: Json) -> Json:
        vectors, tokens = parse_embeddings(chat)
        if self.is_old:
            return {"embedding": vectors[0]}
        took = to_nanoseconds(self.clock.monotonic() - self.began_s)
        response: Json = {"model": self.model, "embeddings": vectors, "total_duration": took}
        return response | {"load_duration": 0, "prompt_eval_count": tokens}

    def begin_stream(self) -> OllamaStreamTranslation:
        raise AssertionError("embeddings are answered whole")


def read_embed_request(body: Json, *, model: str, clock: OllamaClock, is_old: bool) -> EmbedRequest:
    """Parse a request to `/api/embed`, or to `/api/embeddings`, whose one text has another name. Raises
    `InvalidRequest`."""
    if is_old:
        body = {"input" if name == "prompt" else name: value for name, value in body.items()}
        require_some_text(body.get("input"), "prompt")
    chat, ignored = read_embed(body)
    return EmbedRequest(model=model, is_old=is_old, chat=chat, clock=clock, began_s=clock.monotonic(), ignored=ignored)


def read_embed(body: Json) -> tuple[Json, tuple[str, ...]]:
    """Return a request for embeddings in OpenAI's form, and the names of ignored options."""
    refuse_unknown(body, _OF_EMBED)
    given = body.get("input")
    if not isinstance(given, str) and not (isinstance(given, list) and all(isinstance(one, str) for one in given)):
        raise make_value_error("input", "a text or a list of texts")
    _, ignored = _translate_options(body.get("options"))
    return {"input": given, "encoding_format": "float"} | copy_renamed(body, {"dimensions": "dimensions"}), ignored


def parse_embeddings(answer: Json) -> tuple[list[list[float]], int]:
    """Return the vectors in OpenAI's response, in their order, and how many tokens they took."""
    data, usage = answer.get("data"), answer.get("usage")
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    if not rows or not all(
        isinstance(row.get("index"), int) and isinstance(row.get("embedding"), list) for row in rows
    ):
        raise EngineLost("The engine's response has no embeddings.", code="engine_garbage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else 0
    in_order = sorted(rows, key=lambda row: int(row["index"]))
    return [row["embedding"] for row in in_order], tokens if isinstance(tokens, int) else 0


def _translate_options(value: object) -> tuple[Json, tuple[str, ...]]:
    options = {name: option for name, option in require_object(value or {}, "options").items() if option is not None}
    for name, option in options.items():
        if name in _NEUTRAL and option != _NEUTRAL[name]:
            raise make_not_expressible_error(f"options.{name}")
        if name not in _SAMPLING and name not in _LOADING and name not in _NEUTRAL and name not in _DETAILS:
            raise make_value_error(f"options.{name}", "an option that Ollama knows")
    chat = copy_renamed(options, _SAMPLING)
    chat |= copy_renamed(chat, _SECOND_NAMES)
    if isinstance(options.get("num_predict"), int) and options["num_predict"] < 0:
        # No limit, which is the default of a chat.
        del chat["max_tokens"]
    return chat, tuple(sorted(set(options) & (_LOADING | _DETAILS)))


def _translate_format(value: object) -> Json:
    if value in (None, ""):
        return {}
    if value == "json":
        return {"response_format": {"type": "json_object"}}
    schema = require_object(value, "format")
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    }


def _translate_thinking(value: object) -> Json:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"reasoning_effort": value}
    # Not OpenAI's; llama.cpp, vLLM and SGLang give it to the model's template.
    return {"chat_template_kwargs": {"enable_thinking": read_flag(value, "think", default=False)}}


def _translate_content(words: str, images: object, where: str) -> str | list[Json]:
    if not images:
        return words
    if not isinstance(images, list):
        raise make_value_error(f"{where}images", "a list")
    pictures = [
        make_image_part(make_picture_url(require_text(image, f"{where}images[{index}]"), f"{where}images[{index}]"))
        for index, image in enumerate(images)
    ]
    return join_content([make_text_part(words), *pictures])


class _MessageReader:
    """Reads the messages of an Ollama chat. Older clients send calls of tools without ids, so they get one here, and
    results take them in order."""

    def __init__(self) -> None:
        self._count = 0
        # Calls that have no result yet: the id of each by its number.
        self._waiting: dict[int, str] = {}
        # Numbers of calls, also of answered ones, in their order: by id and name, either of which may be left out.
        self._numbers: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)

    def read(self, value: object) -> Iterator[Json]:
        for where, message in iter_objects(value, "messages"):
            role = read_word(message.get("role"))
            content = require_text(message.get("content") or "", f"{where}.content")
            if role == "tool":
                yield {"role": "tool", "tool_call_id": self._match_tool_result(where, message), "content": content}
            elif role not in _ROLES:
                raise make_value_error(f"{where}.role", "system, user, assistant or tool")
            else:
                found = {"role": role, "content": _translate_content(content, message.get("images"), f"{where}.")}
                calls = [
                    self._read_tool_call(path, call)
                    for path, call in iter_objects(message.get("tool_calls") or [], where)
                ]
                yield found | ({"tool_calls": calls} if calls else {})

    def _read_tool_call(self, where: str, call: Json) -> Json:
        function = require_object(call.get("function"), f"{where}.function")
        name = require_text(function.get("name"), f"{where}.function.name")
        arguments = require_object(function.get("arguments") or {}, f"{where}.function.arguments")
        given = call.get("id")
        call_id = given if isinstance(given, str) and given else f"call_{self._count}"
        self._waiting[self._count] = call_id
        for key in {(one, other) for one in ("", call_id) for other in ("", name)}:
            self._numbers[key].append(self._count)
        self._count += 1
        written = json.dumps(arguments, ensure_ascii=False)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}

    def _match_tool_result(self, where: str, message: Json) -> str:
        given = message.get("tool_call_id")
        name = message.get("tool_name") or message.get("name")
        is_text = isinstance(given or "", str) and isinstance(name or "", str)
        numbers = self._numbers.get((given or "", name or "")) if is_text else None
        while numbers:
            if (call_id := self._waiting.pop(numbers.popleft(), None)) is not None:
                return call_id
        raise make_value_error(where, "a call of this tool before its result")


def _render_tool_call(call: ToolCall) -> Json:
    function = {"index": call.index, "name": call.name, "arguments": chat_completion.parse_arguments(call)}
    return {"id": call.id, "function": function}


def _to_chat_shape(answer: Json) -> Json:
    """Return a response, or an event, of plain completions in the shape of a chat's."""
    choices = answer.get("choices")
    if not isinstance(choices, list):
        return answer
    shaped = [
        choice | {"message": {"content": choice["text"]}, "delta": {"content": choice["text"]}}
        if isinstance(choice, dict) and "text" in choice
        else choice
        for choice in choices
    ]
    return answer | {"choices": shaped}


def to_nanoseconds(seconds: float) -> int:
    """Convert seconds to nanoseconds, the unit of Ollama's times."""
    return max(0, round(seconds * _NANO))


def _choose_nanoseconds(reported_ms: object, measured_s: float) -> int:
    if isinstance(reported_ms, (int, float)) and math.isfinite(reported_ms):
        return round(reported_ms * _NANO_PER_MS)
    return to_nanoseconds(measured_s)


class OllamaStreamTranslation:
    """Translates the events of a chat completion's stream to the lines of Ollama's API.

    One line for every event with content, and a last one with the numbers. A tool call is one line, when it is
    complete.
    """

    def __init__(self, translation: OllamaTranslation) -> None:
        self._translation = translation
        self._first_s: float | None = None
        self._calls: dict[int, ToolCall] = {}
        # Ollama reports all tool calls of a response together, in one line.
        self._calls_bytes = 0
        self._finish = ""
        self._tokens: TokenCounts | None = None
        self._timings: Json = {}

    def translate_event(self, chunk: Json) -> bytes:
        content = chat_completion.parse_chunk(_to_chat_shape(chunk))
        self._finish = content.finish or self._finish
        self._tokens = content.tokens or self._tokens
        self._timings = dict(content.timings) or self._timings
        for call in content.calls:
            self._gather(call)
        words = content.text or content.refusal
        if not words and not content.reasoning:
            return b""
        if self._first_s is None:
            self._first_s = self._translation.clock.monotonic()
        return encode_line(self._translation.render_line(words, _without_calls(content)))

    def render_extra(self, name: str, data: Json) -> bytes:
        """Return nothing: clients of Ollama take every line for a part of the answer."""
        del name, data
        return b""

    def render_quiet(self, state: str) -> bytes:
        """Render a line without text; the form has no comments, so the state is left out."""
        del state
        return encode_line(self._translation.render_line("", ChatContent()))

    def render_end(self) -> bytes:
        if not self._finish:
            return self.render_error(chat_completion.make_unfinished_error())
        now = self._translation.clock.monotonic()
        calls = ChatContent(calls=tuple(self._calls[index] for index in sorted(self._calls)))
        ending = ChatContent(finish=self._finish, tokens=self._tokens, timings=self._timings)
        first_s = now if self._first_s is None else self._first_s
        call_line = encode_line(self._translation.render_line("", calls)) if calls.calls else b""
        return call_line + encode_line(
            self._translation.render_line("", ChatContent()) | self._translation.render_last(ending, first_s)
        )

    def render_error(self, error: CorralError) -> bytes:
        return encode_line(render_error_body(error.message))

    def _gather(self, call: ToolCall) -> None:
        known = self._calls.get(call.index)
        self._calls_bytes += len(call.arguments) + CALL_BYTES
        if self._calls_bytes > chat_completion.LINE_BYTES_MAX:
            raise EngineLost("The engine sent too many tool calls.", code="engine_garbage")
        self._calls[call.index] = ToolCall(
            index=call.index,
            id=known.id if known else call.id,
            name=known.name if known else call.name,
            arguments=(known.arguments if known else "") + call.arguments,
        )


def _without_calls(content: ChatContent) -> ChatContent:
    return ChatContent(
        text=content.text, reasoning=content.reasoning, refusal=content.refusal, logprobs=content.logprobs
    )
