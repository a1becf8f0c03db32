"""Messages to bytes and back: JSON, bounded in size, with errors that name the subject.

A reply is either the message or `{"error": {"code": ..., "kind": ..., "message": ...}}`. `kind` is the code of the
error's class: it comes back as the class that was raised on the other side, if that is known here.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from corral.domain.errors import CorralError, TooLarge

T = TypeVar("T")

# What the server takes, headers included. What is larger belongs in a file transfer, not on the bus.
MAX_PAYLOAD_BYTES = 1024 * 1024
# The server cuts off a client that sends more, so headers get room of their own.
HEADER_ROOM_BYTES = 1024
MAX_MESSAGE_BYTES = MAX_PAYLOAD_BYTES - HEADER_ROOM_BYTES
# An error is a sentence; whatever else got into it is cut.
MAX_ERROR_CHARACTERS = 2000


class BadMessage(CorralError):
    """A message on the bus cannot be read."""

    code = "bad_message"


def encode(message: object, *, subject: str) -> bytes:
    """The bytes of a message; `TooLarge` when the bus would not carry them."""
    data = _adapter(type(message)).dump_json(message)
    check_size(data, subject=subject)
    return data


def check_size(data: bytes, *, subject: str, limit_bytes: int = MAX_MESSAGE_BYTES) -> None:
    if len(data) > limit_bytes:
        raise TooLarge(
            f"A message for {subject} has {len(data)} bytes; the bus carries at most {limit_bytes}.",
            details={"subject": subject, "size_bytes": len(data), "limit_bytes": limit_bytes},
        )


def decode(kind: type[T], data: bytes, *, subject: str) -> T:
    """The message in these bytes; `BadMessage` names the subject and what is wrong with it."""
    try:
        message: T = _adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        raise BadMessage(
            f"A message on {subject} is not a valid {kind.__name__}: {_first_problem(error)}.",
            details={"subject": subject},
        ) from error
    return message


def encode_error(error: CorralError) -> bytes:
    told = {"code": error.slug, "kind": type(error).code, "message": error.message[:MAX_ERROR_CHARACTERS]}
    return json.dumps({"error": told}).encode()


def decode_reply(kind: type[T], data: bytes, *, subject: str) -> T:
    """The reply in these bytes; an error reply is raised."""
    failure = _error_in(data)
    if failure is not None:
        raise failure
    return decode(kind, data, subject=subject)


def _error_in(data: bytes) -> CorralError | None:
    try:
        body = json.loads(data)
    except ValueError:
        return None
    told = body.get("error") if isinstance(body, dict) else None
    if not isinstance(told, dict):
        return None
    code, message = str(told.get("code", "internal")), str(told.get("message", ""))
    return _class_of(str(told.get("kind", code)))(message or None, code=code)


def _class_of(code: str) -> type[CorralError]:
    waiting: list[type[CorralError]] = [CorralError]
    while waiting:
        kind = waiting.pop()
        if kind.code == code:
            return kind
        waiting.extend(kind.__subclasses__())
    return CorralError


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    what = first["msg"][:1].lower() + first["msg"][1:]
    return f"{where}: {what}" if where else what


# Building one costs far more than using it. There are as many as message types.
_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]
