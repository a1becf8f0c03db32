"""Sends one request with its id, retries it where that is safe, and returns a typed value or raises a `CorralError`.

After a lost connection only calls that may run twice are retried: reading, setting a value, and creating with an
idempotency key. If no connection was made, every call is retried. A timeout is not retried: the caller has waited long
enough.

An error response becomes the error that the frontend raised: class by code, else by status. A failed connection is
explained: https:// used for a plain port, http:// used for a TLS port, or a certificate that is not trusted. The probe
for that sends neither a key nor a request.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel, TypeAdapter, ValidationError

from corral.domain.errors import (
    Conflict,
    CorralError,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    TooLarge,
    Unavailable,
    Unprocessable,
)
from corral.ports.runtime import Clock, IdGenerator
from corral.wire.base import ErrorBody, ErrorOut

T = TypeVar("T")
# Covers the restart of a frontend behind a load balancer; longer waits are up to the caller.
PAUSES_S = (0.2, 0.6)
# Far above any response of Corral; protects a script from an address that streams for ever.
RESPONSE_BYTES_MAX = 64 * 1024 * 1024
# aiohttp retries DELETE once by itself; deleting twice does no harm except for the second response.
IDEMPOTENT_METHODS = frozenset({"GET", "PUT"})
PROBE_LIMIT_S = 3.0
# OpenSSL's reasons for a peer that does not speak TLS.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
_BY_STATUS: dict[int, type[CorralError]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Unprocessable,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request of the client to the HTTP API: method, path, parameters, body, and whether it creates something."""

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: BaseModel | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # The call creates something: repeating it with the same key returns the first response again.
    creates: bool = False
    # For calls that wait for others; None: the limit of the client.
    timeout_s: float | None = None


def make_revision_headers(revision: int | None) -> dict[str, str]:
    """Return the headers that let a change replace this revision alone; 0: there must be none yet, None: any."""
    if revision is None:
        return {}
    return {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}


def make_owner_parameters(*, all_users: bool) -> dict[str, str]:
    """Return the parameters of a call that shows an admin what belongs to any user; otherwise what is the caller's."""
    return {"all_users": "true"} if all_users else {}


class ApiTransport:
    """Sends a client's requests to one frontend address with one key, and turns failures into Corral's errors.

    Repeats safe requests; `pauses_s` lie between attempts to connect.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        timeout_s: float,
        clock: Clock,
        ids: IdGenerator,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self.url = url.rstrip("/")
        self.clock = clock
        self._key = key
        self._ids = ids
        self._timeout_s = timeout_s
        self._pauses_s = pauses_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        # Created at the first request: aiohttp needs a running loop, and creating a client must not.
        if self._session is None:
            # Not aiohttp's own context: a command imports aiohttp without the CA certificates (`skip_certificates`).
            tls = ssl.create_default_context() if self.url.startswith("https:") else True
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), trust_env=False)
        return self._session

    def make_headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "X-Request-Id": self._ids.new_id()}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    async def fetch(self, request: ApiRequest, response_type: type[T]) -> T:
        """Send a request and parse the response as `response_type`."""
        body = await self.send(request)
        value = parse_json(body, origin=self.url)
        try:
            return TypeAdapter(response_type).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise make_unexpected_response_error(self.url, f"{where or 'the response'}: {first['msg']}") from error

    async def send(self, request: ApiRequest) -> bytes:
        """Send a request and return the body of a successful response. Raises a `CorralError` for any other."""
        headers = self.make_headers() | dict(request.headers)
        if request.creates:
            headers["Idempotency-Key"] = self._ids.new_id()
        for pause_s in self._pauses_s:
            try:
                return await self._send_once(request, headers)
            except aiohttp.ClientConnectionError as error:
                if isinstance(error, aiohttp.ClientSSLError) or not _is_repeatable(request, error):
                    raise await self._explain_lost_connection(error) from error
            await self.clock.sleep(pause_s)
        try:
            return await self._send_once(request, headers)
        except aiohttp.ClientConnectionError as error:
            raise await self._explain_lost_connection(error) from error

    async def _explain_lost_connection(self, error: aiohttp.ClientConnectionError) -> CorralError:
        """Return `unreachable`, or that the scheme is wrong: a port that speaks TLS ends a plain connection."""
        was_connected = not isinstance(error, aiohttp.ClientConnectorError)
        return (await explain_lost_response(self.url) if was_connected else None) or self.make_unreachable_error(error)

    def make_unreachable_error(self, error: Exception) -> CorralError:
        return explain_tls_error(self.url, error) or Unavailable(
            f"{self.url} does not respond ({_describe_error(error)}).",
            hint="Is it running, and is the address right? `corral status` shows a local cluster.",
            code="unreachable",
        )

    async def _send_once(self, request: ApiRequest, headers: Mapping[str, str]) -> bytes:
        body = request.body.model_dump(mode="json") if isinstance(request.body, BaseModel) else request.body
        timeout_s = request.timeout_s or self._timeout_s
        try:
            async with self.session.request(
                request.method,
                self.url + request.path,
                params=request.parameters or None,
                json=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                # A frontend never redirects; following a redirect would send our key to another server.
                allow_redirects=False,
            ) as response:
                answer = await _read_body(response, origin=self.url)
        except TimeoutError as error:
            # aiohttp's timeouts are connection errors as well, so this clause must come first.
            sentence = f"{self.url} did not respond within {timeout_s:g} s."
            raise Unavailable(sentence, hint="Try again; `corral cluster` shows its parts.", code="timeout") from error
        except aiohttp.InvalidURL as error:
            raise make_unexpected_response_error(self.url, "the address is not valid") from error
        except aiohttp.ClientPayloadError as error:
            raise self.make_unreachable_error(error) from error
        except aiohttp.ClientResponseError as error:
            raise await explain_lost_response(self.url) or make_unexpected_response_error(
                self.url, "no HTTP"
            ) from error
        if not 200 <= response.status < 300:
            raise make_error_from_response(response.status, answer, origin=self.url)
        return answer


async def _read_body(response: aiohttp.ClientResponse, *, origin: str) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    async for part in response.content.iter_any():
        size_bytes += len(part)
        if size_bytes > RESPONSE_BYTES_MAX:
            raise make_unexpected_response_error(origin, "the response is larger than any of Corral")
        parts.append(part)
    return b"".join(parts)


def _is_repeatable(request: ApiRequest, error: aiohttp.ClientConnectionError) -> bool:
    was_never_sent = isinstance(error, aiohttp.ClientConnectorError)
    return was_never_sent or request.creates or request.method in IDEMPOTENT_METHODS


def _describe_error(error: Exception) -> str:
    """Return the system's own text: "Connection refused" says more than the name of the failed call."""
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    # Name resolution has its own error numbers, all negative.
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def make_error_from_response(status: int, body: bytes, *, origin: str) -> CorralError:
    """Return the error that a response carries. A response that is not Corral's (a proxy's page) becomes an error that
    says so."""
    kind = _BY_STATUS.get(status, CorralError)
    try:
        error = ErrorOut.model_validate_json(body).error
    except ValidationError:
        return _make_foreign_error(kind, status, origin)
    kind = _map_classes_by_code().get(error.code, kind)
    return kind(error.message, hint=error.hint, code=error.code, details=_collect_details(error))


def make_unexpected_response_error(origin: str, what: str) -> CorralError:
    return CorralError(
        f"{origin} did not respond like a Corral frontend: {what}.",
        hint="Is this the address of a frontend, and of a version near this one? `corral version` shows that of "
        "this command.",
        code="unexpected_answer",
    )


def _make_foreign_error(kind: type[CorralError], status: int, origin: str) -> CorralError:
    if kind is NotAuthenticated:
        return kind(f"{origin} requires a valid key.", hint="`corral login` stores one.")
    return kind(
        f"{origin} responded with status {status} and no explanation.",
        hint="Is this the address of a frontend? Something between here and there may have responded instead.",
        code="unexpected_answer",
    )


def _collect_details(error: ErrorBody) -> dict[str, object]:
    details: dict[str, object] = dict(error.details)
    if error.request_id:
        details["request_id"] = error.request_id
    return details


def _map_classes_by_code() -> dict[str, type[CorralError]]:
    return {kind.code: kind for kind in _iter_subclasses(CorralError)}


def _iter_subclasses(kind: type[CorralError]) -> Iterator[type[CorralError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _iter_subclasses(child)


def parse_json(body: bytes, *, origin: str) -> object:
    try:
        return json.loads(body)
    except ValueError as error:
        raise make_unexpected_response_error(origin, "no JSON") from error


def explain_tls_error(url: str, error: Exception) -> CorralError | None:
    """Return the error to show for a failed handshake with an https:// address; None if it was no such failure."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Unavailable(
            f"The certificate of {url} is not trusted ({cause.verify_message or cause.reason}).",
            hint="If it is signed by an authority of your own, set SSL_CERT_FILE to the file with its certificate.",
            code="certificate_not_trusted",
        )
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        plain = f"http:{url.removeprefix('https:')}"
        return Unavailable(
            f"{url} speaks http, not https.",
            hint=f"Use {plain} instead, or the port that speaks https.",
            code="wrong_scheme",
        )
    return None


async def explain_lost_response(url: str) -> CorralError | None:
    """Return the error to show if the http:// address, which sent no HTTP, speaks TLS; None if it does not."""
    if not url.startswith("http:") or not await _speaks_tls(url):
        return None
    secure = f"https:{url.removeprefix('http:')}"
    return Unavailable(f"{url} speaks https, not http.", hint=f"Use {secure} instead.", code="wrong_scheme")


async def _speaks_tls(url: str) -> bool:
    # The certificate is not checked: nothing is sent over this connection.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        address = urlsplit(url)
        async with asyncio.timeout(PROBE_LIMIT_S):
            _, writer = await asyncio.open_connection(address.hostname, address.port or 80, ssl=context)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except (OSError, ValueError):
        return False
    return True
