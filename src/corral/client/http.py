"""One request: sent with its id, tried again where that is safe, answered with a typed value or one of our errors.

Tried again after a lost connection are only calls that may run twice: reading, setting a value, and creating with an
idempotency key. A connection that was never made is tried again for every call. No answer is not tried again: the
caller waited long enough.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from pydantic import BaseModel, TypeAdapter, ValidationError

from corral.client.errors import (
    error_from_answer,
    explain_lost_answer,
    explain_tls_error,
    parse_json,
    unexpected_answer,
)
from corral.domain.errors import CorralError, Unavailable
from corral.ports.runtime import Clock, Ids

T = TypeVar("T")

# Bridges the restart of a frontend behind a balancer; longer waits are the caller's business.
PAUSES_S = (0.2, 0.6)
# Far above any answer of ours; protects a script from an address that streams for ever.
ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
# aiohttp repeats DELETE once by itself; removing twice does no harm beyond the second answer.
SAFE_TWICE = frozenset({"GET", "PUT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: BaseModel | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # Makes something new: repeating the call with the same key gives the first answer again.
    creates: bool = False


class Transport:
    """A connection pool to one address with one key. `pauses_s` come between attempts to connect; none is one try."""

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        timeout_s: float,
        clock: Clock,
        ids: Ids,
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
        # Made late: aiohttp wants a running loop, and making a client must not need one.
        if self._session is None:
            # Not aiohttp's own context: a command imports aiohttp without the CA certificates (`skip_certificates`).
            tls = ssl.create_default_context() if self.url.startswith("https:") else True
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), trust_env=False)
        return self._session

    def headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "X-Request-Id": self._ids.new_id()}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    async def fetch(self, call: Call, shape: type[T]) -> T:
        """The answer, read as `shape`."""
        body = await self.send(call)
        value = parse_json(body, origin=self.url)
        try:
            return TypeAdapter(shape).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise unexpected_answer(self.url, f"{where or 'the answer'}: {first['msg']}") from error

    async def send(self, call: Call) -> bytes:
        """The body of a good answer; our own error for any other."""
        headers = self.headers() | dict(call.headers)
        if call.creates:
            headers["Idempotency-Key"] = self._ids.new_id()
        for pause_s in self._pauses_s:
            try:
                return await self._once(call, headers)
            except aiohttp.ClientConnectionError as error:
                if isinstance(error, aiohttp.ClientSSLError) or not _may_repeat(call, error):
                    raise await self._explain(error) from error
            await self.clock.sleep(pause_s)
        try:
            return await self._once(call, headers)
        except aiohttp.ClientConnectionError as error:
            raise await self._explain(error) from error

    async def _explain(self, error: aiohttp.ClientConnectionError) -> CorralError:
        """Return `unreachable`, or that the scheme is wrong: a port that speaks TLS ends a plain connection."""
        was_connected = not isinstance(error, aiohttp.ClientConnectorError)
        return (await explain_lost_answer(self.url) if was_connected else None) or self.unreachable(error)

    def unreachable(self, error: Exception) -> CorralError:
        return explain_tls_error(self.url, error) or Unavailable(
            f"{self.url} does not answer ({_reason(error)}).",
            hint="Is it running, and is the address right? `corral status` tells about a local cluster.",
            code="unreachable",
        )

    async def _once(self, call: Call, headers: Mapping[str, str]) -> bytes:
        body = call.body.model_dump(mode="json") if isinstance(call.body, BaseModel) else call.body
        try:
            async with self.session.request(
                call.method,
                self.url + call.path,
                params=call.parameters or None,
                json=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                # A frontend never redirects; following one would show our key to whoever sent it.
                allow_redirects=False,
            ) as response:
                answer = await _read(response, origin=self.url)
        except TimeoutError as error:
            # aiohttp's own timeouts are connection errors as well; this comes first on purpose.
            sentence = f"{self.url} did not answer within {self._timeout_s:g} s."
            raise Unavailable(sentence, hint="Try again; `corral cluster` shows its parts.", code="timeout") from error
        except aiohttp.InvalidURL as error:
            raise unexpected_answer(self.url, "the address is not valid") from error
        except aiohttp.ClientPayloadError as error:
            raise self.unreachable(error) from error
        except aiohttp.ClientResponseError as error:
            raise await explain_lost_answer(self.url) or unexpected_answer(self.url, "no HTTP") from error
        if not 200 <= response.status < 300:
            raise error_from_answer(response.status, answer, origin=self.url)
        return answer


async def _read(response: aiohttp.ClientResponse, *, origin: str) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    async for part in response.content.iter_any():
        size_bytes += len(part)
        if size_bytes > ANSWER_LIMIT_BYTES:
            raise unexpected_answer(origin, "the answer is larger than any of ours")
        parts.append(part)
    return b"".join(parts)


def _may_repeat(call: Call, error: aiohttp.ClientConnectionError) -> bool:
    was_never_sent = isinstance(error, aiohttp.ClientConnectorError)
    return was_never_sent or call.creates or call.method in SAFE_TWICE


def _reason(error: Exception) -> str:
    """The system's own words: "Connection refused" says more than the call that failed."""
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    # Name resolution has numbers of its own, all negative.
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
