"""Fetches small documents over HTTP with aiohttp.

A body is read piece by piece and dropped as soon as it exceeds its limit, also when it arrives compressed. Redirects
are followed a few times; user and password of an address stay with its host. Proxies are those of the environment.
aiohttp is imported at the first call: it would be a tenth of a frontend's start, and many frontends never fetch
anything.
"""

from __future__ import annotations

import asyncio
import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from corral.domain.errors import Unavailable
from corral.ports.files import FetchRequest, FetchResponse

if TYPE_CHECKING:
    import aiohttp

REDIRECTS_MAX = 5
CONNECT_TIMEOUT_S = 20.0
CONNECTIONS_MAX = 20
# Headers are small, so a server that sends megabytes of them is broken.
_HEADERS_MAX_BYTES = 64 * 1024


class HttpFetcher:
    """Fetches small documents over HTTP with aiohttp. A service: its connections are closed with it. Implements
    `ports.files.Fetcher`."""

    name = "fetcher"

    def __init__(self, user_agent: str = "corral", *, uses_proxies: bool = True) -> None:
        self._user_agent = user_agent
        self._uses_proxies = uses_proxies
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp  # noqa: PLC0415 - late, see above; imported by now

        timeout = aiohttp.ClientTimeout(total=request.timeout_s, connect=CONNECT_TIMEOUT_S)
        try:
            async with self._ensure_session().request(
                request.method,
                request.url,
                headers=dict(request.headers),
                data=request.body,
                allow_redirects=request.body is None,
                timeout=timeout,
                max_redirects=REDIRECTS_MAX,
            ) as response:
                body = await _read_body(response, request)
        except TimeoutError as error:
            raise _make_error(request.url, f"no complete response within {request.timeout_s:g} s") from error
        except aiohttp.TooManyRedirects as error:
            raise _make_error(request.url, "redirected too often") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _make_error(request.url, _describe_error(error)) from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        return FetchResponse(status=response.status, headers=headers, body=body)

    async def look_up_addresses(self, host: str) -> tuple[str, ...]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ()
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def _ensure_session(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415 - late, see above

        # Made late, because aiohttp needs a running loop and making a frontend must not.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
                headers={"User-Agent": self._user_agent},
                max_line_size=_HEADERS_MAX_BYTES,
                trust_env=self._uses_proxies,
            )
        return self._session


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
