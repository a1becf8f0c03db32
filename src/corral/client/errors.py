"""An answer that says no becomes the same error that the frontend raised: class by code, else by status."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import ValidationError

from corral.domain.errors import (
    Conflict,
    CorralError,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    TooLarge,
    Unavailable,
    Unprocessable,
)
from corral.wire.errors import ErrorBody, ErrorOut

_BY_STATUS: dict[int, type[CorralError]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Unprocessable,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_from_answer(status: int, body: bytes, *, origin: str) -> CorralError:
    """The error that an answer carries. An answer that is not ours (a proxy's page) gets a sentence about that."""
    kind = _BY_STATUS.get(status, CorralError)
    try:
        error = ErrorOut.model_validate_json(body).error
    except ValidationError:
        return _error_of_a_stranger(kind, status, origin)
    kind = _class_by_code().get(error.code, kind)
    return kind(error.message, hint=error.hint, code=error.code, details=_details(error))


def unexpected_answer(origin: str, what: str) -> CorralError:
    return CorralError(
        f"{origin} answered with something that is not Corral's: {what}.",
        hint="Is this the address of a frontend, and of a version near this one? `corral version` shows ours.",
        code="unexpected_answer",
    )


def _error_of_a_stranger(kind: type[CorralError], status: int, origin: str) -> CorralError:
    if kind is NotAuthenticated:
        return kind(f"{origin} wants a valid key.", hint="`corral login` stores one.")
    return kind(
        f"{origin} answered with status {status} and no explanation.",
        hint="Is this the address of a frontend? Something between here and there may have answered instead.",
        code="unexpected_answer",
    )


def _details(error: ErrorBody) -> dict[str, object]:
    details: dict[str, object] = dict(error.details)
    if error.request_id:
        details["request_id"] = error.request_id
    return details


def _class_by_code() -> dict[str, type[CorralError]]:
    return {kind.code: kind for kind in _descendants(CorralError)}


def _descendants(kind: type[CorralError]) -> Iterator[type[CorralError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _descendants(child)


def parse_json(body: bytes, *, origin: str) -> object:
    try:
        return json.loads(body)
    except ValueError as error:
        raise unexpected_answer(origin, "no JSON") from error
