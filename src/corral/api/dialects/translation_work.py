"""Decodes, translates and encodes a whole request or response of another dialect. Pure, bytes in and bytes out.

A small one is translated where it is read. A large one is sent to the frontend's `ComputeProcess`, because a decoder
cannot be interrupted: a response of 32 MiB would block the event loop for seconds. Both ways use this module, so they
do not differ. It is imported by that process and must stay free of routes and of the registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from corral.api.dialects.chat_completion import Translation
from corral.api.dialects.request_values import Json
from corral.gateway.exchange.exchange_state import refuse_many_values
from corral.gateway.request import request_body as bodies
from corral.ports.requests import EngineLost

# Up to this size a request (without its long strings) or an answer is translated on the event loop, which takes some
# milliseconds at most.
IN_PLACE_BYTES_MAX = bodies.IN_PLACE_BYTES_MAX

T = TypeVar("T", bound=Translation)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """What a translated request needs for the engine beside the translation: the model's name and defaults."""

    model: str
    defaults: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedRequest(Generic[T]):
    """A request of another API that was translated to a chat completion, ready to be sent to an engine."""

    # The translation, without its chat.
    translation: T
    # The members of the chat that say whether it brings tools.
    tools: Json


def write_request(
    read: Callable[[Json], T], target: RequestTarget, shortened: bytes
) -> tuple[TranslatedRequest[T], bytes]:
    """Decode a request, and translate it as `write_decoded` does."""
    return write_decoded(read, target, bodies.decode_shortened(shortened))


def write_decoded(
    read: Callable[[Json], T], target: RequestTarget, decoded: Json
) -> tuple[TranslatedRequest[T], bytes]:
    """Return what `read` makes of a request, and the body for the engine. Raises the `InvalidRequest` of `read`."""
    translation = read(decoded)
    chat = translation.chat
    written = _encode_chat({"model": target.model} | chat)
    if target.defaults:
        written = bodies.parse_body(written).render_for_engine(target.model, target.defaults, translation.call)
    tools = {"tools": bool(chat.get("tools")), "tool_choice": chat.get("tool_choice")}
    return TranslatedRequest(translation=translation.without_chat(), tools=tools), written


def _encode_chat(chat: Json) -> bytes:
    try:
        return json.dumps(chat, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which only an escape can spell: as the client has.
        return json.dumps(chat).encode()


def write_answer(translate: Callable[[Json], Json], raw: bytes) -> tuple[None, bytes]:
    """Return an engine's response, translated. Raises `EngineLost` if it is unusable."""
    if len(raw) > IN_PLACE_BYTES_MAX:
        refuse_many_values(raw)
    # A lone surrogate becomes a question mark, because it cannot be encoded as UTF-8.
    return None, json.dumps(translate(read_json(raw)), ensure_ascii=False).encode(errors="replace")


def read_json(raw: bytes) -> Json:
    """Return the object of an engine's response. Raises `EngineLost`."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise EngineLost("The engine's response is not JSON.", code="engine_garbage") from error
    if not isinstance(found, dict):
        raise EngineLost("The engine's response is not a JSON object.", code="engine_garbage")
    return found
