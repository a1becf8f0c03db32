"""Chooses the address by which another machine reaches the frontends.

The setting `public_url` comes first, then the address that the caller used, unless it is a loopback; then this
machine's own address on its network, if the frontend listens there. Limit: behind a translating router only
`public_url` is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from corral.domain.errors import InvalidRequest

# Characters that are safe inside quotes in a shell script; the Host header of a request may contain any.
_PLAIN_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._/-]*)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """Says on which addresses this frontend listens, to compute the one for machines that join the cluster."""

    listen_host: str = "127.0.0.1"
    port: int = 8080
    # Returns this machine's address on its network. May block.
    find_host: Callable[[], str] = lambda: "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAddress:
    """Holds the frontend's address for machines that join, or why they cannot reach this cluster."""

    url: str
    # Why no other machine can join at this address, and what to do about it; None: other machines can join.
    problem: str | None = None
    hint: str | None = None


def choose_address(options: JoinOptions, public_url: str | None, request_url: str) -> JoinAddress:
    """Return the address for another machine. `asked_url` is the one that this caller used. May block."""
    for url in (public_url, request_url):
        if url and not is_loopback(urlsplit(url).hostname):
            return JoinAddress(url=check_url(url))
    if not is_loopback(options.listen_host):
        host = options.listen_host if not _is_unspecified(options.listen_host) else options.find_host()
        if not is_loopback(host):
            return JoinAddress(url=f"http://{f'[{host}]' if ':' in host else host}:{options.port}")
    return JoinAddress(
        url=check_url(public_url or request_url),
        problem=f"This cluster listens on {options.listen_host} only: no other machine can reach it.",
        hint="Start it with `corral up --host 0.0.0.0` (or `corral serve --host 0.0.0.0`). If a proxy stands before "
        "it, set public_url to the proxy's address.",
    )


def choose_script_url(public_url: str | None, request_url: str) -> str:
    """Return the address that the script uses: the one that it was fetched by, with the scheme of `public_url`."""
    if public_url and urlsplit(public_url).hostname == urlsplit(request_url).hostname:
        return check_url(public_url)
    return check_url(request_url)


def check_url(url: str) -> str:
    """Return the address without its last slash. Raises InvalidRequest unless it is safe inside a script."""
    plain = url.rstrip("/")
    if not _PLAIN_URL.fullmatch(plain):
        raise InvalidRequest("The host that this request names is no host.", hint="Use a name or an IP address.")
    return plain


def is_loopback(host: str | None) -> bool:
    if not host or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
