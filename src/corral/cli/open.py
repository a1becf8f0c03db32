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
    from corral.cli.target import ClusterTarget

# A browser that has to start first needs some seconds.
WAIT_S = 30.0
# A browser requests the link and perhaps an icon; a client with more requests is not a browser.
TRIES_MAX = 20
REQUEST_S = 5.0
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_page(
    *,
    target_url: UrlOption = None,
    target_key: KeyOption = None,
    target_key_file: KeyFileOption = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link and do not open a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Open the web page, already signed in. Prints the link, which contains the key. An invalid key is refused."""
    from corral.cli.target import find_target

    target = find_target({"url": target_url, "key": target_key, "key_file": target_key_file})
    if target.key is not None:
        _check_key(target)
    link = make_link(target.url, target.key)
    if as_json:
        render.print_json({"url": link})
    else:
        render.print_data(link)
    if target.key is None:
        render.print_notice("There is no stored key for this address, so the page asks for one.")
    if no_browser or as_json or not has_screen(os.environ, sys.platform):
        return
    if not open_in_browser(link):
        render.print_notice("No browser could be opened. Open the link above in any browser.")


def _check_key(target: ClusterTarget) -> None:
    """Raise if the key does not work or the frontend does not respond, because the link would be useless then."""
    import asyncio

    from corral.adapters.system import SystemClock, SystemIdGenerator
    from corral.cli.target import describe_advice
    from corral.client import CorralClient

    async def ask() -> None:
        async with CorralClient(target.url, target.key, clock=SystemClock(), ids=SystemIdGenerator()) as client:
            await client.users.get_me()

    try:
        asyncio.run(ask())
    except Unavailable as error:
        if error.slug != "unreachable":
            return  # The frontend answers, so the page can report what is wrong with the key.
        raise Unavailable(error.message, hint=describe_advice(target), code=error.slug) from error


def make_link(url: str, key: str | None) -> str:
    """Return the link to the page with the key after the #, which browsers do not send to the server."""
    return f"{url}/app/" + (f"#key={quote(key, safe='')}" if key else "")


def has_screen(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether there is a screen. Without one, Python would find a text browser, which runs no scripts."""
    return platform in ("darwin", "win32") or any(environment.get(name) for name in _SCREENS)


def open_in_browser(link: str) -> bool:
    """Have a browser open the link; return whether one did."""
    with _OneTimeRedirectServer(link) as server:
        if not webbrowser.open(server.address):
            return False
        server.handle_until_requested()
        return server.was_requested


class _OneTimeRedirectServer(HTTPServer):
    """A loopback HTTP server that redirects the one browser that knows its path to the link, once."""

    timeout = WAIT_S

    def __init__(self, link: str) -> None:
        super().__init__(("127.0.0.1", 0), _RedirectHandler)
        self.link = link
        self.path = f"/{secrets.token_urlsafe(16)}"
        self.was_requested = False
        self.is_late = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def handle_until_requested(self) -> None:
        for _ in range(TRIES_MAX):
            self.handle_request()
            if self.was_requested or self.is_late:
                return

    def handle_timeout(self) -> None:
        self.is_late = True


class _RedirectHandler(BaseHTTPRequestHandler):
    """Handles the requests to `_OneTimeRedirectServer`: redirects from the secret path and refuses all others."""

    server: _OneTimeRedirectServer
    timeout = REQUEST_S

    def do_GET(self) -> None:
        if self.path != self.server.path:
            self.send_error(404)
            return
        self.server.was_requested = True
        self.send_response(303)
        self.send_header("Location", self.server.link)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        """Log nothing: the path of a request is a secret."""
