"""What engines answer to a chat completion, read once for all dialects: whole answers and the events of streams."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from corral.api.dialects.reading import Json
from corral.domain.errors import CorralError
from corral.ports.engines import EngineLost

# An engine that sends a longer line has lost its way.
LINE_BYTES_MAX = 8 * 1024 * 1024
_DATA = b"data:"
_DONE = b"[DONE]"


class Translation(Protocol):
    """One request in a dialect: what it is as a chat, and how the chat's answer is said in the dialect."""

    @property
    def chat(self) -> Json:
        """The body of the chat completion, without the model's name."""
        ...

    @property
    def is_stream(self) -> bool: ...

    @property
    def ignored(self) -> tuple[str, ...]:
        """What of the request was left out; the head of the answer names it."""
        ...

    @property
    def stream_type(self) -> bytes:
        """The media type of a stream."""
        ...

    def answer(self, chat: Json) -> Json: ...

    def stream(self) -> Stream: ...


class Stream(Protocol):
    """An answer on its way: events of a chat go in, bytes in the dialect come out."""

    def event(self, chunk: Json) -> bytes: ...

    def end(self) -> bytes: ...

    def error(self, error: CorralError) -> bytes:
        """It broke off. Nothing comes after this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What an answer took. `prompt` counts what came from a cache, too."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool, or the next piece of one. `id` and `name` stand in the first piece."""

    index: int
    id: str
    name: str
    # JSON, as the model wrote it.
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a chat says: the whole of it, or what one event adds."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[ToolCall, ...] = ()
    # How it ended: stop, length, tool_calls, content_filter; empty: not yet.
    finish: str = ""
    # Which of the caller's stop texts ended it, where the engine tells (vLLM does).
    stopped_by: str | None = None
    logprobs: tuple[Json, ...] = ()
    tokens: Tokens | None = None
    # llama.cpp's own times, in milliseconds.
    timings: Mapping[str, Any] = field(default_factory=dict)


def said_in(chat: Json) -> Said:
    """What a whole answer says. `EngineLost` if it is none."""
    choice = _choice(chat)
    if choice is None or not isinstance(choice.get("message"), dict):
        raise EngineLost("The engine's answer is no chat completion.", code="engine_garbage")
    return _said(chat, choice, choice["message"])


def added_by(chunk: Json) -> Said:
    """What an event of a stream adds. `EngineLost` if it tells of an error."""
    if isinstance(chunk.get("error"), (dict, str)):
        raise EngineLost(f"The engine failed in the middle: {error_sentence(chunk)}", code="engine_failed_midway")
    choice = _choice(chunk) or {}
    delta = choice.get("delta")
    return _said(chunk, choice, delta if isinstance(delta, dict) else {})


def _choice(chat: Json) -> Json | None:
    choices = chat.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _said(chat: Json, choice: Json, message: Json) -> Said:
    stopped_by, logprobs = choice.get("stop_reason"), choice.get("logprobs")
    timings = chat.get("timings")
    return Said(
        text=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        refusal=_text(message.get("refusal")),
        calls=tuple(_calls(message.get("tool_calls"))),
        finish=_text(choice.get("finish_reason")),
        stopped_by=stopped_by if isinstance(stopped_by, str) else None,
        logprobs=_objects(logprobs.get("content")) if isinstance(logprobs, dict) else (),
        tokens=_tokens(chat.get("usage")),
        timings=timings if isinstance(timings, dict) else {},
    )


def _calls(value: object) -> Iterator[ToolCall]:
    for place, call in enumerate(value if isinstance(value, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            index = call.get("index")
            yield ToolCall(
                index=index if isinstance(index, int) else place,
                id=_text(call.get("id")),
                name=_text(function.get("name")),
                arguments=_text(function.get("arguments")),
            )


def _tokens(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Tokens(
        prompt=_count(usage.get("prompt_tokens")),
        cached=_count(cached),
        completion=_count(usage.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _objects(value: object) -> tuple[Json, ...]:
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def arguments_of(call: ToolCall) -> Json:
    """The arguments of a call as an object. What the model wrote may be none; then it is told under one name."""
    try:
        found = json.loads(call.arguments or "{}")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"arguments": call.arguments}


def error_sentence(body: object) -> str:
    """The sentence in an error, in whichever of the usual shapes an engine tells it."""
    error = body.get("error") if isinstance(body, dict) else None
    found = error.get("message") if isinstance(error, dict) else error
    if not isinstance(found, str) and isinstance(body, dict):
        found = body.get("message") or body.get("detail")
    return found if isinstance(found, str) and found else "it did not say why."


class Events:
    """The events of a chat's stream, out of pieces that end anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Sequence[Json]:
        """Those that are whole by now. `EngineLost` for what is no stream of a chat."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_BYTES_MAX:
            raise EngineLost("The engine sent a line without end.", code="engine_garbage")
        return [event for line in lines if (event := _event(line)) is not None]


def _event(line: bytes) -> Json | None:
    if not line.startswith(_DATA):
        return None
    data = line[len(_DATA) :].strip()
    if not data or data == _DONE:
        return None
    try:
        found = json.loads(data)
    except ValueError as error:
        raise EngineLost("The engine sent an event that is no JSON.", code="engine_garbage") from error
    if not isinstance(found, dict):
        raise EngineLost("The engine sent an event that is no object.", code="engine_garbage")
    return found


def server_sent(event: str, data: Json) -> bytes:
    """A server-sent event with a name, as Anthropic and OpenAI write them."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def unfinished() -> EngineLost:
    """A stream has ended, and it never said how."""
    return EngineLost("The engine's answer ended before it was finished.", code="engine_unfinished")
