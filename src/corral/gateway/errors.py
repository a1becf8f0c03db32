"""Errors that a client can get in place of a model's response, and their form in responses.

The form is OpenAI's: `error` with message, type, code and param; the hint is part of the message. The other fields of
our own envelope stay in it, so that our own clients read one form on every route.
"""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

from corral.domain.errors import CorralError, LimitReached, NotFound, Unavailable

# Seconds after which a client should try again while a service is away.
RETRY_AFTER_S = 2
STREAM = "text/event-stream"
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# OpenAI's own code, which its users' programs check for.
_CODES = {"not_authenticated": "invalid_api_key"}


class ModelNotFound(NotFound):
    """There is no model of that name."""

    code = "model_not_found"


class ModelLoading(Unavailable):
    """The model is being loaded; the request has waited as long as it may."""

    code = "model_loading"


class ModelEdited(Unavailable):
    """The model's configuration was edited again and again while the request waited for the model."""

    code = "model_edited"


class LoadFailed(CorralError):
    """The model that the request names could not be loaded."""

    code: ClassVar[str] = "load_failed"
    status: ClassVar[int] = 500


class NoCapacity(Unavailable):
    """The model that the request names could not be loaded now; room, a node or a source is missing."""

    code = "no_capacity"


class QueueFull(CorralError):
    """Too many requests wait for a replica of the model already."""

    code: ClassVar[str] = "queue_full"
    status: ClassVar[int] = 429
    retryable: ClassVar[bool] = True


class QueueTimeout(Unavailable):
    """No replica of the model had room for the request in time."""

    code = "queue_timeout"


class AllReplicasFailed(CorralError):
    """The engine did not respond on any replica of the model that was tried."""

    code: ClassVar[str] = "engine_failed"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


class EngineTimeout(CorralError):
    """The engine accepted the call and then sent nothing for too long."""

    code: ClassVar[str] = "engine_timeout"
    status: ClassVar[int] = 504
    retryable: ClassVar[bool] = True


class ResponseInterrupted(CorralError):
    """The engine's response broke off after its beginning had been relayed to the client."""

    code: ClassVar[str] = "engine_lost"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


def make_not_repeatable_error(error: CorralError) -> AllReplicasFailed:
    return AllReplicasFailed(
        f"{error.message} A part of the body was already sent, so the request cannot be retried on another replica.",
        hint="Send the request again.",
    )


def make_envelope(request_path: str, code: str, message: str, **more: Any) -> dict[str, Any]:
    """Return the body of an error response in our own envelope."""
    kind = (
        "node_error" if request_path.startswith(("/api/node/", "/api/nodes", "/api/files/results/")) else "corral_error"
    )
    body: dict[str, Any] = {"code": code, "message": message, "type": kind}
    return {"error": body | {"hint": None, "details": {}, "request_id": None} | more}


def render_error(path: str, error: CorralError, request_id: str | None) -> bytes:
    message = f"{error.message} {error.hint}" if error.hint else error.message
    code = _CODES.get(error.slug, error.slug)
    body = make_envelope(path, code, message, hint=error.hint, details=error.details, request_id=request_id)
    body["error"] |= {"type": _find_type(error), "param": "model" if error.slug.startswith("model_") else None}
    if isinstance(error, ModelLoading):
        body["loading"] = error.details["loading"]
    return json.dumps(body, default=str).encode()


def _find_type(error: CorralError) -> str:
    if isinstance(error, ModelLoading):
        return error.slug
    default = "server_error" if error.status >= 500 else "invalid_request_error"
    return _TYPES.get(error.status, default)


def render_error_headers(error: CorralError) -> list[tuple[bytes, bytes]]:
    if error.details.get("should_retry") is False:
        # Client libraries send a failed request again by themselves, unless a header forbids it.
        return [(b"x-should-retry", b"false")]
    if isinstance(after_s := error.details.get("retry_after_s"), int | float):
        left = error.lines if isinstance(error, LimitReached) else ()
        return [(b"retry-after", b"%d" % math.ceil(after_s)), *left]
    if isinstance(error, Unavailable):
        return [(b"retry-after", str(RETRY_AFTER_S).encode())]
    if error.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return []


def render_error_event(error: CorralError) -> bytes:
    """Render the last event of a stream that broke off."""
    details = {"message": error.message, "type": _find_type(error), "code": error.slug, "param": None}
    return b"data: " + json.dumps({"error": details}).encode() + b"\n\n"
