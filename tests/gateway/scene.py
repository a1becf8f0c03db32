"""A client that writes bytes and reads answers with h11, which lets nothing wrong pass; and a listener."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11

from corral.domain.usage import RequestRecord
from tests.serving.scene import put_replica, settled
from tests.support.engines import MisbehavingEngine
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

CHAT: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = CHAT | {"stream": True}
PATH = "/v1/chat/completions"
AUTHORISED = f"Authorization: Bearer {ADMIN_KEY}"


@dataclass
class Records:
    """A `ports.answers.Listener`."""

    received: list[RequestRecord] = field(default_factory=list)

    def on_requests_ended(self, *records: RequestRecord) -> None:
        self.received += records

    async def one(self) -> RequestRecord:
        """The only one there is."""

        async def is_there() -> bool:
            return bool(self.received)

        await eventually(is_there)
        (record,) = self.received
        return record


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    pieces: int = 1

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """Of a stream; every one of them has to be whole."""
        assert self.body.endswith(b"\n\n"), self.body
        frames = [event.removeprefix("data: ") for event in self.body.decode().removesuffix("\n\n").split("\n\n")]
        return [event if event == "[DONE]" else json.loads(event) for event in frames]


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._parser = h11.Connection(h11.CLIENT)

    def write(self, raw: bytes) -> None:
        self.writer.write(raw)

    def send(self, body: Any = None, *lines: str, path: str = PATH, version: str = "HTTP/1.1") -> None:
        """One whole request."""
        self.write(request(body, *lines, path=path, version=version))

    async def answer(self) -> Answer:
        """The next one, with its proper end. `h11.RemoteProtocolError` if it is cut."""
        if self._parser.our_state is h11.IDLE:
            # Nobody looks at it: h11 has to know that something was asked.
            self._parser.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
            self._parser.send(h11.EndOfMessage())
        answer = Answer(0, {}, b"", 0)
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                self._parser.receive_data(await self._reader.read(65536))
            elif isinstance(event, h11.Response):
                answer.status = event.status_code
                answer.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                answer.body += bytes(event.data)
                answer.pieces += 1
            elif isinstance(event, h11.EndOfMessage):
                if self._parser.their_state is h11.DONE and self._parser.our_state is h11.DONE:
                    self._parser.start_next_cycle()
                return answer

    async def read(self, count: int = 65536) -> bytes:
        return await self._reader.read(count)

    async def is_closed(self) -> bool:
        """The server has closed; nothing was left to read."""
        return await self._reader.read(65536) == b""

    def leave(self) -> None:
        self.writer.transport.abort()


def request(body: Any = None, *lines: str, path: str = PATH, version: str = "HTTP/1.1") -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(CHAT if body is None else body).encode()
    head = "\r\n".join((f"POST {path} {version}", "Host: x", AUTHORISED, *lines, f"Content-Length: {len(raw)}"))
    return f"{head}\r\n\r\n".encode() + raw


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{AUTHORISED}\r\n\r\n".encode()


@asynccontextmanager
async def wire(frontend: RunningFrontend) -> AsyncIterator[Wire]:
    port = int(frontend.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


async def ask(frontend: RunningFrontend, body: Any = None, *lines: str, **more: str) -> Answer:
    """One request on a connection of its own."""
    async with wire(frontend) as opened:
        opened.send(body, *lines, **more)
        return await opened.answer()


async def add_replica(frontend: RunningFrontend, engine: MisbehavingEngine, node: str = "node-2") -> None:
    placed = await join_node(frontend, node)
    await put_replica(frontend.database, placed.id, engine.address)
    await settled(frontend)


async def idle(frontend: RunningFrontend) -> None:
    """Nothing is under way any more, and no replica is held."""

    async def is_idle() -> bool:
        return not frontend.core.gateway.open_exchanges and not frontend.core.router.leases.count_own_by_replica()

    await eventually(is_idle)
