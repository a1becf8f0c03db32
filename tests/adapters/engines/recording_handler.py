"""A response handler that records its callbacks, and checks them against what the port promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from corral.adapters.engines import HttpEngineClient
from corral.ports.requests import EngineCallHandle, EngineLost, EngineRefused, Headers, HeadLines

PATH = "/v1/chat/completions"
BODY = b'{"model": "chat", "messages": []}'
STREAMED = b'{"model": "chat", "messages": [], "stream": true}'
DEADLINE_S = 20.0


@dataclass
class Listener:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    error: EngineRefused | EngineLost | None = None
    size_bytes: int | None = None
    is_over: bool = False
    came_whole: bool = False
    writable: list[bool] = field(default_factory=list)
    # While `send` runs nothing may be heard.
    is_sending: bool = False
    _line: EngineCallHandle | None = None
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def line(self) -> EngineCallHandle:
        assert self._line is not None
        return self._line

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        self._hear()
        assert not self.status, "a second head"
        self.status, self.headers, self.size_bytes = status, dict(head), size_bytes
        assert len(self.headers) == len(head)

    def on_body(self, piece: bytes) -> None:
        self._hear()
        assert self.status, "a body without a head"
        assert type(piece) is bytes
        assert piece
        self.pieces.append(piece)

    def on_end(self) -> None:
        self._hear()
        assert self.status, "an end without a head"
        self.is_over = True

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        self.on_head(status, head, len(body))
        if body:
            self.on_body(body)
        self.on_end()
        self.came_whole = True

    def on_lost(self, error: EngineRefused | EngineLost) -> None:
        self._hear()
        self.error, self.is_over = error, True

    def on_writable(self, is_writable: bool) -> None:
        self._hear()
        self.writable.append(is_writable)

    def _hear(self) -> None:
        assert not self.is_over, "got a callback after the end"
        assert not self.is_sending, "got a callback from inside `send`"
        self._moved.set()

    async def until_over(self) -> None:
        await self._until(lambda: self.is_over)

    async def until_piece(self, number: int = 1) -> None:
        await self._until(lambda: len(self.pieces) >= number)

    async def until_writable(self, is_writable: bool) -> None:
        await self._until(lambda: bool(self.writable) and self.writable[-1] is is_writable)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not is_so():
                self._moved.clear()
                await self._moved.wait()


@dataclass(frozen=True, kw_only=True)
class Call:
    """A `ports.requests.EngineEndpoint` and an `EngineRequest`."""

    address: str
    engine_key: str = ""
    path: str = PATH
    body: bytes = BODY
    content_type: str = "application/json"
    size_bytes: int | None = None
    headers: Headers = ()

    def build_engine_headers(self) -> Headers:
        return self.headers


def send(
    engines: HttpEngineClient, address: str, body: bytes = BODY, *, into: Listener | None = None, **call: Any
) -> Listener:
    """A call that is under way; the fields of `call` are those of Call."""
    listener = into or Listener()
    listener.is_sending = True
    made = Call(address=address, body=body, **call)
    listener._line = engines.send(made, made, listener)
    listener.is_sending = False
    return listener


async def ask(engines: HttpEngineClient, address: str, body: bytes = BODY, **call: Any) -> Listener:
    """One whole call."""
    listener = send(engines, address, body, **call)
    await listener.until_over()
    return listener


async def whole(engines: HttpEngineClient, address: str, body: bytes = BODY, **call: Any) -> Listener:
    """One whole call that ended as it should."""
    listener = await ask(engines, address, body, **call)
    assert listener.error is None
    return listener
