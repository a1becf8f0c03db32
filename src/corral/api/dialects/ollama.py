"""Ollama's chats, texts and embeddings as OpenAI's calls, and back. Pure: requests and events in, bodies and lines out.

Of `options`, what shapes the answer is passed on, what no chat can say is refused by its name, and what tells Ollama
how to load a model is left out, because here the model's configuration says so; the answer's head names it.
Limit: times that the engine does not tell are measured here, so they hold the way to it, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from corral.api.dialects import chats
from corral.api.dialects.chats import Said, Tokens, ToolCall
from corral.api.dialects.reading import (
    Json,
    content_of,
    copied,
    flag,
    image_part,
    mapping,
    not_expressible,
    objects,
    picture,
    refuse_others,
    text,
    text_part,
    word,
    wrong,
)
from corral.domain.errors import CorralError
from corral.ports.engines import EngineLost

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
# What vLLM and SGLang call the same; each engine leaves the other's name alone.
_SECOND_NAMES = {"repeat_penalty": "repetition_penalty"}
# How Ollama is to load the model; here its configuration says so.
_LOADING = frozenset({
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "numa", "use_mmap", "use_mlock",
    "low_vram", "f16_kv", "vocab_only", "logits_all", "embedding_only",
})  # fmt: skip
# What no chat can say, and the value with which it says nothing.
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
_NANO = 1_000_000_000
_NANO_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Where the translation gets its time from: seconds of a clock that only grows, and now as Ollama writes it."""

    monotonic: Callable[[], float]
    stamp: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request. `call` is what its engine is asked for: chat, or completions for a raw prompt."""

    model: str
    call: str
    chat: Json = field(repr=False)
    is_stream: bool
    moment: Moment = field(repr=False)
    began_s: float
    # Whether the answer is a `message` or a `response`.
    is_chat: bool
    # Options that were left out.
    ignored: tuple[str, ...] = ()
    stream_type: bytes = b"application/x-ndjson"

    def answer(self, chat: Json) -> Json:
        said = chats.said_in(_as_chat(chat))
        return self.line(said.text or said.refusal, said) | self.last(said, self.moment.monotonic())

    def stream(self) -> Lines:
        return Lines(self)

    def line(self, words: str, said: Said) -> Json:
        """One line, with what was said in it."""
        found: Json = {"model": self.model, "created_at": self.moment.stamp()}
        thinking = {"thinking": said.reasoning} if said.reasoning else {}
        if not self.is_chat:
            found |= {"response": words, "done": False} | thinking
        else:
            calls = {"tool_calls": [_tool_call(call) for call in said.calls]} if said.calls else {}
            found |= {"message": {"role": "assistant", "content": words} | thinking | calls, "done": False}
        return found | ({"logprobs": list(said.logprobs)} if said.logprobs else {})

    def last(self, said: Said, first_s: float) -> Json:
        """What the last line has beside it. `first_s`: when the first word was there."""
        tokens, now = said.tokens or Tokens(), self.moment.monotonic()
        prompt_ms, predicted_ms = said.timings.get("prompt_ms"), said.timings.get("predicted_ms")
        return {
            "done": True,
            "done_reason": _REASONS.get(said.finish, "stop"),
            "total_duration": nano(now - self.began_s),
            "load_duration": 0,
            "prompt_eval_count": tokens.prompt,
            "prompt_eval_duration": _nano_of(prompt_ms, first_s - self.began_s),
            "eval_count": tokens.completion,
            "eval_duration": _nano_of(predicted_ms, now - first_s),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """A request that has nothing to answer: it loads a model, or unloads it."""

    model: str
    moment: Moment = field(repr=False)
    is_chat: bool
    unloads: bool

    def answer(self) -> Json:
        said: Json = {"message": {"role": "assistant", "content": ""}} if self.is_chat else {"response": ""}
        reason = "unload" if self.unloads else "load"
        return {"model": self.model, "created_at": self.moment.stamp()} | said | {"done": True, "done_reason": reason}


def error_body(sentence: str) -> Json:
    return {"error": sentence}


def line_of(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def read_preload(body: Json, *, model: str, moment: Moment, is_chat: bool) -> Preload | None:
    """Return what a request without anything to answer is for: loading a model, or with `keep_alive` 0 unloading it.

    None if there is something to answer.
    """
    if body.get("messages" if is_chat else "prompt") not in (None, "", []):
        return None
    return Preload(model=model, moment=moment, is_chat=is_chat, unloads=_is_zero(body.get("keep_alive")))


def _is_zero(keep_alive: object) -> bool:
    """Whether a time, as a number of seconds or with a unit, is nothing."""
    if isinstance(keep_alive, str):
        return _ZERO.fullmatch(keep_alive.strip()) is not None
    return keep_alive == 0 and not isinstance(keep_alive, bool)


def read_chat(body: Json, *, model: str, moment: Moment) -> Asked:
    refuse_others(body, _OF_CHAT)
    messages = list(_Messages().read(body.get("messages")))
    tools = [tool for _, tool in objects(body.get("tools") or [], "tools")]
    chat = {"messages": messages} | ({"tools": tools} if tools else {})
    return _asked(body, chat, model=model, moment=moment, call="chat", is_chat=True)


def read_generate(body: Json, *, model: str, moment: Moment) -> Asked:
    refuse_others({name: value for name, value in body.items() if value not in ("", [])}, _OF_TEXT)
    prompt = text(body.get("prompt") or "", "prompt")
    if flag(body.get("raw"), "raw", default=False):
        for name in ("system", "images", "format", "think"):
            if body.get(name):
                raise not_expressible(f"{name} beside a raw prompt")
        return _asked(body, {"prompt": prompt}, model=model, moment=moment, call="completions")
    system = text(body.get("system") or "", "system")
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": _content(prompt, body.get("images"), "")})
    return _asked(body, {"messages": messages}, model=model, moment=moment, call="chat")


def _asked(body: Json, chat: Json, *, model: str, moment: Moment, call: str, is_chat: bool = False) -> Asked:
    is_stream = flag(body.get("stream"), "stream", default=True)
    options, ignored = _options(body.get("options"))
    chat |= options | {"stream": is_stream} | _format(body.get("format")) | _thinking(body.get("think"))
    if is_stream:
        chat["stream_options"] = {"include_usage": True}
    if flag(body.get("logprobs"), "logprobs", default=False):
        chat |= {"logprobs": True} | copied(body, {"top_logprobs": "top_logprobs"})
    return Asked(
        model=model,
        call=call,
        chat=chat,
        is_stream=is_stream,
        moment=moment,
        began_s=moment.monotonic(),
        is_chat=is_chat,
        ignored=ignored,
    )


def read_embed(body: Json) -> tuple[Json, tuple[str, ...]]:
    """A request for embeddings in OpenAI's words, and what was left out of it."""
    refuse_others(body, _OF_EMBED)
    given = body.get("input")
    if not isinstance(given, str) and not (isinstance(given, list) and all(isinstance(one, str) for one in given)):
        raise wrong("input", "a text or a list of texts")
    _, ignored = _options(body.get("options"))
    return {"input": given, "encoding_format": "float"} | copied(body, {"dimensions": "dimensions"}), ignored


def embeddings_of(answer: Json) -> tuple[list[list[float]], int]:
    """The vectors in OpenAI's answer, in their order, and how many tokens they took."""
    data, usage = answer.get("data"), answer.get("usage")
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    if not rows or not all(
        isinstance(row.get("index"), int) and isinstance(row.get("embedding"), list) for row in rows
    ):
        raise EngineLost("The engine's answer has no embeddings.", code="engine_garbage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else 0
    in_order = sorted(rows, key=lambda row: int(row["index"]))
    return [row["embedding"] for row in in_order], tokens if isinstance(tokens, int) else 0


def _options(value: object) -> tuple[Json, tuple[str, ...]]:
    options = {name: said for name, said in mapping(value or {}, "options").items() if said is not None}
    for name, said in options.items():
        if name in _NEUTRAL and said != _NEUTRAL[name]:
            raise not_expressible(f"options.{name}")
        if name not in _SAMPLING and name not in _LOADING and name not in _NEUTRAL and name not in _DETAILS:
            raise wrong(f"options.{name}", "an option that Ollama knows")
    chat = copied(options, _SAMPLING)
    chat |= copied(chat, _SECOND_NAMES)
    if isinstance(options.get("num_predict"), int) and options["num_predict"] < 0:
        # As much as the model likes, which is what saying nothing means.
        del chat["max_tokens"]
    return chat, tuple(sorted(set(options) & (_LOADING | _DETAILS)))


def _format(value: object) -> Json:
    if value in (None, ""):
        return {}
    if value == "json":
        return {"response_format": {"type": "json_object"}}
    schema = mapping(value, "format")
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    }


def _thinking(value: object) -> Json:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"reasoning_effort": value}
    # Not OpenAI's; llama.cpp, vLLM and SGLang give it to the model's template.
    return {"chat_template_kwargs": {"enable_thinking": flag(value, "think", default=False)}}


def _content(said: str, images: object, where: str) -> str | list[Json]:
    if not images:
        return said
    if not isinstance(images, list):
        raise wrong(f"{where}images", "a list")
    pictures = [
        image_part(picture(text(image, f"{where}images[{index}]"), f"{where}images[{index}]"))
        for index, image in enumerate(images)
    ]
    return content_of([text_part(said), *pictures])


class _Messages:
    """Calls of tools have no ids in older clients of Ollama, so they get one here, and results take them in order."""

    def __init__(self) -> None:
        self._count = 0
        # Calls that have no result yet: id and name.
        self._waiting: list[tuple[str, str]] = []

    def read(self, value: object) -> Iterator[Json]:
        for where, message in objects(value, "messages"):
            role = word(message.get("role"))
            said = text(message.get("content") or "", f"{where}.content")
            if role == "tool":
                yield {"role": "tool", "tool_call_id": self._answered(where, message), "content": said}
            elif role not in _ROLES:
                raise wrong(f"{where}.role", "system, user, assistant or tool")
            else:
                found = {"role": role, "content": _content(said, message.get("images"), f"{where}.")}
                calls = [self._call(place, call) for place, call in objects(message.get("tool_calls") or [], where)]
                yield found | ({"tool_calls": calls} if calls else {})

    def _call(self, where: str, call: Json) -> Json:
        function = mapping(call.get("function"), f"{where}.function")
        name = text(function.get("name"), f"{where}.function.name")
        arguments = mapping(function.get("arguments") or {}, f"{where}.function.arguments")
        given = call.get("id")
        call_id = given if isinstance(given, str) and given else f"call_{self._count}"
        self._count += 1
        self._waiting.append((call_id, name))
        written = json.dumps(arguments, ensure_ascii=False)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}

    def _answered(self, where: str, message: Json) -> str:
        given = message.get("tool_call_id")
        name = message.get("tool_name") or message.get("name")
        for waiting in self._waiting:
            if (given in (None, "", waiting[0])) and (not name or name == waiting[1]):
                self._waiting.remove(waiting)
                return waiting[0]
        raise wrong(where, "a call of this tool before its result")


def _tool_call(call: ToolCall) -> Json:
    function = {"index": call.index, "name": call.name, "arguments": chats.arguments_of(call)}
    return {"id": call.id, "function": function}


def _as_chat(answer: Json) -> Json:
    """An answer, or an event, of the plain completions in the shape of a chat's."""
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


def nano(seconds: float) -> int:
    """Ollama tells times in nanoseconds."""
    return max(0, round(seconds * _NANO))


def _nano_of(told_ms: object, measured_s: float) -> int:
    if isinstance(told_ms, (int, float)) and math.isfinite(told_ms):
        return round(told_ms * _NANO_PER_MS)
    return nano(measured_s)


class Lines:
    """A stream: a line for every event that says something, and a last one with the numbers. A tool's call is one line,
    when it is whole: Ollama's clients know no pieces of calls."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._first_s: float | None = None
        self._calls: dict[int, ToolCall] = {}
        self._finish = ""
        self._tokens: Tokens | None = None
        self._timings: Json = {}

    def event(self, chunk: Json) -> bytes:
        said = chats.added_by(_as_chat(chunk))
        self._finish = said.finish or self._finish
        self._tokens = said.tokens or self._tokens
        self._timings = dict(said.timings) or self._timings
        for call in said.calls:
            self._gather(call)
        words = said.text or said.refusal
        if not words and not said.reasoning:
            return b""
        if self._first_s is None:
            self._first_s = self._asked.moment.monotonic()
        return line_of(self._asked.line(words, _without_calls(said)))

    def end(self) -> bytes:
        if not self._finish:
            return self.error(chats.unfinished())
        now = self._asked.moment.monotonic()
        calls = Said(calls=tuple(self._calls[index] for index in sorted(self._calls)))
        ending = Said(finish=self._finish, tokens=self._tokens, timings=self._timings)
        first_s = now if self._first_s is None else self._first_s
        told = line_of(self._asked.line("", calls)) if calls.calls else b""
        return told + line_of(self._asked.line("", Said()) | self._asked.last(ending, first_s))

    def error(self, error: CorralError) -> bytes:
        return line_of(error_body(error.message))

    def _gather(self, call: ToolCall) -> None:
        known = self._calls.get(call.index)
        self._calls[call.index] = ToolCall(
            index=call.index,
            id=known.id if known else call.id,
            name=known.name if known else call.name,
            arguments=(known.arguments if known else "") + call.arguments,
        )


def _without_calls(said: Said) -> Said:
    return Said(text=said.text, reasoning=said.reasoning, refusal=said.refusal, logprobs=said.logprobs)
