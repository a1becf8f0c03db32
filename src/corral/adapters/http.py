"""Fetches small documents over HTTP with aiohttp.

A body is read piece by piece and dropped as soon as it exceeds its limit, also when it arrives compressed. Redirects
are followed a few times; user and password of an address stay with its host. No cookie is kept, because requests are
those of all users. Proxies are those of the environment.
A request for public addresses only is checked by the text of its host, and then by the very address that each
connection is about to be made to: a name that leads elsewhere a moment later, or a redirect, is refused as well.
Limit: behind a proxy the connection is the proxy's; there the name is resolved once, before, and redirects are not
followed.
aiohttp is imported at the first call: it would be a tenth of a frontend's start, and many frontends never fetch
anything.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from corral.domain.errors import Unavailable, Unprocessable
from corral.policy.addresses import is_private_address
from corral.ports.files import FetchRequest, FetchResponse

if TYPE_CHECKING:
    import aiohttp

REDIRECTS_MAX = 5
CONNECT_TIMEOUT_S = 20.0
# More than callers make at a time (64 webhooks, attachments of 8 jobs, a few documents): a request that waits for a
# connection could find its time over before it was sent.
CONNECTIONS_MAX = 100
# Headers are small, so a server that sends megabytes of them is broken.
_HEADERS_MAX_BYTES = 64 * 1024


class HttpFetcher:
    """Fetches small documents, such as gallery indexes, over HTTP with aiohttp. A service.

    Its connections are closed with it. Implements `ports.files.Fetcher`.
    """

    name = "fetcher"

    def __init__(self, *, uses_proxies: bool = True) -> None:
        self._uses_proxies = uses_proxies
        # One for all addresses, and one whose connections lead to public ones only.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp  # noqa: PLC0415 - late, see above; imported by now

        has_proxy = self._uses_proxies and _has_proxy(request.url)
        if request.is_public_only:
            await self._refuse_private(request.url, has_proxy=has_proxy)
        is_checked = request.is_public_only and not has_proxy
        timeout = aiohttp.ClientTimeout(total=request.timeout_s, connect=CONNECT_TIMEOUT_S)
        try:
            async with self._ensure_session(is_checked=is_checked).request(
                request.method,
                request.url,
                headers=dict(request.headers),
                data=None if request.body is None else io.BytesIO(request.body),
                allow_redirects=request.body is None
                and request.follows_redirects
                and (is_checked or not request.is_public_only),
                timeout=timeout,
                max_redirects=REDIRECTS_MAX,
            ) as response:
                body = await _read_body(response, request) if request.reads_body else b""
        except TimeoutError as error:
            raise _make_error(request.url, f"no complete response within {request.timeout_s:g} s") from error
        except aiohttp.TooManyRedirects as error:
            raise _make_error(request.url, "redirected too often") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(getattr(error, "os_error", error), _PrivateConnectionError):
                raise _make_private_error(request.url) from error
            raise _make_error(request.url, _describe_error(error)) from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        return FetchResponse(status=response.status, headers=headers, body=body)

    async def look_up_addresses(self, host: str) -> tuple[str, ...]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ()
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    async def _refuse_private(self, url: str, *, has_proxy: bool) -> None:
        # Check the name itself first: resolving an internal name would disclose it.
        host = _find_host(url)
        if is_private_address(host):
            raise _make_private_error(url)
        if has_proxy and any(is_private_address(address) for address in await self.look_up_addresses(host)):
            raise _make_private_error(url)

    def _ensure_session(self, *, is_checked: bool) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415 - late, see above

        # Made late, because aiohttp needs a running loop and making a frontend must not.
        if is_checked not in self._sessions:
            factory = _open_public_socket if is_checked else None
            self._sessions[is_checked] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, socket_factory=factory),
                # All users share a session.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "corral"},
                max_line_size=_HEADERS_MAX_BYTES,
                # A request for a public address that has a proxy is made with the other session.
                trust_env=self._uses_proxies and not is_checked,
            )
        return self._sessions[is_checked]


class _PrivateConnectionError(OSError):
    """A connection would have been made to a private address."""


def _open_public_socket(info: tuple[Any, ...]) -> socket.socket:
    """Open a socket for an address that is not private; aiohttp calls this before every connection."""
    family, kind, protocol, _, address = info
    if is_private_address(str(address[0])):
        raise _PrivateConnectionError
    return socket.socket(family=family, type=kind, proto=protocol)


def _has_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for an address."""
    return url.partition(":")[0].lower() in getproxies() and not proxy_bypass(_find_host(url))


def _make_private_error(url: str) -> Unprocessable:
    return Unprocessable(
        f"{_find_host(url)} leads into a private network or to this machine itself.", code="private_address"
    )


async def _read_body(response: aiohttp.ClientResponse, request: FetchRequest) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    async for part in response.content.iter_any():
        size_bytes += len(part)
        if size_bytes > request.limit_bytes:
            raise _make_error(request.url, f"the response is larger than {request.limit_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _make_error(url: str, reason: str) -> Unavailable:
    return Unavailable(f"{_find_host(url)}: {reason}.", code="source_unavailable")


def _find_host(url: str) -> str:
    """Return the host of an address and no more: any other part can hold a password or a token."""
    try:
        return urlsplit(url).hostname or "an address without a host"
    except ValueError:
        return "an invalid address"


def _describe_error(error: Exception) -> str:
    """Describe an error in the system's own words where there are some; never in the library's, which repeat the
    address."""
    import aiohttp  # noqa: PLC0415 - late, see above

    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return "the address is not valid"
    return f"the connection broke ({type(error).__name__})"
