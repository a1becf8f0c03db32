"""Renders errors as each API does: before a response, in the middle of one, and for an engine's own errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from corral.api.dialects import anthropic, ollama
from corral.api.dialects.chat_completion import LIGHT_BYTES_MAX, find_error_sentence, render_server_sent_event
from corral.domain.errors import CorralError
from corral.gateway.errors import render_error, render_error_event

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
class ErrorEnvelope:
    """Says how one API, such as Anthropic's, shapes its errors.

    Before a response, in the middle of a stream, and when an engine reports one.
    """

    # Renders an error of ours from the path, the error and the request's id.
    render_error: Callable[[str, CorralError, str], bytes]
    # Renders the last event of a stream that broke off.
    render_event: Callable[[CorralError], bytes]
    # Renders an engine's error from status, body and the request's id. None: engines use this shape themselves.
    render_engine_error: Callable[[int, bytes, str], bytes] | None = None
    # The header of every response that has the request's id.
    render_headers: Callable[[str], Headers] = lambda _: []


def format_sentence(error: CorralError) -> str:
    return f"{error.message} {error.hint}" if error.hint else error.message


def _find_engine_sentence(body: bytes) -> str:
    try:
        return find_error_sentence(json.loads(body) if len(body) <= LIGHT_BYTES_MAX else None)
    except (ValueError, RecursionError):
        return body[:1000].decode("utf-8", "replace") or find_error_sentence(None)


def _render_anthropic(_: str, error: CorralError, request_id: str) -> bytes:
    return json.dumps(anthropic.render_error_body(error.status, format_sentence(error), request_id)).encode()


def _render_anthropic_engine(status: int, body: bytes, request_id: str) -> bytes:
    return json.dumps(anthropic.render_error_body(status, _find_engine_sentence(body), request_id)).encode()


def _render_anthropic_event(error: CorralError) -> bytes:
    return render_server_sent_event("error", anthropic.render_error_body(error.status, error.message, ""))


def _render_ollama(_: str, error: CorralError, request_id: str) -> bytes:
    del request_id
    return json.dumps(ollama.render_error_body(format_sentence(error))).encode()


def _render_ollama_engine(_: int, body: bytes, request_id: str) -> bytes:
    del request_id
    return json.dumps(ollama.render_error_body(_find_engine_sentence(body))).encode()


OPENAI = ErrorEnvelope(render_error=render_error, render_event=render_error_event)
ANTHROPIC = ErrorEnvelope(
    render_error=_render_anthropic,
    render_engine_error=_render_anthropic_engine,
    render_event=_render_anthropic_event,
    # Anthropic's clients read the request's id from here.
    render_headers=lambda request_id: [(b"request-id", request_id.encode())],
)
OLLAMA = ErrorEnvelope(
    render_error=_render_ollama,
    render_engine_error=_render_ollama_engine,
    render_event=lambda error: ollama.encode_line(ollama.render_error_body(error.message)),
)


def find_envelope(path: str) -> ErrorEnvelope | None:
    """Return the envelope of a path that has one of its own; None: ours, which OpenAI's clients understand."""
    if path.startswith("/v1/messages"):
        return ANTHROPIC
    return OLLAMA if path in OLLAMA_PATHS else None
