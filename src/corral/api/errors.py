"""The one place where an error becomes an answer: one envelope for every route."""

from __future__ import annotations

import math
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from corral.domain.errors import CorralError, InvalidRequest, TooLarge, Unavailable

log = structlog.get_logger(__name__)

# Seconds after which it makes sense to ask again when a part is away.
RETRY_AFTER_S = 2
_PLAIN = {404: "not_found", 405: "method_not_allowed"}
# How the paths of OpenAI's and Anthropic's APIs begin behind /v1.
_OF_V1 = frozenset(
    {"chat", "completions", "embeddings", "responses", "models", "messages", "audio", "images", "rerank"}
)
TOO_LARGE_HINT = "No call of this API needs that much; model files travel another way."
_NOT_JSON = "The body is not valid JSON."
_NOT_JSON_HINT = "JSON is UTF-8 text; `python -m json.tool < body.json` shows where it breaks."


def envelope(request_path: str, code: str, message: str, **more: Any) -> dict[str, Any]:
    kind = "node_error" if request_path.startswith(("/api/node/", "/api/nodes")) else "corral_error"
    body: dict[str, Any] = {"code": code, "message": message, "type": kind}
    return {"error": body | {"hint": None, "details": {}, "request_id": None} | more}


def answer(request: Request, error: CorralError) -> JSONResponse:
    body = envelope(
        request.url.path,
        error.slug,
        error.message,
        hint=error.hint,
        details=error.details,
        request_id=request_id_of(request),
    )
    return JSONResponse(body, status_code=error.status, headers=_headers(error))


def _headers(error: CorralError) -> dict[str, str] | None:
    if isinstance(after_s := error.details.get("retry_after_s"), int | float):
        return {"Retry-After": str(math.ceil(after_s))}
    if isinstance(error, Unavailable):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {"WWW-Authenticate": "Bearer"} if error.status == 401 else None


def request_id_of(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


async def _corral_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CorralError)
    return answer(request, error)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Name the first wrong field in a sentence; the others stand in the details."""
    assert isinstance(error, RequestValidationError)
    problems = [{"field": _field(item), "problem": item["msg"]} for item in error.errors()]
    first = problems[0]
    if any(item["type"] == "json_invalid" for item in error.errors()):
        return answer(request, _malformed())
    message = f"{first['field'] or 'The body'}: {first['problem']}."
    return answer(request, InvalidRequest(message, details={"problems": problems}))


def _malformed() -> InvalidRequest:
    return InvalidRequest(_NOT_JSON, hint=_NOT_JSON_HINT, code="malformed_json")


def _field(item: dict[str, Any]) -> str:
    return ".".join(str(part) for part in item["loc"] if part not in ("body", "query", "path", "header"))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        # The framework's word for a body that is no text at all, or nested without end.
        return answer(request, _malformed())
    if error.status_code == 413:
        return answer(request, TooLarge(error.detail, hint=TOO_LARGE_HINT))
    code = _PLAIN.get(error.status_code, "http_error")
    message = f"There is nothing at {request.url.path[:200]}." if error.status_code == 404 else f"{error.detail}."
    hint = _route_hint(request.url.path) if error.status_code in _PLAIN else None
    body = envelope(request.url.path, code, message, hint=hint, request_id=request_id_of(request))
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


def _route_hint(path: str) -> str:
    """Return what was probably meant by a path that does not exist: clients are often given a wrong base address."""
    if path.startswith("/v1/v1/"):
        return "The base address ends with /v1 and the client adds /v1 itself, as Anthropic's do: leave it out."
    first = path.removeprefix("/").partition("/")[0]
    if first in _OF_V1:
        return f"The base address of OpenAI's clients ends with /v1: this is /v1{path[:200]}."
    return "GET /openapi.json lists the routes."


async def _bug(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
    body = envelope(
        request.url.path,
        "internal",
        "Corral made a mistake; the log of this frontend says more.",
        request_id=request_id_of(request),
    )
    return JSONResponse(body, status_code=500)


def install(app: FastAPI) -> None:
    app.add_exception_handler(CorralError, _corral_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)
