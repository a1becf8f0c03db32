"""Encodes messages to bytes and back: JSON, bounded in size, with errors that name the subject.

A reply is either the message or `{"error": {"code": ..., "kind": ..., "message": ...}}`. `kind` is the code of the
error's class: it comes back as the class that was raised on the other side, if that is known here.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from corral.domain.errors import CorralError, TooLarge

T = TypeVar("T")

# The limit of the server, headers included. Anything larger belongs in a file transfer, not on the bus.
MAX_PAYLOAD_BYTES = 1024 * 1024
# The server disconnects a client that sends more, so headers get room of their own.
HEADER_ROOM_BYTES = 1024
MAX_MESSAGE_BYTES = MAX_PAYLOAD_BYTES - HEADER_ROOM_BYTES
# An error is a sentence; anything longer is cut.
MAX_ERROR_CHARACTERS = 2000


class BadMessage(CorralError):
    """A message received over NATS cannot be decoded."""

    code = "bad_message"


def encode(message: object, *, subject: str) -> bytes:
    """Return the bytes of a message; `TooLarge` when the bus would not carry them."""
    data = _get_adapter(type(message)).dump_json(message)
    check_size(data, subject=subject)
    return data


def check_size(data: bytes, *, subject: str, limit_bytes: int = MAX_MESSAGE_BYTES) -> None:
    if len(data) > limit_bytes:
        raise TooLarge(
            f"A message for {subject} has {len(data)} bytes; the bus carries at most {limit_bytes}.",
            details={"subject": subject, "size_bytes": len(data), "limit_bytes": limit_bytes},
        )


def decode(kind: type[T], data: bytes, *, subject: str) -> T:
    """Return the message in these bytes; `BadMessage` names the subject and the problem."""
    try:
        message: T = _get_adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        raise BadMessage(
            f"A message on {subject} is not a valid {kind.__name__}: {_describe_first_problem(error)}.",
            details={"subject": subject},
        ) from error
    return message


def encode_error(error: CorralError) -> bytes:
    body = {"code": error.slug, "kind": type(error).code, "message": error.message[:MAX_ERROR_CHARACTERS]}
    return json.dumps({"error": body}).encode()


def decode_reply(kind: type[T], data: bytes, *, subject: str) -> T:
    """Return the reply in these bytes; an error reply is raised."""
    failure = _parse_error(data)
    if failure is not None:
        raise failure
    return decode(kind, data, subject=subject)


def _parse_error(data: bytes) -> CorralError | None:
    try:
        body = json.loads(data)
    except ValueError:
        return None
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    code, message = str(error.get("code", "internal")), str(error.get("message", ""))
    return _find_error_class(str(error.get("kind", code)))(message or None, code=code)


def _find_error_class(code: str) -> type[CorralError]:
    waiting: list[type[CorralError]] = [CorralError]
    while waiting:
        kind = waiting.pop()
        if kind.code == code:
            return kind
        waiting.extend(kind.__subclasses__())
    return CorralError


def _describe_first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return f"{where}: {problem}" if where else problem


# Building a decoder costs far more than using it. There are as many as message types.
_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _get_adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]
