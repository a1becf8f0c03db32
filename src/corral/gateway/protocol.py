"""A connection of a client: the plain form of the hot calls is answered here, everything else by uvicorn.

    IDLE ──POST /v1/chat/completions …──> HEAD ──> BODY ──> ANSWERING ──> IDLE
      └──anything else──> uvicorn's protocol, until its answer is out ──────┘

Both kinds mix on one connection, in order: a request is ours only where a message begins and nothing of uvicorn's is
under way. Guarantee: uvicorn sees all bytes of its requests and none of ours; one answer for each request, in their
order; what a client sends ahead or does not read is bounded here and held back at its source. Limit: a request that is
not plain (`head.py`), or that stands behind one of uvicorn's, is uvicorn's; the same routes answer it there.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from corral.api.middleware import DRAINED_BYTES_MAX, INFERENCE_BODY_BYTES_MAX, NO_SNIFF
from corral.api.openai import errors
from corral.api.openai.asked import wish_later, wish_now
from corral.api.openai.logprobs import LogprobsClient, asks_logprobs
from corral.api.parts import Parts
from corral.domain.errors import CorralError, TooLarge, Unavailable
from corral.gateway import answers
from corral.gateway.body_progress import BodyProgress
from corral.gateway.connection_limits import ConnectionCounter, ConnectionLimits
from corral.gateway.head import (
    HEAD_BYTES_MAX,
    Head,
    begins_ours,
    has_bare_feed,
    has_origin,
    read_head,
)
from corral.gateway.server_side import HEAD_S, ServerProtocol
from corral.ports.engines import HeadLines
from corral.runtime.byte_budget import ByteLease
from corral.runtime.guard import Failed, attempt
from corral.runtime.mould import END, Mould, Moulds
from corral.serving.exchange import Exchange
from corral.serving.gateway import STOPPING, Wish, as_error

# What a client may send ahead of the answer that it waits for.
AHEAD_BYTES_MAX = 64 * 1024
# A body up to this size is read before it is looked up who sends it.
DOUBTFUL_BYTES = 64 * 1024
# Answers with one of these end with their head.
BODILESS = frozenset({204, 304})
_STREAM = b"text/event-stream"


# How far our request has come. Plain numbers: members of an enum cost several times as much to look at. Draining: a
# body that is too large is read to its end, so that its client reads what we say.
_IDLE, _HEAD, _BODY, _DRAINING, _ANSWERING = range(5)


class Switchboard:
    """What the connections of one server share, and all of them."""

    def __init__(self, parts: Parts, limits: ConnectionLimits | None = None) -> None:
        self.parts = parts
        self.counter = ConnectionCounter(limits or ConnectionLimits())
        self.connections: set[GatewayProtocol] = set()
        self.moulds: Moulds[Head] = Moulds()
        self.checks_origin = parts.origins.is_on
        self._dated: list[tuple[bytes, bytes]] | None = None
        self._common = b""
        parts.gateway.swept.append(self.sweep)

    def common_lines(self, default: list[tuple[bytes, bytes]]) -> bytes:
        """Those of every answer, such as the date; uvicorn makes a new list once a second."""
        if default is not self._dated:
            self._dated = default
            self._common = b"".join(b"%b: %b\r\n" % line for line in (*default, NO_SNIFF))
        return self._common

    def sweep(self, now: float) -> int:
        """Close the connections that keep us waiting. How many."""
        return sum(connection.sweep(now) for connection in tuple(self.connections))

    def protocol_class(self) -> type[GatewayProtocol]:
        """What `uvicorn.Config(http=…)` is given."""
        switchboard = self

        class Protocol(GatewayProtocol):
            board = switchboard

        return Protocol


class GatewayProtocol(ServerProtocol):
    """Also a `runtime.intake.Taker`, and a `serving.gateway.Client`: where the answer of the present exchange goes."""

    # Beside the dictionary that uvicorn's part of it has, and with what of that every request looks at: close together,
    # it is found in the processor's cache however many connections there are.
    __slots__ = (
        "_at",
        "_closes",
        "_early",
        "_exchange",
        "_head",
        "_holds_back",
        "_intake",
        "_is_all_ours",
        "_is_chunked",
        "_is_full",
        "_is_stream",
        "_is_taking",
        "_lease",
        "_left_bytes",
        "_mould",
        "_pieces",
        "_refusal",
        "_request_id",
        "_slow",
        "_unsent_head",
    )

    board: Switchboard

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._intake = self._parts.gateway.intake
        self._at = _IDLE
        # Came, and belongs to nobody yet.
        self._early = b""
        self._is_taking = False
        # The client does not read; we do not read for it.
        self._is_full = False
        self._holds_back = False
        self._closes = False
        # Of our request.
        self._head: Head | None = None
        # Of the head of the last request, if one like it may be taken at a glance: never again after uvicorn was asked
        # something here.
        self._mould: Mould[Head] | None = None
        self._is_all_ours = True
        self._pieces: list[bytes] = []
        self._left_bytes = 0
        # What is said when a body that is not kept has come to its end.
        self._refusal: CorralError | None = None
        # What a large body takes of the budget, until its answer begins.
        self._lease: ByteLease | None = None
        self._request_id = ""
        self._exchange: Exchange | None = None
        self._slow: asyncio.Task[Any] | None = None
        # Of our answer.
        self._unsent_head = b""
        self._is_chunked = False
        self._is_stream = False

    @property
    def is_busy(self) -> bool:
        """A request is being read or answered, ours or uvicorn's."""
        return self._at != _IDLE or not self._is_uvicorn_idle()

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.board.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.board.connections.discard(self)
        self._release()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandon()
        if self._slow is not None:
            self._slow.cancel()
        self._pieces = []
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._intake.add(self, data)

    def eof_received(self) -> None:
        """The transport closes itself after this."""
        self._intake.run()

    def break_off(self) -> None:
        self.transport.abort()

    def take(self, data: bytes) -> None:
        self._has_moved = True
        mould = self._mould
        if self._at == _IDLE and mould is not None:
            body = mould.body(data)
            if body is not None and len(body) <= DOUBTFUL_BYTES and not self._early and not self._is_full:
                self._take_again(mould.meaning, data, body)
                return
        if self._at == _ANSWERING:
            self._keep(data)
        elif _BODY <= self._at <= _DRAINING:
            self._take_body(data)
        elif self._is_uvicorn_idle():
            self._take(self._early + data if self._early else data)
        else:
            self._give(data)

    def pause_writing(self) -> None:
        self._is_full = True
        super().pause_writing()
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        self._is_full = False
        super().resume_writing()
        if self._exchange is not None:
            self._exchange.resume()
        elif self._early and self._at == _IDLE:
            self._go_on(b"")

    def shutdown(self) -> None:
        """Called by the server when it stops: what is under way may end, and nothing follows it."""
        if self._at >= _BODY:
            self._closes = True
        else:
            super().shutdown()

    # Ours or theirs

    def _take(self, data: bytes) -> None:
        """Requests from the beginning of a message on, until one has to be waited for, or its client has to read."""
        self._early = b""
        self._is_taking = True
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        while data and self._at <= _HEAD and not self._is_full and not self.transport.is_closing():
            is_ours = begins_ours(data)
            end = data.find(END) if is_ours else -1
            if is_ours is False or (end < 0 and has_bare_feed(data)):
                self._at = _IDLE
                self._give(data)
                data = b""
            elif is_ours and 0 <= end <= HEAD_BYTES_MAX:
                data = self._take_head(data, end + len(END))
            elif len(data) > HEAD_BYTES_MAX:
                self._refuse_head()
                data = b""
            else:
                self._wait_for_head(data)
                data = b""
        self._is_taking = False
        if data:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        """Sent ahead: it waits for its turn, and so does its client when it is much."""
        self._early += data
        if len(self._early) > AHEAD_BYTES_MAX:
            self._holds_back = True
            self.flow.pause_reading()

    def _wait_for_head(self, data: bytes) -> None:
        self._early = data
        if self._at == _IDLE:
            self._at = _HEAD
            self._since = self._parts.clock.monotonic()

    def _refuse_head(self) -> None:
        self._at = _IDLE
        super()._refuse_head()

    def on_message_begin(self) -> None:
        self._is_all_ours, self._mould = False, None
        super().on_message_begin()

    # Our request

    def _take_again(self, head: Head, data: bytes, body: bytes) -> None:
        """A whole request whose head is that of the one before, but for its length: most clients that stay send it."""
        if self._parts.not_ready() is None:
            self._head = head
            self._answer(body)
        else:
            self._take(data)

    def _take_head(self, data: bytes, end: int) -> bytes:
        """What of `data` is behind the request."""
        raw = data if end == len(data) else data[:end]
        # A browser of another origin is answered where its lines are written.
        head = None if self.board.checks_origin and has_origin(raw) else read_head(raw)
        if head is None or self._parts.not_ready() is not None or self._is_doubtful(head):
            self._at = _IDLE
            self._give(data)
            return b""
        self._head = head
        self._mould = self.board.moulds.mould(raw, head) if self._is_all_ours else None
        rest_bytes = len(data) - end
        self._refusal = self._reserve(head) if head.size_bytes > DOUBTFUL_BYTES else None
        if rest_bytes >= head.size_bytes and self._refusal is None:
            body_end = end + head.size_bytes
            self._answer(data[end:body_end])
            return data[body_end:]
        self._at = _BODY if self._refusal is None else _DRAINING
        self._progress = BodyProgress(self._parts.clock.monotonic())
        self._left_bytes = head.size_bytes
        self._take_body(data[end:])
        return b""

    def _reserve(self, head: Head) -> CorralError | None:
        """Take the bytes of a large body from the budget; what is said instead of an answer if that cannot be."""
        parts, secret = self._parts, head.asked.secret
        principal = parts.directory.known(secret) if secret else None
        if head.size_bytes > INFERENCE_BODY_BYTES_MAX:
            error = TooLarge(
                f"The body is larger than {INFERENCE_BODY_BYTES_MAX // 1024} KiB.",
                hint="Long documents can be asked about in parts.",
            )
            return parts.gateway.charge_refused(error, principal)
        lease = ByteLease(parts.gateway.body_budget, principal.key_id if principal is not None else "")
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

    def _is_doubtful(self, head: Head) -> bool:
        """A large body of somebody whom memory does not know. uvicorn reads no more of it than it can hold back."""
        if head.size_bytes <= DOUBTFUL_BYTES:
            return False
        secret = head.asked.secret
        return secret is None or self._parts.directory.known(secret) is None

    def _take_body(self, data: bytes) -> None:
        rest = b""
        if len(data) > self._left_bytes:
            data, rest = data[: self._left_bytes], data[self._left_bytes :]
        self._left_bytes -= len(data)
        if self._progress is not None:
            self._progress.add(len(data))
        if self._at == _BODY:
            self._pieces.append(data)
        if self._left_bytes and not self._is_too_much():
            return
        pieces, self._pieces = self._pieces, []
        self._is_taking = True
        self._progress, refusal = None, self._refusal
        if refusal is None:
            self._answer(b"".join(pieces))
        else:
            self._closes = self._closes or bool(self._left_bytes)
            self._turn_away(refusal)
        self._is_taking = False
        self._go_on(rest)

    def _is_too_much(self) -> bool:
        assert self._head is not None
        return self._at == _DRAINING and self._head.size_bytes - self._left_bytes > DRAINED_BYTES_MAX

    def _answer(self, body: bytes) -> None:
        head, parts = self._head, self._parts
        assert head is not None
        self._at = _ANSWERING
        self._request_id = request_id = head.request_id or parts.gateway.new_request_id()
        try:
            wish = wish_now(parts, head.asked, body, request_id)
        except CorralError as error:
            self._turn_away(error)
            return
        if wish is not None:
            self._start(wish)
        elif parts.gateway.is_closing:
            self._turn_away(Unavailable(STOPPING, hint="Ask another frontend.", code="stopping"))
        else:
            self._slow = parts.gateway.tasks.start(self._answer_later(body), name="look up")

    async def _answer_later(self, body: bytes) -> None:
        """The key or the model is not in memory."""
        head, parts = self._head, self._parts
        assert head is not None
        outcome = await attempt(lambda: wish_later(parts, head.asked, body, self._request_id))
        self._slow = None
        if isinstance(outcome, Failed):
            self._turn_away(as_error(outcome.error))
        else:
            self._start(outcome.value)

    def _start(self, wish: Wish) -> None:
        client = LogprobsClient(self) if wish.call == "completions" and asks_logprobs(wish) else self
        exchange = self._exchange = Exchange(self._parts.gateway, wish, client)
        if self._is_full:
            exchange.pause()
        exchange.start()

    def _turn_away(self, error: CorralError) -> None:
        head = self._head
        assert head is not None
        self._at = _ANSWERING
        if not self._request_id:
            self._request_id = head.request_id or self._parts.gateway.new_request_id()
        self._parts.gateway.turned_away(error, call=head.asked.call, request_id=self._request_id)
        self.fail(error)

    # Our answer: `serving.gateway.Client`

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        asked = self._head
        assert asked is not None
        self._release()
        self._is_stream = False
        for name, value in head:
            if name == b"content-type":
                self._is_stream = value.startswith(_STREAM)
                break
        if not asked.is_kept_alive or self._parts.health.is_stopping:
            self._closes = True
        self._is_chunked = size_bytes is None and not asked.is_http_1_0 and status not in BODILESS
        framing = b"connection: close\r\n" if self._closes else b""
        if size_bytes is not None and status not in BODILESS:
            framing += b"content-length: %d\r\n" % size_bytes
        elif self._is_chunked:
            framing += b"transfer-encoding: chunked\r\n"
        common = self.board.common_lines(self.server_state.default_headers)
        own = b"%bx-request-id: %b\r\n" % (common, self._request_id.encode())
        self._unsent_head = answers.head(status, head, own, framing)

    def whole(self, status: int, head: HeadLines, body: bytes) -> None:
        asked = self._head
        assert asked is not None
        if self._closes or not asked.is_kept_alive or self._parts.health.is_stopping:
            self.begin(status, head, len(body))
            self.piece(body)
            self.end()
            return
        if self._lease is not None:
            self._release()
        common = self.board.common_lines(self.server_state.default_headers)
        self.transport.write(answers.whole(status, head, common, self._request_id.encode(), body))
        self._answered()

    def piece(self, data: bytes) -> None:
        framed = answers.CHUNK % (len(data), data) if self._is_chunked else data
        if self._unsent_head:
            framed, self._unsent_head = self._unsent_head + framed, b""
        self.transport.write(framed)

    def end(self) -> None:
        last = self._unsent_head + (answers.LAST_CHUNK if self._is_chunked else b"")
        self._unsent_head = b""
        if last:
            self.transport.write(last)
        self._answered()

    def fail(self, error: CorralError) -> None:
        head = self._head
        assert head is not None
        lines, body = answers.failure(head.asked.path, error, self._request_id)
        self.begin(error.status, lines, len(body))
        self.piece(body)
        self.end()

    def cut(self, error: CorralError) -> None:
        if self._is_full:
            # Nobody reads: neither this nor what is on its way.
            self._exchange = None
            self.transport.abort()
        elif self._is_stream:
            self.piece(errors.event(error))
            self.end()
        else:
            # Without its end, so that nobody takes it for whole.
            self._exchange = None
            self.transport.close()

    def wants_more(self, *, is_wanted: bool) -> None:
        raise AssertionError("our bodies are whole before they are sent", is_wanted)

    def _answered(self) -> None:
        self._exchange = None
        self._request_id = ""
        self._at = _IDLE
        self._has_moved = True
        if self._closes:
            self.transport.close()
        elif not self._is_taking and (self._early or self._holds_back):
            self._go_on(b"")

    def _go_on(self, rest: bytes) -> None:
        """With what was sent ahead."""
        data, self._early = self._early + rest if self._early else rest, b""
        if self._at != _IDLE:
            if data:
                self._keep(data)
            return
        self._holds_back = False
        self.flow.resume_reading()
        if data:
            self._take(data)

    # Being late

    def sweep(self, now: float) -> bool:
        """Called once a second. True if the client kept us waiting for too long, and is left."""
        if self.transport.is_closing():
            return self._abort_if_stuck(now)
        if self._at == _HEAD or (self._is_their_head and not self._is_uvicorn_answering()):
            return self._leave_if(now - self._since > HEAD_S)
        progress = self._progress
        if _BODY <= self._at <= _DRAINING:
            return self._leave_if(progress is not None and progress.is_late(now, is_kept=True))
        if progress is not None and self._is_their_message and not self._is_their_head:
            return self._sweep_their_body(progress, now)
        if self._at == _IDLE and self._is_uvicorn_idle():
            if self._has_moved:
                self._has_moved = False
                self._since = now
            elif now - self._since > self.timeout_keep_alive:
                self.transport.close()
                return True
        return False

    def _forget(self) -> None:
        self._pieces, self._early = [], b""
