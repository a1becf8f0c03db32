"""How each API tells what went wrong: before an answer, in the middle of one, and in an engine's own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from corral.api.dialects import anthropic, ollama
from corral.api.dialects.chats import error_sentence, server_sent
from corral.api.openai import errors as openai_errors
from corral.domain.errors import CorralError

Headers = list[tuple[bytes, bytes]]
# Ollama's paths are named one by one, because ours begin like them.
OLLAMA_PATHS = frozenset(
    f"/api/{name}"
    for name in (
        *("chat", "generate", "embed", "embeddings", "show", "tags", "ps", "version"),
        *("pull", "push", "create", "copy", "delete"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    # An error of ours: the path, the error, the request's id.
    rendered: Callable[[str, CorralError, str], bytes]
    # The last event of a stream that broke off.
    event: Callable[[CorralError], bytes]
    # An engine's error: status, body, the request's id. None: engines speak this way themselves.
    engine_said: Callable[[int, bytes, str], bytes] | None = None
    # What every answer has in its head: the request's id.
    head: Callable[[str], Headers] = lambda _: []


def sentence_of(error: CorralError) -> str:
    return f"{error.message} {error.hint}" if error.hint else error.message


def _engine_sentence(body: bytes) -> str:
    try:
        return error_sentence(json.loads(body))
    except ValueError:
        return body[:1000].decode("utf-8", "replace") or error_sentence(None)


def _anthropic(_: str, error: CorralError, request_id: str) -> bytes:
    return json.dumps(anthropic.error_body(error.status, sentence_of(error), request_id)).encode()


def _anthropic_engine(status: int, body: bytes, request_id: str) -> bytes:
    return json.dumps(anthropic.error_body(status, _engine_sentence(body), request_id)).encode()


def _anthropic_event(error: CorralError) -> bytes:
    return server_sent("error", anthropic.error_body(error.status, error.message, ""))


def _ollama(_: str, error: CorralError, request_id: str) -> bytes:
    del request_id
    return json.dumps(ollama.error_body(sentence_of(error))).encode()


def _ollama_engine(_: int, body: bytes, request_id: str) -> bytes:
    del request_id
    return json.dumps(ollama.error_body(_engine_sentence(body))).encode()


OPENAI = Envelope(rendered=openai_errors.rendered, event=openai_errors.event)
ANTHROPIC = Envelope(
    rendered=_anthropic,
    engine_said=_anthropic_engine,
    event=_anthropic_event,
    # Where Anthropic's clients look for it.
    head=lambda request_id: [(b"request-id", request_id.encode())],
)
OLLAMA = Envelope(
    rendered=_ollama,
    engine_said=_ollama_engine,
    event=lambda error: ollama.line_of(ollama.error_body(error.message)),
)


def envelope_for(path: str) -> Envelope | None:
    """The envelope of a path that has one of its own; None: ours, which OpenAI's clients understand."""
    if path.startswith("/v1/messages"):
        return ANTHROPIC
    return OLLAMA if path in OLLAMA_PATHS else None
