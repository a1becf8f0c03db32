"""Turns errors into responses, with one envelope for every route."""

from __future__ import annotations

import math
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from corral.domain.errors import CorralError, InvalidRequest, TooLarge, Unavailable
from corral.gateway.errors import RETRY_AFTER_S, make_envelope

log = structlog.get_logger(__name__)

_CODES_BY_STATUS = {404: "not_found", 405: "method_not_allowed"}
# How the paths of OpenAI's and Anthropic's APIs begin behind /v1.
_V1_SEGMENTS = frozenset(
    {"chat", "completions", "embeddings", "responses", "models", "messages", "audio", "images", "rerank"}
)
TOO_LARGE_HINT = "No call of this API needs that much. Upload model files with PUT /api/files."
_NOT_JSON = "The body is not valid JSON."
_NOT_JSON_HINT = "JSON is UTF-8 text; `python -m json.tool < body.json` shows where it breaks."


def make_error_response(request: Request, error: CorralError) -> JSONResponse:
    body = make_envelope(
        request.url.path,
        error.slug,
        error.message,
        hint=error.hint,
        details=error.details,
        request_id=get_request_id(request),
    )
    return JSONResponse(body, status_code=error.status, headers=_make_headers(error))


def _make_headers(error: CorralError) -> dict[str, str] | None:
    if isinstance(after_s := error.details.get("retry_after_s"), int | float):
        return {"Retry-After": str(math.ceil(after_s))}
    if isinstance(error, Unavailable):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {"WWW-Authenticate": "Bearer"} if error.status == 401 else None


def get_request_id(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


async def _on_corral_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CorralError)
    return make_error_response(request, error)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    """Name the first invalid field in a sentence; the others are in the details."""
    assert isinstance(error, RequestValidationError)
    problems = [{"field": _format_field(item), "problem": item["msg"]} for item in error.errors()]
    first = problems[0]
    if any(item["type"] == "json_invalid" for item in error.errors()):
        return make_error_response(request, _make_malformed_error())
    message = f"{first['field'] or 'The body'}: {first['problem']}."
    return make_error_response(request, InvalidRequest(message, details={"problems": problems}))


def _make_malformed_error() -> InvalidRequest:
    return InvalidRequest(_NOT_JSON, hint=_NOT_JSON_HINT, code="malformed_json")


def _format_field(item: dict[str, Any]) -> str:
    return ".".join(str(part) for part in item["loc"] if part not in ("body", "query", "path", "header"))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        # The framework's word for a body that is no text at all, or nested without end.
        return make_error_response(request, _make_malformed_error())
    if error.status_code == 413:
        return make_error_response(request, TooLarge(error.detail, hint=TOO_LARGE_HINT))
    code = _CODES_BY_STATUS.get(error.status_code, "http_error")
    message = f"There is no route {request.url.path[:200]}." if error.status_code == 404 else f"{error.detail}."
    hint = _suggest_route(request.url.path) if error.status_code in _CODES_BY_STATUS else None
    body = make_envelope(request.url.path, code, message, hint=hint, request_id=get_request_id(request))
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


def _suggest_route(path: str) -> str:
    """Return a hint for a path that does not exist: clients often have a wrong base address."""
    if path.startswith("/v1/v1/"):
        return "The base address ends with /v1, and the client adds /v1 itself, as Anthropic clients do. Remove it."
    first = path.removeprefix("/").partition("/")[0]
    if first in _V1_SEGMENTS:
        return f"The base address of OpenAI clients ends with /v1: use /v1{path[:200]}."
    return "GET /openapi.json lists the routes."


async def _on_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
    body = make_envelope(
        request.url.path,
        "internal",
        "This is a bug in Corral. The log of this frontend has the details.",
        request_id=get_request_id(request),
    )
    return JSONResponse(body, status_code=500)


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(CorralError, _on_corral_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_unexpected_error)
