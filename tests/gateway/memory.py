"""Connections without sockets: bytes go in, and what comes out is written down. For many small cases at once.

The application behind them answers every request and remembers it; so does the gateway's own side, in place of an
exchange. So the same bytes can be given to uvicorn alone and to the gateway, and what they took for requests compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from starlette.types import Receive, Scope, Send
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from corral.adapters.system import SystemClock
from corral.api.deps import ApiDeps
from corral.gateway.connection.protocol import ConnectionRegistry, GatewayProtocol
from corral.policy.serving.cors import CorsPolicy
from corral.runtime.read_batcher import ReadBatcher

# Turns of the loop after which everything that can happen has happened: an ASGI call takes a few of them.
TURNS = 12


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    body: bytes


@dataclass
class Outcome:
    """What a server made of the bytes of one connection."""

    requests: list[Request] = field(default_factory=list)
    # Which of them the gateway answered itself.
    ours: list[Request] = field(default_factory=list)
    written: bytes = b""
    is_closed: bool = False

    @property
    def statuses(self) -> list[int]:
        lines = self.written.split(b"HTTP/1.1 ")[1:]
        return [int(line[:3]) for line in lines]


class MemoryTransport(asyncio.Transport):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self._outcome = outcome
        self._is_paused = False

    @override
    def write(self, data: Any) -> None:
        if not self._outcome.is_closed:
            self._outcome.written += bytes(data)

    @override
    def is_closing(self) -> bool:
        return self._outcome.is_closed

    @override
    def close(self) -> None:
        self._outcome.is_closed = True

    @override
    def abort(self) -> None:
        self._outcome.is_closed = True

    @override
    def pause_reading(self) -> None:
        self._is_paused = True

    @override
    def resume_reading(self) -> None:
        self._is_paused = False

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def _app(outcome: Outcome, waits_for: asyncio.Event | None = None) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        outcome.requests.append(Request(scope["path"], body))
        if waits_for is not None:
            await waits_for.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    return app


class RecordingProtocol(GatewayProtocol):
    """The gateway's protocol, with a note instead of an exchange."""

    outcome: Outcome

    @override
    def _start_request(self, body: bytes) -> None:
        head = self._head
        assert head is not None
        request = Request(head.request_head.path, body)
        self.outcome.requests.append(request)
        self.outcome.ours.append(request)
        self._state = 4
        self.begin(200, (), 0)
        self.end()


def _is_ready() -> str | None:
    return None


def _board(get_not_ready_reason: Callable[[], str | None]) -> ConnectionRegistry:
    class Directory:
        def find_known_principal(self, secret: str) -> object:
            return secret

    gateway = SimpleNamespace(
        sweepers=[], read_batcher=ReadBatcher(), new_request_id=lambda: "id", record_rejection=lambda *_, **__: None
    )
    parts = SimpleNamespace(
        clock=SystemClock(),
        get_not_ready_reason=get_not_ready_reason,
        gateway=gateway,
        directory=Directory(),
        health=SimpleNamespace(is_stopping=False),
        cors_policy=CorsPolicy(()),
    )
    return ConnectionRegistry(cast("ApiDeps", parts))


async def by_uvicorn(pieces: Sequence[bytes]) -> Outcome:
    """What uvicorn makes of them alone."""
    outcome = Outcome()
    protocol = HttpToolsProtocol(_config(outcome), ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(MemoryTransport(outcome))
    return await _fed(protocol, outcome, pieces)


async def by_gateway(pieces: Sequence[bytes]) -> Outcome:
    outcome = Outcome()
    return await _fed(gateway_protocol(outcome), outcome, pieces)


def gateway_protocol(
    outcome: Outcome,
    waits_for: asyncio.Event | None = None,
    get_not_ready_reason: Callable[[], str | None] = _is_ready,
) -> RecordingProtocol:
    """A connection. `waits_for`: the application answers when this is set."""
    shared = _board(get_not_ready_reason)

    class Protocol(RecordingProtocol):
        registry = shared

    Protocol.outcome = outcome
    protocol = Protocol(_config(outcome, waits_for), ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(MemoryTransport(outcome))
    return protocol


def _config(outcome: Outcome, waits_for: asyncio.Event | None = None) -> Config:
    return Config(_app(outcome, waits_for), lifespan="off", ws="none", access_log=False, log_config=None)


async def turns() -> None:
    """Let everything happen that can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _fed(protocol: HttpToolsProtocol, outcome: Outcome, pieces: Sequence[bytes]) -> Outcome:
    for piece in pieces:
        if not outcome.is_closed:
            protocol.data_received(piece)
            await turns()
    was_closed = outcome.is_closed
    protocol.connection_lost(None)
    await turns()
    outcome.is_closed = was_closed
    return outcome
