"""Engines that misbehave: a little server on the loopback that answers every request with what a script says.

`Mode` has the ways in which real engines go wrong; any other way is a `Script`. Both can be changed between two
requests, also on a connection that is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, StrEnum

HEAD_BYTES_MAX = 64 * 1024


class Then(Enum):
    """What comes after the last piece of an answer."""

    KEEP = "the next request of the same connection is awaited"
    CLOSE = "the connection is closed"
    RESET = "the connection is cut: what was on its way is lost"
    SILENCE = "nothing, and the connection stays open"


@dataclass(frozen=True, slots=True)
class Script:
    """Bytes of an answer, each piece in a write of its own. `reads_body`: only after the whole request."""

    pieces: tuple[bytes, ...] = ()
    then: Then = Then.KEEP
    reads_body: bool = True


class Mode(StrEnum):
    FINE = "a whole answer: a stream if one is asked for, else JSON"
    BUSY = "503"
    STRANGER = "401: another program has the port"
    SILENT = "accepts, reads, and says nothing"
    CLOSES = "hangs up without a byte"
    RESETS = "cuts the connection without a byte"
    GARBAGE = "says something that is not HTTP"
    HALF_HEAD = "hangs up in the middle of the head"
    ENDLESS_HEAD = "a head of 128 KiB"
    SWITCHES = "101, and then another protocol"
    HALF_CHUNK = "one whole event, then hangs up in the middle of a chunk"
    HALF_CHUNK_RESET = "one whole event, then cuts the connection in the middle of a chunk"
    BAD_CHUNK = "one whole event, then a chunk whose size is not a number"
    STALLS = "one whole event, then nothing"
    SHORT = "hangs up before as many bytes as were promised"
    LONG = "sends more bytes than were promised"
    TWO_LENGTHS = "a length and chunks at the same time"
    UNTIL_CLOSE = "a whole answer without a length: it ends with the connection"
    TOO_LARGE = "413 as soon as it sees the head, without having read the body"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(text: str) -> bytes:
    """One piece of a chat's stream."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    said = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "chat", "choices": [choice]}
    return b"data: " + json.dumps(said).encode() + b"\n\n"


WORDS = ("one ", "two ", "three")
DONE = b"data: [DONE]\n\n"
JSON_ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "chat",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "".join(WORDS)}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6},
    }
).encode()
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_FIRST_EVENT = chunk(event(WORDS[0]))
_STREAM = Script((STREAM_HEAD, *(chunk(event(word)) for word in WORDS), chunk(DONE), chunk(b"")))


def json_head(size_bytes: int, status: str = "200 OK", more: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size_bytes}\r\n"
    return head.encode() + more + b"\r\n"


def json_answer(body: bytes = JSON_ANSWER, status: str = "200 OK", then: Then = Then.KEEP) -> Script:
    return Script((json_head(len(body), status) + body,), then)


def _error(status: str) -> bytes:
    return json.dumps({"error": {"message": status, "type": "server_error", "code": None, "param": None}}).encode()


def _refusal(status: str) -> Script:
    return json_answer(_error(status), status)


def _early_refusal(status: str) -> Script:
    """The rest of the request is read and thrown away: closing at once would cut off the answer, too."""
    body = _error(status)
    return Script((json_head(len(body), status, b"Connection: close\r\n") + body,), Then.SILENCE, reads_body=False)


SCRIPTS = {
    Mode.BUSY: _refusal("503 Service Unavailable"),
    Mode.STRANGER: _refusal("401 Unauthorized"),
    Mode.SILENT: Script((), Then.SILENCE),
    Mode.CLOSES: Script((), Then.CLOSE),
    Mode.RESETS: Script((), Then.RESET),
    Mode.GARBAGE: Script((b"\x16\x03\x01\x02 this is not the protocol\r\n\r\n",), Then.SILENCE),
    Mode.HALF_HEAD: Script((b"HTTP/1.1 200 OK\r\nContent-Ty",), Then.CLOSE),
    Mode.ENDLESS_HEAD: Script((b"HTTP/1.1 200 OK\r\n", *(b"X-Line: " + b"x" * 1014 + b"\r\n",) * 128), Then.SILENCE),
    Mode.SWITCHES: Script(
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\nhello",), Then.SILENCE
    ),
    Mode.HALF_CHUNK: Script((STREAM_HEAD, _FIRST_EVENT, chunk(event(WORDS[1]))[:40]), Then.CLOSE),
    Mode.HALF_CHUNK_RESET: Script((STREAM_HEAD, _FIRST_EVENT, chunk(event(WORDS[1]))[:40]), Then.RESET),
    Mode.BAD_CHUNK: Script((STREAM_HEAD, _FIRST_EVENT, b"many\r\n" + event(WORDS[1])), Then.SILENCE),
    Mode.STALLS: Script((STREAM_HEAD, _FIRST_EVENT), Then.SILENCE),
    Mode.SHORT: Script((json_head(len(JSON_ANSWER)) + JSON_ANSWER[:-10],), Then.CLOSE),
    Mode.LONG: Script((json_head(len(JSON_ANSWER)) + JSON_ANSWER + b"and more",)),
    Mode.TWO_LENGTHS: Script(
        (json_head(len(JSON_ANSWER), more=b"Transfer-Encoding: chunked\r\n"), chunk(JSON_ANSWER), chunk(b""))
    ),
    Mode.UNTIL_CLOSE: Script((b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", JSON_ANSWER), Then.CLOSE),
    Mode.TOO_LARGE: _early_refusal("413 Content Too Large"),
}


@dataclass(frozen=True, slots=True)
class Heard:
    """A request as it came. Names of `headers` are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    # Which connection it came by, counted from 0.
    connection: int


@dataclass
class MisbehavingEngine:
    """The next requests get what is in `queued`, one each, and all others `answer`."""

    answer: Mode | Script = Mode.FINE
    queued: list[Mode | Script] = field(default_factory=list)
    address: str = ""
    heard: list[Heard] = field(default_factory=list)
    # Connections: all there ever were, and those that are open.
    connections: int = 0
    open: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, host: str = "127.0.0.1") -> None:
        self._server = await asyncio.start_server(self._connected, host, 0, limit=HEAD_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self) -> None:
        """Nobody listens afterwards, and what was open is cut."""
        if self._server is not None:
            self._server.close()
            self.cut()
            await self._server.wait_closed()
            self._server = None
            if self._handlers:
                await asyncio.wait(self._handlers)

    def cut(self) -> None:
        """Cut every connection: the engine has died."""
        for writer in tuple(self._writers):
            _reset(writer)

    def close_idle(self) -> None:
        """Close every connection in the ordinary way."""
        for writer in tuple(self._writers):
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, task = self.connections, asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        self.connections += 1
        self.open += 1
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer, number):
                    pass
        finally:
            self._writers.discard(writer)
            writer.close()
            self.open -= 1

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """One request and its answer; whether there may be another one."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        script, body = self._script(), b""
        if script is None or script.reads_body:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.heard.append(Heard(line, headers, body, number))
        script = script or _fine(body)
        for piece in script.pieces:
            writer.write(piece)
            # A turn of the loop between two pieces: each is a packet of its own.
            await asyncio.sleep(0)
            await writer.drain()
        if script.then is Then.RESET:
            _reset(writer)
        if script.then is Then.SILENCE:
            await reader.read()
        return script.then is Then.KEEP

    def _script(self) -> Script | None:
        """None: it hangs on what is asked for."""
        answer = self.queued.pop(0) if self.queued else self.answer
        return answer if isinstance(answer, Script) else SCRIPTS.get(answer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """A plain close would let the other side read what is on its way, and an orderly end after it."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _fine(body: bytes) -> Script:
    with contextlib.suppress(ValueError):
        asked = json.loads(body)
        if isinstance(asked, dict) and asked.get("stream"):
            return _STREAM
    return json_answer()


@asynccontextmanager
async def misbehaving(answer: Mode | Script = Mode.FINE, host: str = "127.0.0.1") -> AsyncIterator[MisbehavingEngine]:
    engine = MisbehavingEngine(answer)
    await engine.start(host)
    try:
        yield engine
    finally:
        await engine.stop()
