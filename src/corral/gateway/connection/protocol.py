"""Reads a client connection: plain inference calls go to `hot_request_handler.py`, every other request to uvicorn.

    IDLE ──POST /v1/chat/completions …──> HEAD ──> BODY ──> ANSWERING ──> IDLE
      └──anything else──> uvicorn's protocol, until its response is out ────┘

Both kinds of requests mix on one connection, in order: a request is handled here only where a message begins and
uvicorn has nothing under way. Guarantees: uvicorn sees all bytes of its own requests and none of the hot path's; each
request gets one response, in order; the bytes that a client sends ahead or does not read are bounded, and the sender is
paused. Limit: a request that is not plain (`http_messages.py`), or that follows one of uvicorn's, goes to uvicorn,
where the same routes answer it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from uvicorn.config import Config
from uvicorn.server import ServerState

from corral.domain.errors import CorralError
from corral.gateway.connection import http_messages
from corral.gateway.connection.connection_limits import (
    DRAINED_BYTES_MAX,
    BodyProgress,
    ConnectionCounter,
    ConnectionLimits,
)
from corral.gateway.connection.hot_request_handler import (
    ANSWERING,
    BODY,
    DRAINING,
    HEAD,
    IDLE,
    UNKNOWN_KEY_BYTES,
    HotRequestHandler,
)
from corral.gateway.connection.http_messages import (
    HEAD_BYTES_MAX,
    HttpHead,
    has_bare_line_feed,
    has_origin,
    match_hot_path,
    parse_http_head,
)
from corral.gateway.connection.server_protocol import HEAD_TIMEOUT_S
from corral.gateway.request.request_builder import RequestDeps
from corral.gateway.routing.health import Health
from corral.policy.serving.cors import CorsPolicy
from corral.ports.runtime import Clock
from corral.runtime.head_template import HEAD_END, HeadTemplate, HeadTemplateCache

# How many bytes a client may send ahead of the response that it waits for.
READ_AHEAD_BYTES_MAX = 64 * 1024


class ConnectionDeps(RequestDeps, Protocol):
    """Dependencies of the gateway's client connections. `api.deps.ApiDeps` has all of it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def health(self) -> Health: ...

    @property
    def cors_policy(self) -> CorsPolicy: ...

    @property
    def get_not_ready_reason(self) -> Callable[[], str | None]:
        """Return the function that says why the frontend accepts no requests yet; None from it: it does."""
        ...


class ConnectionRegistry:
    """Tracks all client connections of one HTTP server and what they share.

    Connection limits, head templates, common headers, and the sweep for late ones.
    """

    def __init__(self, deps: ConnectionDeps, limits: ConnectionLimits | None = None) -> None:
        self.deps = deps
        self.counter = ConnectionCounter(limits or ConnectionLimits())
        self.connections: set[GatewayProtocol] = set()
        self.head_templates: HeadTemplateCache[HttpHead] = HeadTemplateCache()
        self.checks_origin = deps.cors_policy.is_on
        self._common_source: list[tuple[bytes, bytes]] | None = None
        self._common = b""
        deps.gateway.sweepers.append(self.close_late_connections)

    def render_common_headers(self, default: list[tuple[bytes, bytes]]) -> bytes:
        """Render the headers of every response, such as the date. uvicorn makes a new list of them once a second."""
        if default is not self._common_source:
            self._common_source = default
            self._common = b"".join(b"%b: %b\r\n" % line for line in (*default, http_messages.NO_SNIFF))
        return self._common

    def close_late_connections(self, now: float) -> int:
        """Close the connections whose clients are too slow, and return how many were closed."""
        return sum(connection.close_if_late(now) for connection in tuple(self.connections))

    def make_protocol_class(self) -> type[GatewayProtocol]:
        """Return the protocol class for `uvicorn.Config(http=…)`, bound to this registry."""
        own_registry = self

        class BoundGatewayProtocol(GatewayProtocol):
            """Subclass of `GatewayProtocol` with one `ConnectionRegistry` built in.

            uvicorn makes the instances itself, one for each client connection.
            """

            registry = own_registry

        return BoundGatewayProtocol


class GatewayProtocol(HotRequestHandler):
    """Reads HTTP requests of one client connection, and answers plain inference calls on the gateway's fast path.

    Everything else is handed to uvicorn. Implements `runtime.read_batcher.DataReceiver`.
    """

    # Slots for the fields that every request reads: see `ServerProtocol`.
    __slots__ = (
        "_has_paused_reading",
        "_head_template",
        "_is_hot_path_only",
        "_is_taking",
        "_left_bytes",
        "_pieces",
        "_read_ahead",
        "_read_batcher",
        "_refusal",
    )

    registry: ConnectionRegistry

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._read_batcher = self._deps.gateway.read_batcher
        # Received bytes that are not assigned to a request yet.
        self._read_ahead = b""
        self._is_taking = False
        self._has_paused_reading = False
        # The template of the last request's head, so that an equal head needs no parsing. Never set again after uvicorn
        # has handled a request on this connection.
        self._head_template: HeadTemplate[HttpHead] | None = None
        self._is_hot_path_only = True
        self._pieces: list[bytes] = []
        self._left_bytes = 0
        # The error that is sent when a discarded body has come to its end.
        self._refusal: CorralError | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being read or answered, by the hot path or by uvicorn."""
        return self._state != IDLE or not self._is_uvicorn_idle()

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.registry.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.connections.discard(self)
        self._release()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandon()
        if self._lookup_task is not None:
            self._lookup_task.cancel()
        self._pieces = []
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._read_batcher.add(self, data)

    def eof_received(self) -> None:
        """Let the transport close itself, by returning None."""
        self._read_batcher.run()

    def on_receive_error(self) -> None:
        self.transport.abort()

    def receive_data(self, data: bytes) -> None:
        self._has_moved = True
        template = self._head_template
        if self._state == IDLE and template is not None:
            body = template.match_body(data)
            if (
                body is not None
                and len(body) <= UNKNOWN_KEY_BYTES
                and not self._read_ahead
                and not self._is_write_paused
                and self._deps.get_not_ready_reason() is None
            ):
                # A complete request whose head equals the previous one except for its length, as most persistent
                # clients send.
                self._head = template.parsed
                self._start_request(body)
                return
        if self._state == ANSWERING:
            self._buffer_read_ahead(data)
        elif BODY <= self._state <= DRAINING:
            self._take_body(data)
        elif self._is_uvicorn_idle():
            self._parse_requests(self._read_ahead + data if self._read_ahead else data)
        else:
            self._pass_to_uvicorn(data)

    def pause_writing(self) -> None:
        self._is_write_paused = True
        super().pause_writing()
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        super().resume_writing()
        if self._exchange is not None:
            self._exchange.resume()
        elif self._writable is not None:
            self._writable.set()
        elif self._read_ahead and self._state == IDLE:
            self._continue_reading(b"")

    def shutdown(self) -> None:
        """Let the current request finish and accept no more. Called by the server when it stops."""
        if self._state >= BODY:
            self._closes_after_response = True
        else:
            super().shutdown()

    # Choosing between the hot path and uvicorn

    def _parse_requests(self, data: bytes) -> None:
        """Handle requests from the beginning of a message on, until one is incomplete, or its client has to read
        first."""
        self._read_ahead = b""
        self._is_taking = True
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        while data and self._state <= HEAD and not self._is_write_paused and not self.transport.is_closing():
            is_ours = match_hot_path(data)
            end = data.find(HEAD_END) if is_ours else -1
            if is_ours is False or (end < 0 and has_bare_line_feed(data)):
                self._state = IDLE
                self._pass_to_uvicorn(data)
                data = b""
            elif is_ours and 0 <= end <= HEAD_BYTES_MAX:
                data = self._take_head(data, end + len(HEAD_END))
            elif len(data) > HEAD_BYTES_MAX:
                self._refuse_head()
                data = b""
            else:
                self._wait_for_head(data)
                data = b""
        self._is_taking = False
        if data:
            self._buffer_read_ahead(data)

    def _buffer_read_ahead(self, data: bytes) -> None:
        """Keep bytes that the client sent ahead of its turn, and pause the client when there are many of them."""
        self._read_ahead += data
        if len(self._read_ahead) > READ_AHEAD_BYTES_MAX:
            self._has_paused_reading = True
            self.flow.pause_reading()

    def _wait_for_head(self, data: bytes) -> None:
        self._read_ahead = data
        if self._state == IDLE:
            self._state = HEAD
            self._since = self._deps.clock.monotonic()

    def _refuse_head(self) -> None:
        self._state = IDLE
        super()._refuse_head()

    def on_message_begin(self) -> None:
        self._is_hot_path_only, self._head_template = False, None
        super().on_message_begin()

    # Reading a hot-path request

    def _take_head(self, data: bytes, end: int) -> bytes:
        """Take a request head, and return the bytes of `data` that follow the request."""
        raw = data if end == len(data) else data[:end]
        # Cross-origin calls go to uvicorn, where the CORS headers are written.
        head = None if self.registry.checks_origin and has_origin(raw) else parse_http_head(raw)
        if head is None or self._deps.get_not_ready_reason() is not None or self._is_from_unknown_key(head):
            self._state = IDLE
            self._pass_to_uvicorn(data)
            return b""
        self._head = head
        self._head_template = self.registry.head_templates.find_or_make(raw, head) if self._is_hot_path_only else None
        rest_bytes = len(data) - end
        self._refusal = self._reserve(head) if head.size_bytes > UNKNOWN_KEY_BYTES else None
        if rest_bytes >= head.size_bytes and self._refusal is None:
            body_end = end + head.size_bytes
            self._start_request(data[end:body_end])
            return data[body_end:]
        self._state = BODY if self._refusal is None else DRAINING
        self._body_progress = BodyProgress(self._deps.clock.monotonic())
        self._left_bytes = head.size_bytes
        self._take_body(data[end:])
        return b""

    def _take_body(self, data: bytes) -> None:
        rest = b""
        if len(data) > self._left_bytes:
            data, rest = data[: self._left_bytes], data[self._left_bytes :]
        self._left_bytes -= len(data)
        if self._body_progress is not None:
            self._body_progress.add(len(data))
        if self._state == BODY:
            self._pieces.append(data)
        if self._left_bytes and not self._has_drained_too_much():
            return
        pieces, self._pieces = self._pieces, []
        self._is_taking = True
        self._body_progress, refusal = None, self._refusal
        if refusal is None:
            self._start_request(b"".join(pieces))
        else:
            self._closes_after_response = self._closes_after_response or bool(self._left_bytes)
            self._reject_request(refusal)
        self._is_taking = False
        self._continue_reading(rest)

    def _has_drained_too_much(self) -> bool:
        assert self._head is not None
        return self._state == DRAINING and self._head.size_bytes - self._left_bytes > DRAINED_BYTES_MAX

    def _finish_response(self) -> None:
        self._exchange = None
        self._request_id = ""
        self._state = IDLE
        self._has_moved = True
        if self._closes_after_response:
            self.transport.close()
        elif not self._is_taking and (self._read_ahead or self._has_paused_reading):
            self._continue_reading(b"")

    def _continue_reading(self, rest: bytes) -> None:
        """Go on with the bytes that the client sent ahead."""
        data, self._read_ahead = self._read_ahead + rest if self._read_ahead else rest, b""
        if self._state != IDLE:
            if data:
                self._buffer_read_ahead(data)
            return
        self._has_paused_reading = False
        self.flow.resume_reading()
        if data:
            self._parse_requests(data)

    # Timeouts

    def close_if_late(self, now: float) -> bool:
        """Close the connection if the client kept it waiting for too long, and return whether it did. Called once a
        second."""
        if self.transport.is_closing():
            return self._abort_if_stuck(now)
        if self._state == HEAD or (self._is_uvicorn_head and not self._is_uvicorn_answering()):
            return self._close_if(now - self._since > HEAD_TIMEOUT_S)
        progress = self._body_progress
        if BODY <= self._state <= DRAINING:
            return self._close_if(progress is not None and progress.check_late(now, is_buffered=True))
        if progress is not None and self._is_uvicorn_message and not self._is_uvicorn_head:
            return self._close_late_uvicorn_body(progress, now)
        if self._state == IDLE and self._is_uvicorn_idle():
            if self._has_moved:
                self._has_moved = False
                self._since = now
            elif now - self._since > self.timeout_keep_alive:
                self.transport.close()
                return True
        return False

    def _discard_input(self) -> None:
        self._pieces, self._read_ahead = [], b""
