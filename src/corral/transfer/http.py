"""HTTP as downloads need it: bounded waits, and every way to fail as one of our faults.

An answer has to begin within one limit and to go on within another; its size has none. What is shown of an address
never has a password or a query in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.guard import PrivateAddress, public_socket, refuse_private, refused_as_private
from corral.transfer.options import Patience
from corral.transfer.reach import explain_connection_error

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
# Trouble of the moment although it is not a 5xx.
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def shown(url: str) -> str:
    """An address for logs and records."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Http:
    """One session; `async with` opens and closes it. `only_public`: for addresses that users have named."""

    def __init__(self, patience: Patience, environment: Mapping[str, str], *, only_public: bool = False) -> None:
        self.patience = patience
        self._environment = environment
        self._only_public = only_public
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Http:
        given = {name.upper() for name, value in self._environment.items() if value}
        has_proxy = bool(given.intersection(_PROXIES))
        factory = public_socket if self._only_public and not has_proxy else None
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(ssl=self._tls(), socket_factory=factory),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.patience.connect_s),
            trust_env=has_proxy,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def _tls(self) -> ssl.SSLContext | bool:
        for name in _CERTIFICATES:
            file = self._environment.get(name)
            if file and Path(file).is_file():
                return ssl.create_default_context(cafile=file)
        return True

    @contextlib.asynccontextmanager
    async def ask(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, whatever its status."""
        assert self._session is not None, "the session is not open"
        if self._only_public:
            await refuse_private(_host_of(url))
        asked = {"Accept-Encoding": "identity", **(headers or {})}
        with _told(url, self._environment):
            async with asyncio.timeout(self.patience.header_s):
                response = await self._session.request(
                    method, url, headers=asked, max_redirects=self.patience.redirects_max
                )
        try:
            if urlsplit(url).scheme == "https" and response.url.scheme != "https":
                raise SourceFailed(f"{shown(url)} leads to an address without encryption.", code="bad_answer")
            yield response
        finally:
            response.close()

    async def chunks(self, url: str, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        while True:
            with _told(url, self._environment):
                async with asyncio.timeout(self.patience.stall_s):
                    chunk = await response.content.readany()
            if not chunk:
                return
            yield chunk

    async def read(self, url: str, response: aiohttp.ClientResponse, limit: int) -> bytes:
        """A small body as a whole."""
        body = bytearray()
        async for chunk in self.chunks(url, response):
            body += chunk
            if len(body) > limit:
                raise SourceFailed(f"{shown(url)} answers with more than {limit} bytes.", code="bad_answer")
        return bytes(body)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError as error:
        raise TransferFailed("That is not an address.", code="invalid_request") from error


def refused(url: str, status: int) -> TransferFailed | SourceFailed:
    """What an answer other than the wanted one means."""
    where = shown(url)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        return SourceFailed(f"{where} answers {status}.", code="source_unavailable")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return TransferFailed(f"There is nothing at {where}.", code="not_found")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return TransferFailed(
            f"{where} answers {status}: Corral may not have it.",
            hint="Credentials are a setting of the program that fetches, a frontend or a worker.",
            code="not_allowed",
            details={"status": status},
        )
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return SourceFailed(f"The proxy on the way to {where} wants a user and a password (407).", code="bad_answer")
    return SourceFailed(f"{where} answers {status}, which makes no sense here.", code="bad_answer")


@contextlib.contextmanager
def _told(url: str, environment: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except aiohttp.TooManyRedirects as error:
        raise SourceFailed(f"{shown(url)} leads from one address to the next.", code="bad_answer") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise TransferFailed(f"{shown(url)!r} is not an address.", code="bad_manifest") from error
    except TimeoutError as error:
        late = SourceFailed(f"{shown(url)} does not answer in time.", code="source_unavailable")
        raise explain_connection_error(url, error, environment) or late from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(getattr(error, "os_error", error), PrivateAddress):
            raise refused_as_private() from error
        if (unreached := explain_connection_error(url, error, environment)) is not None:
            raise unreached from error
        reason = str(error) or type(error).__name__
        raise SourceFailed(f"{shown(url)} broke off: {reason}.", code="source_unavailable") from error
