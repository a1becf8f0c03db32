"""`/` and `/app/…` as plain ASGI routes. The page itself needs no sign-in: it contains no data.

Every path below `/app/` that is not a file returns the page, whose router handles the path; below `/app/assets/` a
path is a file or a 404. While there is no page, `/app/` is a placeholder, one small document without scripts: while
the page is being built it reloads every second; otherwise it shows what to do. Its content security policy allows only
its own style, by hash.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from corral import __version__
from corral.api.deps import ApiDeps
from corral.api.page import reference
from corral.api.page.page_store import IMMUTABLE_PREFIX, INDEX, PLAIN, PageAsset, PageUnavailableReason
from corral.gateway.errors import make_envelope

HOME = "/app/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_FOREVER = "public, max-age=31536000, immutable"
_SECURITY_HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "same-origin"}
_JSON = "application/json"
_Headers = Mapping[str, str]
PLACEHOLDER_REFRESH_S = 1
_PLACEHOLDER_STYLE = """
:root { color-scheme: light dark;
  --ground: #f7f5f0; --ink: #1d1b16; --quiet: #6b665a; --line: #d9d4c7; --mark: #b4541a; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #161511; --ink: #efece3; --quiet: #a39d8d; --line: #35322a; --mark: #f0935a; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 34rem; border-top: 2px solid var(--mark); padding-top: 20px; }
h1 { margin: 0 0 8px; font-size: 22px; line-height: 1.25; font-weight: 600; text-wrap: balance; }
p { margin: 0; color: var(--quiet); overflow-wrap: anywhere; }
code { font: 14px/1.4 ui-monospace, monospace; color: var(--ink); border: 1px solid var(--line); border-radius: 4px;
  padding: 1px 5px; }
.bar { height: 2px; margin-top: 20px; overflow: hidden; background: var(--line); }
.bar::after { content: ""; display: block; width: 30%; height: 100%; background: var(--mark);
  animation: pass 1s ease-in-out infinite alternate; }
@keyframes pass { to { transform: translateX(233%); } }
@media (prefers-reduced-motion: reduce) { .bar::after { animation: none; } }
"""
_PLACEHOLDER_HASH = base64.b64encode(hashlib.sha256(_PLACEHOLDER_STYLE.encode()).digest()).decode()
PLACEHOLDER_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_PLACEHOLDER_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'"
)
_COMMAND = re.compile(r"`([^`]+)`")


def is_page(path: str) -> bool:
    """Return whether a path belongs to the page, which is served no matter what else works."""
    return path in ("/", "/app", _FaviconRoute.path) or path.startswith(HOME)


class _PageFilesRoute:
    """ASGI route of `/app/…`: sends the files of the web page."""

    # The path label in the metrics.
    path = "/app/{path}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        deps = scope["app"].state.deps
        assert isinstance(deps, ApiDeps)
        name = request.path_params["path"]
        if not _is_plain_name(name):
            await _send_not_found(request, send)
            return
        asset = await deps.page.find(name or INDEX)
        if asset is None and not name.startswith(IMMUTABLE_PREFIX):
            missing = await deps.page.find_unavailable_reason()
            if missing is not None:
                await _send_placeholder(request, send, missing)
                return
            asset = await deps.page.find(INDEX)
        if asset is None:
            await _send_not_found(request, send)
        else:
            await _send_asset(request, send, asset)


class _PageRedirectRoute:
    """ASGI route of `/app`: redirects to `/app/`."""

    path = "/app"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await _send_response(Request(scope, receive), send, 308, {"location": HOME})


class _FaviconRoute:
    """ASGI route of `/favicon.ico`."""

    path = "/favicon.ico"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        asset = await scope["app"].state.deps.page.find("fence.svg")
        if asset is None:
            # The page is not built, as in a checkout without Node: browsers then show their default icon.
            await _send_response(request, send, 204, {"cache-control": "no-store"})
        else:
            await _send_asset(request, send, asset)


class _RootRoute:
    """ASGI route of `/`: redirects browsers to the page and tells programs where everything is."""

    path = "/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        common = {"vary": "accept", "cache-control": "no-store"}
        if "text/html" in request.headers.get("accept", ""):
            await _send_response(request, send, 307, common | {"location": HOME})
            return
        addresses = {"name": "corral", "version": __version__, "page": HOME, "api": "/docs", "openai": "/v1"}
        await _send_response(request, send, 200, common | {"content-type": _JSON}, json.dumps(addresses).encode())


class _ReferenceRoute:
    """ASGI route of `/docs`: the API reference, without third-party scripts."""

    path = "/docs"

    def __init__(self) -> None:
        self._body: bytes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        if self._body is None:
            self._body = await asyncio.to_thread(lambda: reference.render_reference(scope["app"].openapi()))
        headers = {
            **_SECURITY_HEADERS,
            "content-security-policy": reference.POLICY,
            "content-type": "text/html; charset=utf-8",
            "cache-control": "no-cache",
        }
        await _send_response(Request(scope, receive), send, 200, headers, self._body)


def _is_plain_name(name: str) -> bool:
    """Return whether a name has neither `..` nor another spelling of the same path in it."""
    return not any(part in (".", "..") for part in name.split("/")) and "\\" not in name and "\0" not in name


async def _send_asset(request: Request, send: Send, asset: PageAsset) -> None:
    encoding = asset.choose_encoding(request.headers.get("accept-encoding", ""))
    etag = asset.make_etag(encoding)
    headers = {
        **_SECURITY_HEADERS,
        "content-security-policy": POLICY,
        "etag": etag,
        "cache-control": _FOREVER if asset.is_forever else "no-cache",
        "vary": "accept-encoding",
    }
    if _is_known(request, etag):
        await _send_response(request, send, 304, headers)
        return
    headers["content-type"] = asset.content_type
    if encoding != PLAIN:
        headers["content-encoding"] = encoding
    await _send_response(request, send, 200, headers, asset.bodies[encoding])


def _is_known(request: Request, etag: str) -> bool:
    given = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    return etag in given or "*" in given


async def _send_placeholder(request: Request, send: Send, unavailable: PageUnavailableReason) -> None:
    headers = {
        **_SECURITY_HEADERS,
        "content-security-policy": PLACEHOLDER_POLICY,
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
    }
    if unavailable.is_building:
        headers["retry-after"] = str(PLACEHOLDER_REFRESH_S)
    await _send_response(request, send, 503, headers, render_placeholder(unavailable))


async def _send_not_found(request: Request, send: Send) -> None:
    request_id = request.scope["state"]["request_id"]
    body = make_envelope(request.url.path, "not_found", "There is no such file.", request_id=request_id)
    headers = {**_SECURITY_HEADERS, "content-type": _JSON, "cache-control": "no-store"}
    await _send_response(request, send, 404, headers, json.dumps(body).encode())


async def _send_response(request: Request, send: Send, status: int, headers: _Headers, body: bytes = b"") -> None:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    if status != 304:
        lines.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


ROUTES = [
    Route("/", _RootRoute(), methods=["GET"]),
    Route("/docs", _ReferenceRoute(), methods=["GET"]),
    Route(_FaviconRoute.path, _FaviconRoute(), methods=["GET"]),
    Route("/app", _PageRedirectRoute(), methods=["GET"]),
    Route("/app/{path:path}", _PageFilesRoute(), methods=["GET"]),
]


def render_placeholder(unavailable: PageUnavailableReason) -> bytes:
    refresh = f'<meta http-equiv="refresh" content="{PLACEHOLDER_REFRESH_S}">\n' if unavailable.is_building else ""
    bar = '<div class="bar" aria-hidden="true"></div>\n' if unavailable.is_building else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}<title>Corral</title>
<link rel="icon" href="data:,">
<style>{_PLACEHOLDER_STYLE}</style>
</head>
<body>
<main>
<h1>{_mark_commands(unavailable.sentence)}</h1>
<p>{_mark_commands(unavailable.hint)}</p>
{bar}</main>
</body>
</html>
""".encode()


def _mark_commands(text: str) -> str:
    """Render text between backticks as code."""
    return _COMMAND.sub(r"<code>\1</code>", escape(text))
