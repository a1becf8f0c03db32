"""`corral open`: the web page in a browser, logged in with the key that the command line uses.

The link is printed, and opened if there is a screen. Browsers are started with the address as an argument, which other
users of the machine can read; so they are given a loopback address that redirects to the link, once.
"""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from corral.cli import render
from corral.cli.command import JsonOption, KeyFileOption, KeyOption, UrlOption
from corral.domain.errors import Unavailable

if TYPE_CHECKING:
    from corral.cli.target import Target

# A browser that has to start takes a while.
WAIT_S = 30.0
# Browsers ask for an icon and for nothing else; whoever asks more often is none.
TRIES_MAX = 20
REQUEST_S = 5.0
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_page(
    *,
    target_url: UrlOption = None,
    target_key: KeyOption = None,
    target_key_file: KeyFileOption = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link and open nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Open the web page, already logged in. Prints the link; whoever has it has the key. A dead key is refused."""
    from corral.cli.target import find_target

    target = find_target({"url": target_url, "key": target_key, "key_file": target_key_file})
    if target.key is not None:
        _check_key(target)
    link = link_of(target.url, target.key)
    if as_json:
        render.write_json({"url": link})
    else:
        render.write(link)
    if target.key is None:
        render.say("No key is known for this address: the page asks for one.")
    if no_browser or as_json or not has_screen(os.environ, sys.platform):
        return
    if not show(link):
        render.say("No browser could be opened; the link above works in any.")


def _check_key(target: Target) -> None:
    """Raise if the key does not work, or nobody answers: the link would lead nowhere."""
    import asyncio

    from corral.adapters.system import SystemClock, SystemIds
    from corral.cli.target import advice
    from corral.client import CorralClient

    async def ask() -> None:
        async with CorralClient(target.url, target.key, clock=SystemClock(), ids=SystemIds()) as client:
            await client.users.me()

    try:
        asyncio.run(ask())
    except Unavailable as error:
        if error.slug != "unreachable":
            return  # The frontend is there; whether the key works is its own business.
        raise Unavailable(error.message, hint=advice(target), code=error.slug) from error


def link_of(url: str, key: str | None) -> str:
    """What stands behind the # is not sent to the server: the page takes it and forgets it."""
    return f"{url}/app/" + (f"#key={quote(key, safe='')}" if key else "")


def has_screen(environment: Mapping[str, str], platform: str) -> bool:
    """Else Python would find a browser for terminals, which runs no scripts."""
    return platform in ("darwin", "win32") or any(environment.get(name) for name in _SCREENS)


def show(link: str) -> bool:
    """Have a browser open it; whether one has."""
    with _Once(link) as server:
        if not webbrowser.open(server.address):
            return False
        server.handle_until_asked()
        return server.was_asked


class _Once(HTTPServer):
    """Redirects whoever knows its path to the link, once."""

    timeout = WAIT_S

    def __init__(self, link: str) -> None:
        super().__init__(("127.0.0.1", 0), _Redirect)
        self.link = link
        self.path = f"/{secrets.token_urlsafe(16)}"
        self.was_asked = False
        self.is_late = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def handle_until_asked(self) -> None:
        for _ in range(TRIES_MAX):
            self.handle_request()
            if self.was_asked or self.is_late:
                return

    def handle_timeout(self) -> None:
        self.is_late = True


class _Redirect(BaseHTTPRequestHandler):
    server: _Once
    timeout = REQUEST_S

    def do_GET(self) -> None:
        if self.path != self.server.path:
            self.send_error(404)
            return
        self.server.was_asked = True
        self.send_response(303)
        self.send_header("Location", self.server.link)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        """The path is a secret for a moment; nobody reads these lines anyway."""
