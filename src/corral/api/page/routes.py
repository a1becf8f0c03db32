"""`/` and `/app/…` as plain ASGI routes. Nobody has to come in for the page itself: it holds no data.

Every address below `/app/` that is no file is the page, which finds out by itself what is meant; below `/app/assets/`
it is a file or nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from corral import __version__
from corral.api.errors import envelope
from corral.api.page import reference, waiting
from corral.api.page.assets import FOREVER, INDEX, PLAIN, Asset
from corral.api.page.page import Missing
from corral.api.parts import Parts

HOME = "/app/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_FOREVER = "public, max-age=31536000, immutable"
_GUARDED = {"x-content-type-options": "nosniff", "referrer-policy": "same-origin"}
_JSON = "application/json"

_Headers = Mapping[str, str]


def is_page(path: str) -> bool:
    """What is answered here, whatever else works."""
    return path in ("/", "/app", _Icon.path) or path.startswith(HOME)


class _Files:
    """`/app/…`"""

    # What the metrics call it.
    path = "/app/{path}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        parts = scope["app"].state.parts
        assert isinstance(parts, Parts)
        name = request.path_params["path"]
        if not _is_plain(name):
            await _refuse(request, send)
            return
        asset = await parts.page.find(name or INDEX)
        if asset is None and not name.startswith(FOREVER):
            missing = await parts.page.missing()
            if missing is not None:
                await _wait(request, send, missing)
                return
            asset = await parts.page.find(INDEX)
        if asset is None:
            await _refuse(request, send)
        else:
            await _send_asset(request, send, asset)


class _Bare:
    """`/app`, as people type it."""

    path = "/app"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await _answer(Request(scope, receive), send, 308, {"location": HOME})


class _Icon:
    """`/favicon.ico`, which browsers ask for beside /docs and every JSON answer."""

    path = "/favicon.ico"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        asset = await scope["app"].state.parts.page.find("fence.svg")
        if asset is None:
            # Not built, as in a source without Node: a browser then shows its own sign.
            await _answer(request, send, 204, {"cache-control": "no-store"})
        else:
            await _send_asset(request, send, asset)


class _Root:
    """`/`: browsers go to the page, programs are told where everything is."""

    path = "/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        common = {"vary": "accept", "cache-control": "no-store"}
        if "text/html" in request.headers.get("accept", ""):
            await _answer(request, send, 307, common | {"location": HOME})
            return
        told = {"name": "corral", "version": __version__, "page": HOME, "api": "/docs", "openai": "/v1"}
        await _answer(request, send, 200, common | {"content-type": _JSON}, json.dumps(told).encode())


class _Reference:
    """`/docs`: the reference of the API, without anybody else's scripts."""

    path = "/docs"

    def __init__(self) -> None:
        self._body: bytes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        if self._body is None:
            self._body = await asyncio.to_thread(lambda: reference.render_reference(scope["app"].openapi()))
        headers = {
            **_GUARDED,
            "content-security-policy": reference.POLICY,
            "content-type": "text/html; charset=utf-8",
            "cache-control": "no-cache",
        }
        await _answer(Request(scope, receive), send, 200, headers, self._body)


def _is_plain(name: str) -> bool:
    """No way up, no second name for the same thing."""
    return not any(part in (".", "..") for part in name.split("/")) and "\\" not in name and "\0" not in name


async def _send_asset(request: Request, send: Send, asset: Asset) -> None:
    encoding = asset.chosen(request.headers.get("accept-encoding", ""))
    etag = asset.etag(encoding)
    headers = {
        **_GUARDED,
        "content-security-policy": POLICY,
        "etag": etag,
        "cache-control": _FOREVER if asset.is_forever else "no-cache",
        "vary": "accept-encoding",
    }
    if _is_known(request, etag):
        await _answer(request, send, 304, headers)
        return
    headers["content-type"] = asset.content_type
    if encoding != PLAIN:
        headers["content-encoding"] = encoding
    await _answer(request, send, 200, headers, asset.bodies[encoding])


def _is_known(request: Request, etag: str) -> bool:
    given = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    return etag in given or "*" in given


async def _wait(request: Request, send: Send, missing: Missing) -> None:
    headers = {
        **_GUARDED,
        "content-security-policy": waiting.POLICY,
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
    }
    if missing.is_building:
        headers["retry-after"] = str(waiting.REFRESH_S)
    await _answer(request, send, 503, headers, waiting.render(missing))


async def _refuse(request: Request, send: Send) -> None:
    request_id = request.scope["state"]["request_id"]
    body = envelope(request.url.path, "not_found", "There is no such file.", request_id=request_id)
    headers = {**_GUARDED, "content-type": _JSON, "cache-control": "no-store"}
    await _answer(request, send, 404, headers, json.dumps(body).encode())


async def _answer(request: Request, send: Send, status: int, headers: _Headers, body: bytes = b"") -> None:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    if status != 304:
        lines.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


ROUTES = [
    Route("/", _Root(), methods=["GET"]),
    Route("/docs", _Reference(), methods=["GET"]),
    Route(_Icon.path, _Icon(), methods=["GET"]),
    Route("/app", _Bare(), methods=["GET"]),
    Route("/app/{path:path}", _Files(), methods=["GET"]),
]
