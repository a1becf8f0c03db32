"""Extends uvicorn's own protocol with the limits that a port open to strangers needs.

Heads are limited and checked by RFC 9112, slow bodies have their connection closed, connections are counted, and a
malformed message does not replace the response to the one before it. Guarantee: llhttp alone decides where a body ends.
All responses of uvicorn's routes pass here; `protocol.py` adds the hot path.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from corral.gateway.connection import http_messages
from corral.gateway.connection.connection_limits import BodyProgress
from corral.gateway.connection.http_messages import HEAD_BYTES_MAX, HEADERS_MAX, find_head_fault

if TYPE_CHECKING:
    from corral.gateway.connection.protocol import ConnectionRegistry

# A head must be complete after this many seconds.
HEAD_TIMEOUT_S = 10.0
# When a connection is closed, the client must read the buffered rest of its response within this many seconds.
CLOSE_TIMEOUT_S = 10.0
TOO_LATE = "The request did not arrive completely in time."
TOO_LONG_HEAD = f"The head of a request may have {HEAD_BYTES_MAX // 1024} KiB."
# Bodies that are streamed to an engine or to the disk have no time limit for the whole body.
STREAMED_BODY_PATHS = ("/v1/audio/", "/api/files/")


class ServerProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol for one client connection, with limits on heads, bodies and connections.

    For ports that strangers reach.
    """

    # Slots for the fields that every request reads, including some of uvicorn's: kept together, outside of the instance
    # dictionary, they stay in the processor's cache however many connections there are.
    __slots__ = (
        "_body_progress",
        "_closing_since",
        "_deps",
        "_has_moved",
        "_head_fault",
        "_is_uvicorn_for_good",
        "_is_uvicorn_head",
        "_is_uvicorn_message",
        "_since",
        "_uvicorn_head_bytes",
        "server_state",
        "transport",
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
        self._deps = self.registry.deps
        self._has_moved = True
        # When the current state, or the current lack of progress, began.
        self._since = 0.0
        self._closing_since: float | None = None
        # The state of uvicorn's requests.
        self._is_uvicorn_head = False
        self._is_uvicorn_message = False
        self._is_uvicorn_for_good = False
        self._uvicorn_head_bytes = 0
        # Status and message for a request that llhttp accepts and this server rejects.
        self._head_fault: tuple[int, str] | None = None
        # The progress of a body that did not arrive together with its head.
        self._body_progress: BodyProgress | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        too_many = self.registry.counter.add(self.client[0] if self.client else "")
        if too_many:
            self._send_error_and_close(503, too_many)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.counter.remove(self.client[0] if self.client else "")
        super().connection_lost(exc)

    def _is_uvicorn_idle(self) -> bool:
        return not self._is_uvicorn_message and not self._is_uvicorn_for_good and not self._is_uvicorn_answering()

    def _is_uvicorn_answering(self) -> bool:
        # uvicorn types this as always set, but before its first request it is None.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _pass_to_uvicorn(self, data: bytes) -> None:
        """Hand the bytes read so far over to uvicorn."""
        if self._is_uvicorn_head:
            self._uvicorn_head_bytes += len(data)
        elif self._body_progress is not None:
            self._body_progress.add(len(data))
        if not self.transport.is_closing():
            super().data_received(data)
        if self._is_uvicorn_head and self._uvicorn_head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._send_error_and_close(431, TOO_LONG_HEAD)

    # Callbacks of uvicorn's parser

    def on_message_begin(self) -> None:
        self._is_uvicorn_message = self._is_uvicorn_head = True
        self._uvicorn_head_bytes = 0
        self._since = self._deps.clock.monotonic()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > HEAD_BYTES_MAX:
            self._raise_head_fault(431, TOO_LONG_HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEADERS_MAX:
            self._raise_head_fault(400, f"A request may have at most {HEADERS_MAX} headers.")

    def on_headers_complete(self) -> None:
        complaint = find_head_fault(self.parser.get_http_version(), self.url, self.headers)
        if complaint is not None:
            self._raise_head_fault(*complaint)
        self._is_uvicorn_head = False
        self._body_progress = BodyProgress(self._deps.clock.monotonic())
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_uvicorn_message = False
        self._body_progress = None
        super().on_message_complete()

    def _raise_head_fault(self, status: int, sentence: str) -> NoReturn:
        """Refuse a request that llhttp accepts: `send_400_response` sends the error when the parser has stopped."""
        self._head_fault = status, sentence
        raise httptools.HttpParserError(sentence)

    def send_400_response(self, msg: str) -> None:
        """Send an error when uvicorn's parser has stopped. A response that is still being made comes first, and is the
        last one on this connection."""
        status, sentence = self._head_fault or (400, msg)
        if self._is_uvicorn_answering() and (self._is_uvicorn_head or not self._is_uvicorn_message):
            self._is_uvicorn_for_good = True
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif self._is_uvicorn_answering() and not self.cycle.response_started:
            self._write_and_close(status, sentence)
        else:
            self._send_error_and_close(status, sentence)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._has_moved = True

    def _unsupported_upgrade_warning(self) -> None:
        # The client asks for an upgrade, which this server does not support. Not logged, because any client can ask.
        self._is_uvicorn_for_good = True

    # Timeouts

    def _close_late_uvicorn_body(self, progress: BodyProgress, now: float) -> bool:
        """Close the connection if a body for uvicorn is late. Return whether it was."""
        if self.flow.read_paused:
            progress.pause(now)
            return False
        is_late = progress.check_late(now, is_buffered=not self.scope["path"].startswith(STREAMED_BODY_PATHS))
        if is_late and self.cycle.response_complete:
            self.transport.close()
        elif is_late and self.cycle.response_started:
            self.transport.abort()
        elif is_late:
            self._write_and_close(408, TOO_LATE)
        return is_late

    def _abort_if_stuck(self, now: float) -> bool:
        """Abort a closed connection whose client does not read the rest of its response. Return whether it was
        aborted."""
        if self._closing_since is None:
            self._closing_since = now
        is_stuck = now - self._closing_since > CLOSE_TIMEOUT_S
        if is_stuck:
            self.transport.abort()
        return is_stuck

    def _close_if(self, is_late: bool) -> bool:  # noqa: FBT001 - the only argument of a short predicate
        if is_late:
            self._send_error_and_close(408, TOO_LATE)
        return is_late

    def _send_error_and_close(self, status: int, sentence: str) -> None:
        """Send a plain error to a client whose request could not be parsed, so that its dialect is unknown."""
        if self.transport.is_closing():
            return
        if self._is_uvicorn_answering():
            # A response has begun, and the client would read the error as a part of it.
            self.transport.abort()
            return
        self._write_and_close(status, sentence)

    def _write_and_close(self, status: int, sentence: str) -> None:
        lines = ((b"content-type", b"text/plain; charset=utf-8"),)
        framing = b"content-length: %d\r\nconnection: close\r\n" % len(sentence)
        common = self.registry.render_common_headers(self.server_state.default_headers)
        self._discard_input()
        self.transport.write(http_messages.render_head(status, lines, common, framing) + sentence.encode("ascii"))
        self.transport.close()

    def _discard_input(self) -> None:
        """Ignore all bytes that arrive from now on."""
