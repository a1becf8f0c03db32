"""Carries calls over one connection to an engine, and parses the responses.

Guarantee: each call receives `on_head`, pieces, and then `on_end` or `on_lost`, once. A response that is incomplete,
malformed or longer than announced is lost and never ends. A connection with any irregularity is not used again, so no
response can run over into the next one. Limit: pieces of a read that was under way are still delivered after `pause`;
nothing else is ever buffered here.

A handle outlives its connection in both directions: it exists before a connection is open, and its methods do nothing
after the end, when the connection carries another call.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from corral.ports.requests import EngineLost, EngineRefused, HeadLines, ResponseHandler
from corral.runtime.head_template import HEAD_END, HeadTemplate, HeadTemplateCache
from corral.runtime.read_batcher import ReadBatcher

# The limit for the head of a response, its interim responses, and the bytes between two pieces of a body (chunk sizes,
# trailers). Far above what any engine sends.
HEAD_BYTES_MAX = 64 * 1024

# A larger body is written separately instead of being copied behind its head.
JOINED_BYTES_MAX = 64 * 1024

# A machine that vanishes closes nothing, and an engine is silent for minutes with a long prompt. So the kernel sends
# keepalive probes after 10 s of silence, three times, 5 s apart. Not every system has all of these options.
_KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te", b"trailer", b"upgrade")
)
_LENGTH = b"content-length"
_SPECIAL = _HOP_BY_HOP | {b"transfer-encoding", _LENGTH}

# The state of a response. Plain numbers, because members of an enum cost several times as much to compare.
_HEAD, _BODY, _DONE = range(3)

# The status and the headers of a response.
ParsedHead = tuple[int, HeadLines]


class _NullHandler:
    """Ignores all callbacks: the handler of calls that are over."""

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None: ...

    def on_body(self, piece: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None: ...

    def on_lost(self, error: EngineRefused | EngineLost) -> None: ...

    def on_writable(self, is_writable: bool) -> None: ...  # noqa: FBT001 - as the port says


NULL_HANDLER: ResponseHandler = _NullHandler()


class HttpCallHandle:
    """Controls one running HTTP request to an engine whose whole body is known.

    Implements `ports.requests.EngineCallHandle`.
    """

    __slots__ = ("address", "body", "connection", "handler", "head", "is_paused", "is_sent")

    def __init__(self, address: str, head: bytes, body: bytes, handler: ResponseHandler) -> None:
        self.address = address
        self.head = head
        # Dropped when the response begins: the body may be large, and the response long.
        self.body = body
        self.handler = handler
        # None before the call has a connection, and after its end.
        self.connection: EngineConnection | None = None
        self.is_paused = False
        # Whether all of the body has been given to the connection.
        self.is_sent = True

    def pause(self) -> None:
        self.is_paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.is_paused = False
        if self.connection is not None:
            self.connection.resume()

    def write(self, piece: bytes, *, is_last: bool = False) -> None:  # noqa: ARG002 - as the port says
        raise AssertionError("this call was made with its whole body")

    def abort(self) -> None:
        connection = self.connection
        self.detach_handler()
        if connection is not None:
            connection.close()

    def detach_handler(self) -> ResponseHandler:
        """Return the handler that receives the end, and drop the reference to it: handler and handle refer to each
        other, and such a cycle would have to wait for the garbage collector."""
        handler, self.handler, self.connection = self.handler, NULL_HANDLER, None
        return handler

    def on_connected(self) -> None:
        return

    def on_full(self) -> None:
        return

    def on_room(self) -> None:
        return


class UploadCallHandle(HttpCallHandle):
    """Controls one running HTTP request to an engine whose body comes in pieces, such as audio.

    Gathers the pieces until the call is connected.
    """

    __slots__ = ("_has_begun", "_is_full", "_unsent_bytes", "_unsent_pieces")

    def __init__(self, address: str, head: bytes, body: bytes, handler: ResponseHandler, *, size_bytes: int) -> None:
        super().__init__(address, head, body, handler)
        self._unsent_bytes = size_bytes
        self._count_sent(body)
        self._unsent_pieces: list[bytes] = []
        self._has_begun = False
        self._is_full = False

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        self._count_sent(piece)
        if is_last and not self.is_sent:
            # The client disconnected, and the engine would wait for the rest for ever.
            self.abort()
        elif self.connection is not None:
            self.connection.write(piece)
        elif not self._has_begun:
            self._unsent_pieces.append(piece)

    def on_connected(self) -> None:
        self._has_begun = True
        gathered, self._unsent_pieces = self._unsent_pieces, []
        if gathered and self.connection is not None:
            self.connection.write(b"".join(gathered))
        if not self._is_full:
            self.handler.on_writable(is_writable=True)

    def on_full(self) -> None:
        self._is_full = True
        self.handler.on_writable(is_writable=False)

    def on_room(self) -> None:
        self._is_full = False
        self.handler.on_writable(is_writable=True)

    def pause_upload(self) -> None:
        self.handler.on_writable(is_writable=False)

    def _count_sent(self, piece: bytes) -> None:
        self._unsent_bytes -= len(piece)
        assert self._unsent_bytes >= 0, "a body is longer than its announced size"
        self.is_sent = not self._unsent_bytes


class ConnectionOwner(Protocol):
    """Interface that keeps HTTP connections to engines between requests, and opens new ones."""

    read_batcher: ReadBatcher
    head_templates: HeadTemplateCache[ParsedHead]

    def on_opened(self, connection: EngineConnection) -> None: ...

    def keep_idle(self, connection: EngineConnection) -> None:
        """Keep a connection for another call."""
        ...

    def on_closed(self, connection: EngineConnection) -> None: ...

    def connect(self, handle: HttpCallHandle) -> None:
        """Open a new connection for this call, because a kept one turned out to be closed."""
        ...


class _InvalidResponse(Exception):
    """Raised when what the engine sent cannot be relayed; the message is the end of a sentence."""


class EngineResponseParser:
    """Parses the HTTP responses on one connection to an engine.

    Receives the callbacks of llhttp, keeps the headers to relay, and refuses a response that does not say in one way
    where it ends. `EngineConnection` is the layer above, in one object with it: llhttp calls back for every header.
    """

    __slots__ = (
        "_connection_headers",
        "_framing",
        "_handle",
        "_headers",
        "_is_interim",
        "_is_last",
        "_parser",
        "_phase",
        "_size_bytes",
        "_status",
        "_undelivered_bytes",
    )

    _parser: HttpResponseParser

    def __init__(self) -> None:
        self._handle: HttpCallHandle | None = None
        self._phase = _HEAD
        # Whether an interim response came before this one.
        self._is_interim = False
        # Whether the connection must be closed after this response.
        self._is_last = False
        # Bytes read since the handler was last called.
        self._undelivered_bytes = 0

    def on_message_begin(self) -> None:
        if self._phase == _DONE:
            raise _InvalidResponse("sent more data after its response")
        self._headers: list[tuple[bytes, bytes]] = []
        # Headers that the engine itself marks as hop-by-hop.
        self._connection_headers: list[bytes] = []
        # The header that says where the body ends, and the length if it is Content-Length.
        self._framing = b""
        self._size_bytes: int | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase:
            # Trailers after the last chunk are ignored.
            return
        name = name.lower()
        if name not in _SPECIAL:
            self._headers.append((name, value))
        elif name == b"connection":
            self._connection_headers += [word.strip() for word in value.lower().split(b",")]
        elif name not in _HOP_BY_HOP:
            self._set_framing(name, value)

    def on_headers_complete(self) -> None:
        self._status = status = self._parser.get_status_code()
        if status < 200:
            self._skip_interim(status)
            return
        if self._undelivered_bytes > HEAD_BYTES_MAX and _count_bytes(self._headers) > HEAD_BYTES_MAX:
            raise _InvalidResponse("sent a head of more than 64 KiB")
        if self._connection_headers:
            self._headers = [line for line in self._headers if line[0] not in self._connection_headers]
        self._is_last = not self._parser.should_keep_alive()
        self._phase = _BODY
        line = self._handle
        if line is not None:
            line.body = b""
            line.handler.on_head(status, tuple(self._headers), self._size_bytes)

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._phase = _DONE

    def _set_framing(self, name: bytes, value: bytes) -> None:
        """Note how the body ends, and refuse a second statement: two of them are how one response is smuggled into
        another."""
        if self._framing:
            raise _InvalidResponse("sent a response with two lengths")
        self._framing = name
        if name == _LENGTH:
            self._size_bytes = int(value) if value.isdigit() else None
        elif value.strip().lower() != b"chunked":
            raise _InvalidResponse("used a transfer encoding that was not requested")

    def _skip_interim(self, status: int) -> None:
        """Skip an interim response (1xx)."""
        if status < 100:
            raise _InvalidResponse(f"returned an invalid status ({status})")
        if status == 101:
            raise _InvalidResponse("tried to switch to another protocol")
        self._is_interim = True

    def _describe_loss(self) -> str:
        return "broke off its response" if self._phase else "closed the connection before it responded"


class EngineConnection(EngineResponseParser, asyncio.Protocol):
    """Carries requests to an engine over one HTTP/1.1 connection, one at a time, and delivers the responses.

    Implements `runtime.read_batcher.DataReceiver`.
    """

    __slots__ = (
        "_feed",
        "_head_template",
        "_is_paused",
        "_is_reused",
        "_on_body",
        "_owner",
        "_pieces",
        "_read_batcher",
        "_transport",
        "address",
        "idle_since_round",
        "on_body",
    )

    def __init__(self, owner: ConnectionOwner, address: str) -> None:
        super().__init__()
        self.address = address
        self.idle_since_round = 0
        self._owner = owner
        self._read_batcher = owner.read_batcher
        self._on_body: Callable[[bytes], None] = NULL_HANDLER.on_body
        # The pieces of the body in the current read. The parser calls the list's own method: one of ours would cost as
        # much as all that the parser does.
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        # Whether this connection has carried a whole call before.
        self._is_reused = False
        self._is_paused = False
        # The head of a response that came whole in one read.
        self._head_template: HeadTemplate[ParsedHead] | None = None

    # Called by handles and owners

    @property
    def is_closed(self) -> bool:
        return self._transport.is_closing()

    def send_call(self, handle: HttpCallHandle) -> None:
        """Send a call and receive its response."""
        self._handle = handle
        self._on_body = handle.handler.on_body
        self._phase = _HEAD
        self._undelivered_bytes = 0
        handle.connection = self
        body = handle.body
        if len(body) <= JOINED_BYTES_MAX:
            self._transport.write(handle.head + body)
        else:
            self._transport.writelines((handle.head, body))
        if handle.is_paused:
            self.pause()

    def write(self, piece: bytes) -> None:
        self._transport.write(piece)

    def pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection. The handler receives no more callbacks."""
        self._handle = None
        self._on_body = NULL_HANDLER.on_body
        self._transport.abort()

    def close_with_error(self, reason: str) -> None:
        """Close the connection and report the call as lost to its handler."""
        self._fail_call(reason)
        self.close()

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)
        self._feed = self._parser.feed_data
        _enable_keepalive(transport.get_extra_info("socket"))
        self._owner.on_opened(self)

    def data_received(self, data: bytes) -> None:
        if self._phase == _BODY:
            # The next piece of a stream is handled at once: it takes so little work that batching does not pay.
            self._parse(data)
        else:
            self._read_batcher.add(self, data)

    def receive_data(self, data: bytes) -> None:
        if self._handle is None:
            # The engine sent data without a call.
            self.close()
            return
        if self._phase != _HEAD or self._undelivered_bytes:
            self._parse(data)
            return
        template = self._head_template
        body = None if template is None else template.match_body(data)
        if template is not None and body is not None:
            self._deliver_templated(self._handle, template.parsed, body)
        else:
            self._parse(data, is_first=True)

    def _parse(self, data: bytes, is_first: bool = False) -> None:  # noqa: FBT001, FBT002 - a keyword argument is slow here
        self._undelivered_bytes += len(data)
        try:
            self._feed(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._deliver_pieces()
            self._handle_parse_error(error)
            return
        if self._pieces:
            self._deliver_pieces()
        if self._phase == _DONE:
            if is_first:
                self._learn_template(data)
            self._end_call()
        elif self._undelivered_bytes > HEAD_BYTES_MAX:
            self._fail_call("sent more than 64 KiB outside of its response")

    def on_receive_error(self) -> None:
        self.close_with_error("was not understood")

    def _deliver_templated(self, handle: HttpCallHandle, parsed: ParsedHead, body: bytes) -> None:
        """Deliver a whole response whose head equals an earlier one except for its length, without the parser."""
        self._phase = _DONE
        handler, (status, head) = self._detach_handler(handle), parsed
        try:
            handler.on_whole(status, head, body)
        except BaseException:
            handler.on_lost(self._make_lost_error("was not understood"))
            raise

    def _learn_template(self, data: bytes) -> None:
        """Remember the head of this response as a template, because the next one may begin alike."""
        template = None
        if self._size_bytes is not None and not self._is_last and not self._is_interim:
            parsed_head = (self._status, tuple(self._headers))
            template = self._owner.head_templates.find_or_make(data[: data.find(HEAD_END) + len(HEAD_END)], parsed_head)
        self._head_template = template if template is not None and template.match_body(data) is not None else None

    def eof_received(self) -> None:
        """Let the transport close itself, by returning None."""
        self._read_batcher.run()
        if self._handle is None:
            return
        if self._phase == _BODY and not self._framing:
            self._is_last = True
            self._end_call()
        else:
            self._fail_call(self._describe_loss())

    def connection_lost(self, _error: Exception | None) -> None:
        self._owner.on_closed(self)
        # The parser refers to this object's methods: a cycle that would wait for the garbage collector.
        del self._parser, self._feed
        if self._handle is not None:
            self._fail_call(self._describe_loss())

    def pause_writing(self) -> None:
        if self._handle is not None:
            self._handle.on_full()

    def resume_writing(self) -> None:
        if self._handle is not None:
            self._handle.on_room()

    def _deliver_pieces(self) -> None:
        """Deliver all pieces of one read at once: when a stream runs ahead, its events then cost less."""
        pieces = self._pieces
        if not pieces:
            return
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._undelivered_bytes = 0
        try:
            self._on_body(piece)
        except BaseException:
            self._fail_call("was not understood")
            raise

    # The end of a call

    def _end_call(self) -> None:
        line = self._handle
        # None if the call was aborted in the middle of this read.
        if line is not None:
            self._detach_handler(line).on_end()

    def _detach_handler(self, handle: HttpCallHandle) -> ResponseHandler:
        """Return the handler that receives the end. The connection is kept before that, so that the handler's next call
        can use it."""
        self._handle = None
        handler = handle.detach_handler()
        self._is_interim = False
        if not self._is_last and handle.is_sent and not self._transport.get_write_buffer_size():
            if self._is_paused:
                self.resume()
            self._is_reused = True
            self._owner.keep_idle(self)
        else:
            self._transport.abort()
        return handler

    def _handle_parse_error(self, error: Exception) -> None:
        """End the call after the parser has stopped: because of the engine's data, or because a handler raised."""
        if self._phase == _DONE:
            self._is_last = True
            if self._size_bytes is None:
                self._end_call()
            else:
                # The length was wrong, so the response that it delimits is not complete.
                self._fail_call("sent more than the announced length")
            return
        cause = error.__context__ if isinstance(error, HttpParserCallbackError) else None
        if cause is None or isinstance(cause, _InvalidResponse):
            self._fail_call(str(cause) if cause is not None else f"sent something that is not HTTP ({error})")
            return
        self._fail_call("was not understood")
        raise cause

    def _fail_call(self, what: str) -> None:
        line = self._handle
        if line is None:
            return
        is_stale = self._is_reused and self._phase == _HEAD and not self._undelivered_bytes
        self.close()
        if is_stale:
            line.connection = None
            self._owner.connect(line)
        else:
            line.detach_handler().on_lost(self._make_lost_error(what))

    def _make_lost_error(self, what: str) -> EngineLost:
        return EngineLost(f"The engine at {self.address} {what}.")


def _enable_keepalive(plugged: socket.socket) -> None:
    plugged.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS.items():
        if hasattr(socket, name):
            plugged.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _count_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
