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


class AfterResponse(Enum):
    """Names what a scripted engine does after the last piece of a response."""

    KEEP = "the next request of the same connection is awaited"
    CLOSE = "the connection is closed"
    RESET = "the connection is cut: what was on its way is lost"
    SILENCE = "nothing, and the connection stays open"


@dataclass(frozen=True, slots=True)
class ResponseScript:
    """Describes the bytes of a response, each piece in a write of its own. `reads_body`: only after
    the whole request."""

    pieces: tuple[bytes, ...] = ()
    after: AfterResponse = AfterResponse.KEEP
    reads_body: bool = True


class EngineBehaviour(StrEnum):
    """The ways in which a pretend engine answers or misbehaves."""

    FINE = "a whole answer: a stream if one is requested, else JSON"
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


def encode_chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def encode_event(text: str) -> bytes:
    """Encode one event of a chat's stream."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    event_body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "chat",
        "choices": [choice],
    }
    return b"data: " + json.dumps(event_body).encode() + b"\n\n"


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
_FIRST_EVENT = encode_chunk(encode_event(WORDS[0]))
_STREAM = ResponseScript(
    (STREAM_HEAD, *(encode_chunk(encode_event(word)) for word in WORDS), encode_chunk(DONE), encode_chunk(b""))
)


def make_json_head(size_bytes: int, status: str = "200 OK", more: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size_bytes}\r\n"
    return head.encode() + more + b"\r\n"


def make_json_script(
    body: bytes = JSON_ANSWER, status: str = "200 OK", then: AfterResponse = AfterResponse.KEEP
) -> ResponseScript:
    return ResponseScript((make_json_head(len(body), status) + body,), then)


def _make_error_body(status: str) -> bytes:
    return json.dumps({"error": {"message": status, "type": "server_error", "code": None, "param": None}}).encode()


def _make_refusal(status: str) -> ResponseScript:
    return make_json_script(_make_error_body(status), status)


def _make_early_refusal(status: str) -> ResponseScript:
    """Read and discard the rest of the request: closing at once would cut off the response, too."""
    body = _make_error_body(status)
    return ResponseScript(
        (make_json_head(len(body), status, b"Connection: close\r\n") + body,), AfterResponse.SILENCE, reads_body=False
    )


SCRIPTS = {
    EngineBehaviour.BUSY: _make_refusal("503 Service Unavailable"),
    EngineBehaviour.STRANGER: _make_refusal("401 Unauthorized"),
    EngineBehaviour.SILENT: ResponseScript((), AfterResponse.SILENCE),
    EngineBehaviour.CLOSES: ResponseScript((), AfterResponse.CLOSE),
    EngineBehaviour.RESETS: ResponseScript((), AfterResponse.RESET),
    EngineBehaviour.GARBAGE: ResponseScript(
        (b"\x16\x03\x01\x02 this is not the protocol\r\n\r\n",), AfterResponse.SILENCE
    ),
    EngineBehaviour.HALF_HEAD: ResponseScript((b"HTTP/1.1 200 OK\r\nContent-Ty",), AfterResponse.CLOSE),
    EngineBehaviour.ENDLESS_HEAD: ResponseScript(
        (b"HTTP/1.1 200 OK\r\n", *(b"X-Line: " + b"x" * 1014 + b"\r\n",) * 128), AfterResponse.SILENCE
    ),
    EngineBehaviour.SWITCHES: ResponseScript(
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\nhello",),
        AfterResponse.SILENCE,
    ),
    EngineBehaviour.HALF_CHUNK: ResponseScript(
        (STREAM_HEAD, _FIRST_EVENT, encode_chunk(encode_event(WORDS[1]))[:40]), AfterResponse.CLOSE
    ),
    EngineBehaviour.HALF_CHUNK_RESET: ResponseScript(
        (STREAM_HEAD, _FIRST_EVENT, encode_chunk(encode_event(WORDS[1]))[:40]), AfterResponse.RESET
    ),
    EngineBehaviour.BAD_CHUNK: ResponseScript(
        (STREAM_HEAD, _FIRST_EVENT, b"many\r\n" + encode_event(WORDS[1])), AfterResponse.SILENCE
    ),
    EngineBehaviour.STALLS: ResponseScript((STREAM_HEAD, _FIRST_EVENT), AfterResponse.SILENCE),
    EngineBehaviour.SHORT: ResponseScript((make_json_head(len(JSON_ANSWER)) + JSON_ANSWER[:-10],), AfterResponse.CLOSE),
    EngineBehaviour.LONG: ResponseScript((make_json_head(len(JSON_ANSWER)) + JSON_ANSWER + b"and more",)),
    EngineBehaviour.TWO_LENGTHS: ResponseScript(
        (
            make_json_head(len(JSON_ANSWER), more=b"Transfer-Encoding: chunked\r\n"),
            encode_chunk(JSON_ANSWER),
            encode_chunk(b""),
        )
    ),
    EngineBehaviour.UNTIL_CLOSE: ResponseScript(
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", JSON_ANSWER), AfterResponse.CLOSE
    ),
    EngineBehaviour.TOO_LARGE: _make_early_refusal("413 Content Too Large"),
}


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """Holds a request as the engine received it. Names of `headers` are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    # Which connection it came by, counted from 0.
    connection: int


@dataclass
class MisbehavingEngine:
    """Serves scripted responses: the next requests get what is in `queued`, one each, and all others `answer`."""

    answer: EngineBehaviour | ResponseScript = EngineBehaviour.FINE
    queued: list[EngineBehaviour | ResponseScript] = field(default_factory=list)
    address: str = ""
    received: list[ReceivedRequest] = field(default_factory=list)
    # Connections: all there ever were, and those that are open.
    connections: int = 0
    open: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, host: str = "127.0.0.1") -> None:
        self._server = await asyncio.start_server(self._on_connection, host, 0, limit=HEAD_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self) -> None:
        """Stop listening and cut open connections."""
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

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, task = self.connections, asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        self.connections += 1
        self.open += 1
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer_request(reader, writer, number):
                    pass
        finally:
            self._writers.discard(writer)
            writer.close()
            self.open -= 1

    async def _answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """Read and answer one request; return whether the connection stays open for another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        script, body = self._pick_script(), b""
        if script is None or script.reads_body:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received.append(ReceivedRequest(line, headers, body, number))
        script = script or _make_fine_script(body)
        for piece in script.pieces:
            writer.write(piece)
            # A turn of the loop between two pieces: each is a packet of its own.
            await asyncio.sleep(0)
            await writer.drain()
        if script.after is AfterResponse.RESET:
            _reset(writer)
        if script.after is AfterResponse.SILENCE:
            await reader.read()
        return script.after is AfterResponse.KEEP

    def _pick_script(self) -> ResponseScript | None:
        """Return the next script; None if the response depends on the request."""
        answer = self.queued.pop(0) if self.queued else self.answer
        return answer if isinstance(answer, ResponseScript) else SCRIPTS.get(answer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection: after a plain close the peer would read the rest and an orderly end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _make_fine_script(body: bytes) -> ResponseScript:
    with contextlib.suppress(ValueError):
        request_body = json.loads(body)
        if isinstance(request_body, dict) and request_body.get("stream"):
            return _STREAM
    return make_json_script()


@asynccontextmanager
async def run_misbehaving_engine(
    answer: EngineBehaviour | ResponseScript = EngineBehaviour.FINE, host: str = "127.0.0.1"
) -> AsyncIterator[MisbehavingEngine]:
    engine = MisbehavingEngine(answer)
    await engine.start(host)
    try:
        yield engine
    finally:
        await engine.stop()
