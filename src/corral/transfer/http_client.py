"""HTTP for downloads: bounded waits, and every failure as one of our errors.

A response has to begin within one limit and to go on within another; its size has none. An address is always shown
without its password and query.

Addresses that users name can be kept from leading inside: to this machine, the local network, a cloud's metadata
service. A host is checked twice: by its text before it is resolved, and by the very address that a connection is about
to be made to, also after redirects. So a name that leads elsewhere a moment later is refused. Limit: behind a proxy
the connection is the proxy's; there the name is resolved once, before.

Why a host cannot be reached is explained in one sentence: its name, the connection, the route, a proxy or a
certificate. The same sentence is made of errors of aiohttp and of the output of uv, so that a person reads the same
when an engine is installed and when a model is fetched. Limit: nothing is guessed from an output of uv; if it gives no
cause, it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed leaves it out

import aiohttp

from corral.domain.errors import Unprocessable
from corral.policy.addresses import is_private_address
from corral.transfer.faults import SourceFailed, TransferFailed

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
# Statuses of temporary failures that are not 5xx.
_RETRYABLE_STATUSES = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """Tunables of downloads from a source: attempts, pauses, and time limits that count silence, not size."""

    attempts: int = 3
    # The pause before the second attempt; it doubles from there.
    retry_s: float = 2.0
    # Without a byte for this long an attempt ends.
    stall_s: float = 60.0
    # Time limit for a connection, for each address of a host.
    connect_s: float = 10.0
    # Time limit until a response begins.
    header_s: float = 120.0
    redirects_max: int = 10


class PrivateAddressError(OSError):
    """Raised when a download would have connected to a private network address."""

    def __init__(self) -> None:
        super().__init__("the address is private")


def make_private_address_error() -> Unprocessable:
    return Unprocessable(
        "The address leads into a private network or to this machine itself.",
        code="private_address",
        hint="Put the file behind a public address, or let the operator set allow_private_sources.",
    )


def open_public_socket(info: tuple[Any, ...]) -> socket.socket:
    """Open a socket for an address that is not private; aiohttp calls this before every connection."""
    family, kind, protocol, _, address = info
    if is_private_address(str(address[0])):
        raise PrivateAddressError
    return socket.socket(family=family, type=kind, proto=protocol)


async def refuse_private_host(host: str) -> None:
    """Raise `Unprocessable` with the code `private_address` if a host is private by its text or by its resolved
    address."""
    # Check the name itself first: resolving an internal name would disclose it.
    if is_private_address(host):
        raise make_private_address_error()
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    if any(is_private_address(str(address[0])) for *_, address in found):
        raise make_private_address_error()


def redact_url(url: str) -> str:
    """Return an address for logs and records, without password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class TransferHttpClient:
    """Sends HTTP requests for downloads within time limits, and turns every failure into an error of Corral."""

    def __init__(self, options: TransferOptions, environment: Mapping[str, str], *, only_public: bool = False) -> None:
        self.options = options
        self._environment = environment
        self._only_public = only_public
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> TransferHttpClient:
        given = {name.upper() for name, value in self._environment.items() if value}
        has_proxy = bool(given.intersection(_PROXIES))
        factory = open_public_socket if self._only_public and not has_proxy else None
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(ssl=self._make_tls_context(), socket_factory=factory),
            # Downloads of all users share a session.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.options.connect_s),
            trust_env=has_proxy,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def _make_tls_context(self) -> ssl.SSLContext | bool:
        for name in _CERTIFICATES:
            file = self._environment.get(name)
            if file and Path(file).is_file():
                return ssl.create_default_context(cafile=file)
        return True

    @contextlib.asynccontextmanager
    async def request(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield the response, whatever its status."""
        assert self._session is not None, "the session is not open"
        if self._only_public:
            await refuse_private_host(_get_host(url))
        request_headers = {"Accept-Encoding": "identity", **(headers or {})}
        with _translate_errors(url, self._environment):
            async with asyncio.timeout(self.options.header_s):
                response = await self._session.request(
                    method, url, headers=request_headers, max_redirects=self.options.redirects_max
                )
        try:
            if urlsplit(url).scheme == "https" and response.url.scheme != "https":
                raise SourceFailed(f"{redact_url(url)} leads to an address without encryption.", code="bad_answer")
            yield response
        finally:
            response.close()

    async def iterate_chunks(self, url: str, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        while True:
            with _translate_errors(url, self._environment):
                async with asyncio.timeout(self.options.stall_s):
                    chunk = await response.content.readany()
            if not chunk:
                return
            yield chunk

    async def read_body(self, url: str, response: aiohttp.ClientResponse, limit: int) -> bytes:
        """Read a small body as a whole."""
        body = bytearray()
        async for chunk in self.iterate_chunks(url, response):
            body += chunk
            if len(body) > limit:
                raise SourceFailed(f"{redact_url(url)} returned more than {limit} bytes.", code="bad_answer")
        return bytes(body)


def _get_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError as error:
        raise TransferFailed("That is not an address.", code="invalid_request") from error


def make_refusal(url: str, status: int) -> TransferFailed | SourceFailed:
    """Return the error for a response with an unexpected status."""
    where = redact_url(url)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE_STATUSES:
        return SourceFailed(f"{where} returned {status}.", code="source_unavailable")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return TransferFailed(f"There is nothing at {where}.", code="not_found")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return TransferFailed(
            f"{where} returned {status}: Corral is not allowed to fetch it.",
            hint="Credentials are a setting of the program that fetches, a frontend or a worker.",
            code="not_allowed",
            details={"status": status},
        )
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return SourceFailed(f"The proxy on the way to {where} requires a user and a password (407).", code="bad_answer")
    return SourceFailed(f"{where} returned {status}, which was not expected here.", code="bad_answer")


@contextlib.contextmanager
def _translate_errors(url: str, environment: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except aiohttp.TooManyRedirects as error:
        raise SourceFailed(f"{redact_url(url)} redirects too many times.", code="bad_answer") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise TransferFailed(f"{redact_url(url)!r} is not an address.", code="bad_manifest") from error
    except TimeoutError as error:
        late = SourceFailed(f"{redact_url(url)} does not respond in time.", code="source_unavailable")
        raise explain_connection_error(url, error, environment) or late from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(getattr(error, "os_error", error), PrivateAddressError):
            raise make_private_address_error() from error
        if (unreached := explain_connection_error(url, error, environment)) is not None:
            raise unreached from error
        reason = str(error) or type(error).__name__
        raise SourceFailed(f"{redact_url(url)} broke off: {reason}.", code="source_unavailable") from error


_UNRESOLVED = "its name cannot be resolved"
_REFUSED = "the connection was refused"
_NO_ROUTE = "there is no route to it"
_TIMED_OUT = "no connection was made in time"
_UNTRUSTED = "its certificate is not trusted here (SSL_CERT_FILE names a file with certificates that are)"
_WANTS_PASSWORD = "the proxy requires a user and a password (407)"  # noqa: S105 - a sentence
_BY_NUMBER: Mapping[int, str] = {
    errno.ECONNREFUSED: _REFUSED,
    errno.ENETUNREACH: _NO_ROUTE,
    errno.EHOSTUNREACH: _NO_ROUTE,
    errno.ENETDOWN: _NO_ROUTE,
    errno.ETIMEDOUT: _TIMED_OUT,
}
_BY_KIND: Mapping[type[Exception], str] = {
    aiohttp.ClientConnectorDNSError: _UNRESOLVED,
    aiohttp.ClientConnectorCertificateError: _UNTRUSTED,
    aiohttp.ConnectionTimeoutError: _TIMED_OUT,
}
# In this order: a proxy that refuses is reported before the failed connection that it causes.
_BY_TEXT = (
    (re.compile(r"proxy authorization required|407 Proxy"), _WANTS_PASSWORD),
    (re.compile(r"tunnel error: unsuccessful"), "the proxy refuses"),
    (re.compile(r"dns error|failed to lookup address"), _UNRESOLVED),
    (re.compile(r"Connection refused"), _REFUSED),
    (re.compile(r"Network is unreachable|No route to host"), _NO_ROUTE),
    (re.compile(r"invalid peer certificate|UnknownIssuer"), _UNTRUSTED),
    (re.compile(r"timed out"), _TIMED_OUT),
)
_ADDRESS = re.compile(r"https?://[^\s`()]+")


def make_unreachable_error(url: str, cause: str, environment: Mapping[str, str]) -> SourceFailed:
    """Return the error that says that this machine cannot reach the host of `url`, and why."""
    proxy = find_proxy(url, environment)
    through = f" through the proxy {proxy}" if proxy else ""
    return SourceFailed(
        f"This machine cannot reach {_describe_host(url)}{through}: {cause}.", code="source_unavailable"
    )


def explain_connection_error(url: str, error: Exception, environment: Mapping[str, str]) -> SourceFailed | None:
    """Return the error for a connection that was not made; None if it was made and broke off later."""
    cause = _find_cause(error)
    return make_unreachable_error(url, cause, environment) if cause else None


def _find_cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return _WANTS_PASSWORD if error.status == 407 else f"the proxy refuses ({error.status} {error.message})"
    for kind, cause in _BY_KIND.items():
        if isinstance(error, kind):
            return cause
    if isinstance(error, aiohttp.ClientConnectorError):
        number, words = error.os_error.errno or 0, error.os_error.strerror or str(error.os_error)
        return _BY_NUMBER.get(number) or words.lower()
    return ""


def explain_uv_output(output: str, environment: Mapping[str, str]) -> SourceFailed | None:
    """Return the error for an output of uv, with that output in the lines after; None for any other fault."""
    address = _ADDRESS.search(output)
    cause = next((words for pattern, words in _BY_TEXT if pattern.search(output)), "")
    if address is None or not cause:
        return None
    sentence = make_unreachable_error(address[0], cause, environment).message
    return SourceFailed(f"{sentence}\n{output.strip()}", code="source_unavailable")


def find_proxy(url: str, environment: Mapping[str, str]) -> str:
    """Return host and port of the proxy that the variables name for an address, without its password; else empty."""
    values = {name.lower(): value for name, value in environment.items() if value}
    proxy = values.get(f"{urlsplit(url).scheme}_proxy") or values.get("all_proxy")
    host = urlsplit(url).netloc.rpartition("@")[2]
    if not proxy or proxy_bypass_environment(host, {"no": values.get("no_proxy", "")}):
        return ""
    return urlsplit(proxy if "://" in proxy else f"//{proxy}").netloc.rpartition("@")[2]


def _describe_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "that address"
    except ValueError:
        return "that address"
