"""Parses what engines answer to a chat completion, for all dialects: whole responses and the events of streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from corral.api.dialects.request_values import Json
from corral.domain.errors import CorralError
from corral.ports.requests import EngineLost

# A longer line is an engine's fault: an event is a few tokens, or at most the call of a tool.
LINE_BYTES_MAX = 1024 * 1024
# Bodies up to this size are decoded on the event loop. Larger ones too, if they are mostly text, which is fast.
LIGHT_BYTES_MAX = 64 * 1024
LIGHT_VALUES_MAX = 5_000
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_DATA = b"data:"
_DONE = b"[DONE]"


class Translation(Protocol):
    """Interface that translates one request of another API (Anthropic, Ollama, Responses) to a chat completion.

    It also translates the chat's response back.
    """

    @property
    def chat(self) -> Json:
        """Return the body of the chat completion, without the model's name."""
        ...

    @property
    def call(self) -> str:
        """Return the call to the engine: chat, completions or embeddings."""
        ...

    @property
    def is_stream(self) -> bool: ...

    @property
    def ignored(self) -> tuple[str, ...]:
        """Return the fields of the request that were left out; a response header names them."""
        ...

    @property
    def stream_type(self) -> bytes:
        """Return the media type of a stream."""
        ...

    def without_chat(self) -> Self:
        """Return the translation without its chat, once that is written, so that it can be sent to another process."""
        ...

    def translate_response(self, chat: Json) -> Json: ...

    def begin_stream(self) -> StreamTranslation: ...


class StreamTranslation(Protocol):
    """Interface that translates one chat completion stream into the bytes of another API's stream."""

    def translate_event(self, chunk: Json) -> bytes: ...

    def render_end(self) -> bytes: ...

    def render_error(self, error: CorralError) -> bytes:
        """Render the error of a stream that broke off. Nothing comes after this."""
        ...


class EventTranslation(Translation, Protocol):
    """Interface like `Translation`, for an API such as Anthropic's whose streams have named events."""

    def begin_stream(self) -> EventStreamTranslation: ...


class EventStreamTranslation(StreamTranslation, Protocol):
    """Interface that translates one chat completion stream to named events.

    Clients skip those whose names they do not know.
    """

    def render_extra(self, name: str, data: Json) -> bytes:
        """Render an event that the dialect does not have, behind those of a chunk that was translated."""
        ...

    def render_quiet(self, state: str) -> bytes:
        """Render a sign of life that clients ignore, for a stream in which nothing has come for a moment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Counts the tokens that a chat completion took, to report them in another API.

    `prompt` includes cached tokens.
    """

    prompt: int = 0
    cached: int = 0
    completion: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call in a chat completion that is translated to another API, or the next piece of one.

    `id` and `name` stand in the first piece.
    """

    index: int
    id: str
    name: str
    # JSON, as the model wrote it.
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatContent:
    """Content of a chat completion that is translated to another API: the whole of it, or one stream event's piece."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[ToolCall, ...] = ()
    # Why the response ended: stop, length, tool_calls, content_filter; empty while it has not.
    finish: str = ""
    # The caller's stop text that ended the response, where the engine reports it (vLLM does).
    stopped_by: str | None = None
    logprobs: tuple[Json, ...] = ()
    tokens: TokenCounts | None = None
    # The timings of llama.cpp, in milliseconds.
    timings: Mapping[str, Any] = field(default_factory=dict)


def parse_completion(chat: Json) -> ChatContent:
    """Parse a whole response. Raises `EngineLost` if it is not a chat completion."""
    choice = _find_choice(chat)
    if choice is None or not isinstance(choice.get("message"), dict):
        raise EngineLost("The engine's response is not a chat completion.", code="engine_garbage")
    return _parse_content(chat, choice, choice["message"])


def parse_chunk(chunk: Json) -> ChatContent:
    """Parse what one event of a stream adds. Raises `EngineLost` if the event is an error."""
    if isinstance(chunk.get("error"), (dict, str)):
        raise EngineLost(
            f"The engine failed in the middle of its response: {find_error_sentence(chunk)}",
            code="engine_failed_midway",
        )
    choice = _find_choice(chunk) or {}
    delta = choice.get("delta")
    return _parse_content(chunk, choice, delta if isinstance(delta, dict) else {})


def _find_choice(chat: Json) -> Json | None:
    choices = chat.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _parse_content(chat: Json, choice: Json, message: Json) -> ChatContent:
    stopped_by, logprobs = choice.get("stop_reason"), choice.get("logprobs")
    timings = chat.get("timings")
    return ChatContent(
        text=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        refusal=_text(message.get("refusal")),
        calls=tuple(_parse_tool_calls(message.get("tool_calls"))),
        finish=_text(choice.get("finish_reason")),
        stopped_by=stopped_by if isinstance(stopped_by, str) else None,
        logprobs=_filter_objects(logprobs.get("content")) if isinstance(logprobs, dict) else (),
        tokens=_parse_tokens(chat.get("usage")),
        timings=timings if isinstance(timings, dict) else {},
    )


def _parse_tool_calls(value: object) -> Iterator[ToolCall]:
    for position, call in enumerate(value if isinstance(value, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            index = call.get("index")
            yield ToolCall(
                index=index if isinstance(index, int) else position,
                id=_text(call.get("id")),
                name=_text(function.get("name")),
                arguments=_text(function.get("arguments")),
            )


def _parse_tokens(usage: object) -> TokenCounts | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return TokenCounts(
        prompt=_count(usage.get("prompt_tokens")),
        cached=_count(cached),
        completion=_count(usage.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _filter_objects(value: object) -> tuple[Json, ...]:
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def parse_arguments(call: ToolCall) -> Json:
    """Return the arguments of a call as an object. If the model wrote something else, it is returned under one name."""
    try:
        found = json.loads(call.arguments or "{}") if is_light(call.arguments.encode(errors="replace")) else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": call.arguments}


def is_light(raw: bytes) -> bool:
    """Return whether JSON is decoded in some milliseconds: it is small, or large and mostly text."""
    if len(raw) <= LIGHT_BYTES_MAX:
        return True
    if len(raw) > LINE_BYTES_MAX:
        return False
    outside = _STRING.sub(b"", raw)
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") <= LIGHT_VALUES_MAX


def find_error_sentence(body: object) -> str:
    """Return the message of an error, in whichever of the usual shapes an engine sends it."""
    error = body.get("error") if isinstance(body, dict) else None
    found = error.get("message") if isinstance(error, dict) else error
    if not isinstance(found, str) and isinstance(body, dict):
        found = body.get("message") or body.get("detail")
    return found if isinstance(found, str) and found else "it gave no reason."


class ChatEventParser:
    """Parses the events of a chat completion's stream out of pieces of bytes that end anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Sequence[Json]:
        """Return the events that are complete by now. Raises `EngineLost` if the data is not a stream of a chat."""
        lines = (self._rest + piece).split(b"\n")
        if max(map(len, lines)) > LINE_BYTES_MAX:
            raise EngineLost("The engine sent a line without end.", code="engine_garbage")
        self._rest = lines.pop()
        return [event for line in lines if (event := _parse_event(line)) is not None]


def _parse_event(line: bytes) -> Json | None:
    if not line.startswith(_DATA):
        return None
    data = line[len(_DATA) :].strip()
    if not data or data == _DONE:
        return None
    if not is_light(data):
        raise EngineLost("The engine sent an event with too many values.", code="engine_garbage")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EngineLost("The engine sent an event that is not JSON.", code="engine_garbage") from error
    if not isinstance(found, dict):
        raise EngineLost("The engine sent an event that is not a JSON object.", code="engine_garbage")
    return found


def render_server_sent_event(event: str, data: Json) -> bytes:
    """Render a server-sent event with a name, as Anthropic and OpenAI write them."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def render_comment(text: str) -> bytes:
    """Render a comment of a stream of events, which clients ignore."""
    return f": {text}\n\n".encode()


def make_unfinished_error() -> EngineLost:
    """Return the error for a stream that ended without a finish reason."""
    return EngineLost("The engine's response ended before it was complete.", code="engine_unfinished")
