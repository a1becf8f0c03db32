"""HTTP inside the simulator: the product's client on one side, its whole API on the other, a bad cable between.

`WireTransport` is the client's own `Transport` with the socket replaced: headers, JSON, retries and error decoding are
the product's. A request or an answer may be lost, late, or meet a frontend that is down, starting or frozen. Work that
has begun goes on when its caller has given up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from pydantic import BaseModel
from typing_extensions import override

from corral.client.transport import ApiRequest, ApiTransport, make_error_from_response
from corral.domain.errors import Unavailable
from corral.ports.runtime import IdGenerator
from tests.simulation.chance import Random
from tests.simulation.clock import SimClock

USUAL_S = 0.01
# How long a client waits at most for an answer that will not come.
LOST_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFaults:
    """Says how often each fault strikes a call, from 0 to 1."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    late: float = 0.0
    late_s: float = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: bytes


class Server(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def is_listening(self) -> bool: ...

    @property
    def is_frozen(self) -> bool: ...

    def begin(self, request: Request) -> asyncio.Task[Answer]:
        """Start to work on a request; the work goes on if its client leaves."""
        ...


@dataclass
class Wire:
    """Carries the calls of one client to all servers. `unreachable` holds the addresses that it cannot reach now."""

    client: str
    servers: Mapping[str, Server]
    rng: Random
    clock: SimClock
    faults: HttpFaults = field(default_factory=HttpFaults)
    unreachable: set[str] = field(default_factory=set)
    is_dead: bool = False

    async def carry(self, url: str, request: Request, timeout_s: float) -> Answer:
        if self.is_dead:
            raise aiohttp.ServerDisconnectedError("This process has ended.")
        await self._hop()
        server = self.servers[url]
        if url in self.unreachable or self._strikes(self.faults.lose_request):
            await self.clock.sleep(min(timeout_s, LOST_S))
            raise TimeoutError
        if not server.is_listening:
            raise aiohttp.ClientConnectorError(_key(url), ConnectionRefusedError("connection refused"))
        working = server.begin(request)
        done, _ = await asyncio.wait([working], timeout=timeout_s)
        if not done:
            raise TimeoutError
        if url in self.unreachable or self._strikes(self.faults.lose_answer):
            await self.clock.sleep(min(timeout_s, LOST_S))
            raise TimeoutError
        await self._hop()
        if working.cancelled():
            raise aiohttp.ServerDisconnectedError
        return working.result()

    async def _hop(self) -> None:
        limit_s = self.faults.late_s if self._strikes(self.faults.late) else USUAL_S
        await self.clock.sleep(self.rng.uniform(0, limit_s))

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability


class WireTransport(ApiTransport):
    def __init__(self, wire: Wire, url: str, key: str | None, *, timeout_s: float, ids: IdGenerator) -> None:
        super().__init__(url, key, timeout_s=timeout_s, clock=wire.clock, ids=ids)
        self._wire = wire

    @override
    async def _send_once(self, call: ApiRequest, headers: Mapping[str, str]) -> bytes:
        content = call.body.model_dump(mode="json") if isinstance(call.body, BaseModel) else call.body
        body = b"" if content is None else json.dumps(content).encode()
        query = urlencode(call.parameters)
        request = Request(method=call.method, path=call.path, headers=headers, body=body, query=query)
        try:
            answer = await self._wire.carry(self.url, request, self._timeout_s)
        except TimeoutError as error:
            raise Unavailable(f"{self.url} did not respond within {self._timeout_s:g} s.", code="timeout") from error
        if not 200 <= answer.status < 300:
            raise make_error_from_response(answer.status, answer.body, origin=self.url)
        return answer.body


async def call_app(app: Any, url: str, request: Request) -> Answer:
    """Send one request through an ASGI application, without a socket."""
    status, parts = 500, []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": request.query.encode(),
        "root_path": "",
        "headers": [
            (b"host", url.removeprefix("http://").encode()),
            (b"content-type", b"application/json"),
            *((name.lower().encode(), value.encode()) for name, value in request.headers.items()),
        ],
        "client": ("10.0.0.1", 1),
        "server": (url.removeprefix("http://"), 80),
        "state": {},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Answer(status=status, body=b"".join(parts))


def _key(url: str) -> ConnectionKey:
    return ConnectionKey(url.removeprefix("http://"), 80, False, True, None, None, None)
