"""Answers a hot-path request on its connection: reserves room for its body, starts its exchange, writes the response.

`protocol.py` reads requests and decides which of them are handled here. The two are layers of one object, because a
second object would cost every warm request a call for each step.

Guarantees: a request gets one response, which `_finish_response` follows; the bytes that a large body takes from the
budget are given back when its response begins, or when the connection is lost.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from corral.domain.errors import CorralError, TooLarge, Unavailable
from corral.gateway.connection import http_messages
from corral.gateway.connection.connection_limits import INFERENCE_BODY_BYTES_MAX
from corral.gateway.connection.http_messages import HttpHead
from corral.gateway.connection.server_protocol import ServerProtocol
from corral.gateway.errors import ResponseInterrupted, render_error_event
from corral.gateway.exchange.exchange import Exchange
from corral.gateway.exchange.gateway import STOPPING, InferenceRequest, to_corral_error
from corral.gateway.request.request_builder import build_request_later, build_request_now
from corral.gateway.request.turn_responder import TurnNeeded
from corral.ports.requests import HeadLines
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.byte_budget import ByteLease

# A body up to this size is read before its key is looked up.
UNKNOWN_KEY_BYTES = 64 * 1024
# Responses with one of these statuses have no body.
BODILESS_STATUSES = frozenset({204, 304})
_STREAM = b"text/event-stream"

# The state of the hot-path request. Plain numbers, because members of an enum cost several times as much to compare.
# Draining: a body that is too large is read to its end, so that its client reads the error response.
IDLE, HEAD, BODY, DRAINING, ANSWERING = range(5)


class HotRequestHandler(ServerProtocol, ABC):
    """Answers plain inference requests of one client connection on the gateway's fast path, one at a time.

    It works from a parsed head and a whole body to the last byte of the response. Implements
    `gateway.exchange.gateway.ResponseSink`.
    """

    # Slots for the fields that every request reads: see `ServerProtocol`.
    __slots__ = (
        "_closes_after_response",
        "_exchange",
        "_head",
        "_is_chunked",
        "_is_stream",
        "_is_write_paused",
        "_lease",
        "_lookup_task",
        "_request_id",
        "_state",
        "_unsent_head",
        "_writable",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._state = IDLE
        # The client does not read its response, so this frontend does not read from the client.
        self._is_write_paused = False
        self._closes_after_response = False
        # The current request.
        self._head: HttpHead | None = None
        # The bytes that a large body takes from the budget, until its response begins.
        self._lease: ByteLease | None = None
        self._request_id = ""
        self._exchange: Exchange | None = None
        self._lookup_task: asyncio.Task[Any] | None = None
        # Set when a client that was too slow for the response of a run can be sent more.
        self._writable: asyncio.Event | None = None
        # The current response.
        self._unsent_head = b""
        self._is_chunked = False
        self._is_stream = False

    @abstractmethod
    def _finish_response(self) -> None:
        """Make the connection ready for its next request, or close it. Called after the last byte of a response."""

    # Room for a large body

    def _reserve(self, head: HttpHead) -> CorralError | None:
        """Take the bytes of a large body from the budget. Return the error to send instead of a response if that
        fails."""
        deps, secret = self._deps, head.request_head.secret
        principal = deps.directory.find_known_principal(secret) if secret else None
        if head.size_bytes > INFERENCE_BODY_BYTES_MAX:
            error = TooLarge(
                f"The body is larger than {INFERENCE_BODY_BYTES_MAX // 1024} KiB.",
                hint="Split long documents into several requests.",
            )
            return deps.gateway.charge_refused(error, principal)
        lease = ByteLease(deps.gateway.body_budget, principal.key_id if principal is not None else "")
        try:
            lease.take(head.size_bytes)
        except CorralError as error:
            return error
        self._lease = lease
        return None

    def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def _is_from_unknown_key(self, head: HttpHead) -> bool:
        """Return whether a large body comes with a key that is not in memory. uvicorn reads no more of such a body than
        it can push back on."""
        if head.size_bytes <= UNKNOWN_KEY_BYTES:
            return False
        secret = head.request_head.secret
        return secret is None or self._deps.directory.find_known_principal(secret) is None

    # Starting a request

    def _start_request(self, body: bytes) -> None:
        head, deps = self._head, self._deps
        assert head is not None
        self._state = ANSWERING
        self._request_id = request_id = head.request_id or deps.gateway.new_request_id()
        try:
            request = build_request_now(deps, head.request_head, body, request_id)
        except CorralError as error:
            self._reject_request(error)
            return
        if request is not None:
            self._start_exchange(request)
        elif deps.gateway.is_closing:
            self._reject_request(Unavailable(STOPPING, hint="Retry on another frontend.", code="stopping"))
        else:
            self._lookup_task = deps.gateway.tasks.start(self._start_request_later(body), name="look up")

    async def _start_request_later(self, body: bytes) -> None:
        """Start the request in a task, because the key or the model is not in memory."""
        head, deps = self._head, self._deps
        assert head is not None
        outcome = await attempt(lambda: build_request_later(deps, head.request_head, body, self._request_id))
        self._lookup_task = None
        if not isinstance(outcome, AttemptFailure):
            self._start_exchange(outcome.value)
        elif isinstance(outcome.error, TurnNeeded):
            needed = outcome.error
            self._lookup_task = deps.gateway.tasks.start(self._answer_by_run(body, needed), name="answer by a run")
        else:
            self._reject_request(to_corral_error(outcome.error))

    async def _answer_by_run(self, body: bytes, needed: TurnNeeded) -> None:
        """Relay the response of a run, which takes the place of an engine's. Cancelled with the connection."""
        head, deps = self._head, self._deps
        assert head is not None
        has_begun = False

        async def relay() -> None:
            nonlocal has_begun
            async with deps.turns.open_chat(deps, head.request_head, body, needed, self._request_id) as response:
                async for piece in response.iter_pieces():
                    if not has_begun:
                        has_begun = True
                        self.begin(200, response.headers, response.size_bytes)
                    if self._is_write_paused:
                        await self._wait_until_writable()
                    self.send_piece(piece)

        outcome = await attempt(relay)
        self._lookup_task = None
        if not isinstance(outcome, AttemptFailure):
            self.end()
        elif has_begun:
            self.cut(to_corral_error(outcome.error))
        else:
            self.fail(to_corral_error(outcome.error))

    async def _wait_until_writable(self) -> None:
        """Wait until the client has read what was sent. A client that does not read for too long loses its
        connection."""
        self._writable = asyncio.Event()
        try:
            async with asyncio.timeout(self._deps.gateway.timeouts.client_stall_s or None):
                await self._writable.wait()
        except TimeoutError as error:
            raise ResponseInterrupted("The client does not read its response.") from error
        finally:
            self._writable = None

    def _start_exchange(self, request: InferenceRequest) -> None:
        exchange = self._exchange = Exchange(self._deps.gateway, request, self)
        if self._is_write_paused:
            exchange.pause()
        exchange.start()

    def _reject_request(self, error: CorralError) -> None:
        head = self._head
        assert head is not None
        self._state = ANSWERING
        if not self._request_id:
            self._request_id = head.request_id or self._deps.gateway.new_request_id()
        self._deps.gateway.record_rejection(error, call=head.request_head.call, request_id=self._request_id)
        self.fail(error)

    # Writing a response: the methods of `gateway.exchange.gateway.ResponseSink`

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        http_head = self._head
        assert http_head is not None
        self._release()
        self._is_stream = False
        for name, value in head:
            if name == b"content-type":
                self._is_stream = value.startswith(_STREAM)
                break
        if not http_head.is_kept_alive or self._deps.health.is_stopping:
            self._closes_after_response = True
        self._is_chunked = size_bytes is None and not http_head.is_http_1_0 and status not in BODILESS_STATUSES
        framing = b"connection: close\r\n" if self._closes_after_response else b""
        if size_bytes is not None and status not in BODILESS_STATUSES:
            framing += b"content-length: %d\r\n" % size_bytes
        elif self._is_chunked:
            framing += b"transfer-encoding: chunked\r\n"
        common = self.registry.render_common_headers(self.server_state.default_headers)
        own = b"%bx-request-id: %b\r\n" % (common, self._request_id.encode())
        self._unsent_head = http_messages.render_head(status, head, own, framing)

    def send_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        http_head = self._head
        assert http_head is not None
        if self._closes_after_response or not http_head.is_kept_alive or self._deps.health.is_stopping:
            self.begin(status, head, len(body))
            self.send_piece(body)
            self.end()
            return
        if self._lease is not None:
            self._release()
        common = self.registry.render_common_headers(self.server_state.default_headers)
        self.transport.write(http_messages.render_whole(status, head, common, self._request_id.encode(), body))
        self._finish_response()

    def send_piece(self, data: bytes) -> None:
        framed = http_messages.CHUNK_FORMAT % (len(data), data) if self._is_chunked else data
        if self._unsent_head:
            framed, self._unsent_head = self._unsent_head + framed, b""
        self.transport.write(framed)

    def end(self) -> None:
        last = self._unsent_head + (http_messages.LAST_CHUNK if self._is_chunked else b"")
        self._unsent_head = b""
        if last:
            self.transport.write(last)
        self._finish_response()

    def fail(self, error: CorralError) -> None:
        head = self._head
        assert head is not None
        lines, body = http_messages.render_failure(head.request_head.path, error, self._request_id)
        self.begin(error.status, lines, len(body))
        self.send_piece(body)
        self.end()

    def cut(self, error: CorralError) -> None:
        if self._is_write_paused:
            # The client does not read: neither this response nor what is still buffered.
            self._exchange = None
            self.transport.abort()
        elif self._is_stream:
            self.send_piece(render_error_event(error))
            self.end()
        else:
            # Closed without the final chunk, so that the client does not take the response for complete.
            self._exchange = None
            self.transport.close()

    def on_writable(self, *, is_writable: bool) -> None:
        raise AssertionError("hot-path bodies are complete before they are sent", is_writable)
