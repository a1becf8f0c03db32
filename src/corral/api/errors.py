"""The one place where an error becomes an answer: one envelope for every route."""

from __future__ import annotations

from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from corral.domain.errors import CorralError, Unavailable

log = structlog.get_logger(__name__)

# Seconds after which it makes sense to ask again when a part is away.
RETRY_AFTER_S = 2
_PLAIN = {404: "not_found", 405: "method_not_allowed"}


def envelope(request_path: str, code: str, message: str, **more: Any) -> dict[str, Any]:
    kind = "node_error" if request_path.startswith(("/api/node/", "/api/nodes")) else "corral_error"
    body: dict[str, Any] = {"code": code, "message": message, "type": kind}
    return {"error": body | {"hint": None, "details": {}, "request_id": None} | more}


def answer(request: Request, error: CorralError) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, Unavailable) else None
    if error.status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    body = envelope(
        request.url.path,
        error.slug,
        error.message,
        hint=error.hint,
        details=error.details,
        request_id=request_id_of(request),
    )
    return JSONResponse(body, status_code=error.status, headers=headers)


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
    is_syntax = any(item["type"] == "json_invalid" for item in error.errors())
    if is_syntax:
        code, message = "malformed_json", "The body is not valid JSON."
    else:
        code, message = "invalid_request", f"{first['field'] or 'The body'}: {first['problem']}."
    body = envelope(request.url.path, code, message, details={"problems": problems}, request_id=request_id_of(request))
    return JSONResponse(body, status_code=400)


def _field(item: dict[str, Any]) -> str:
    return ".".join(str(part) for part in item["loc"] if part not in ("body", "query", "path", "header"))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _PLAIN.get(error.status_code, "http_error")
    message = f"There is nothing at {request.url.path[:200]}." if error.status_code == 404 else f"{error.detail}."
    hint = "GET /openapi.json lists the routes." if error.status_code in _PLAIN else None
    body = envelope(request.url.path, code, message, hint=hint, request_id=request_id_of(request))
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


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
