"""Our errors in OpenAI's shape: `error` with message, type, code and param; the hint is part of the message.

What our own envelope has beside these stays in it: clients of ours read one form on every route.
"""

from __future__ import annotations

import json
import math

from starlette.types import Send

from corral.api.errors import RETRY_AFTER_S, envelope
from corral.domain.errors import CorralError, LimitReached, Unavailable
from corral.serving.errors import ModelLoading

STREAM = "text/event-stream"
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# OpenAI's own word, which its users' programs look for.
_CODES = {"not_authenticated": "invalid_api_key"}


def rendered(path: str, error: CorralError, request_id: str | None) -> bytes:
    message = f"{error.message} {error.hint}" if error.hint else error.message
    code = _CODES.get(error.slug, error.slug)
    body = envelope(path, code, message, hint=error.hint, details=error.details, request_id=request_id)
    body["error"] |= {"type": _type(error), "param": "model" if error.slug.startswith("model_") else None}
    if isinstance(error, ModelLoading):
        body["loading"] = error.details["loading"]
    return json.dumps(body, default=str).encode()


def _type(error: CorralError) -> str:
    if isinstance(error, ModelLoading):
        return error.slug
    default = "server_error" if error.status >= 500 else "invalid_request_error"
    return _TYPES.get(error.status, default)


def headers(error: CorralError) -> list[tuple[bytes, bytes]]:
    if isinstance(after_s := error.details.get("retry_after_s"), int | float):
        left = error.lines if isinstance(error, LimitReached) else ()
        return [(b"retry-after", b"%d" % math.ceil(after_s)), *left]
    if isinstance(error, Unavailable):
        return [(b"retry-after", str(RETRY_AFTER_S).encode())]
    if error.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return []


def event(error: CorralError) -> bytes:
    """The last event of a stream that broke off."""
    said = {"message": error.message, "type": _type(error), "code": error.slug, "param": None}
    return b"data: " + json.dumps({"error": said}).encode() + b"\n\n"


async def answer(send: Send, path: str, error: CorralError, request_id: str | None) -> None:
    body = rendered(path, error, request_id)
    plain = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error.status, "headers": plain + headers(error)})
    await send({"type": "http.response.body", "body": body})
