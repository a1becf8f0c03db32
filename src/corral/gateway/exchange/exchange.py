"""Proxies one inference request: admits it, judges the response of an engine, and relays the response to the client.

        start ──> WAITING ──a replica──> CALLING ──first event or whole response──> RELAYING ──> DONE
                     └─────<──lost, refused or late──────┘

A stream is relayed in whole events as they come; if its engine dies, one more event says what happened. Any other
response is buffered first, so that a call whose engine dies is repeated on another replica unnoticed; a very large one
is relayed as it comes. `policy/serving/response_rewriter.py` changes what an engine writes otherwise than OpenAI.

Guarantees: the client receives exactly one of `end`, `fail` or `cut`, unless it disconnected first; the replica is
checked in again; exactly one `RequestRecord` is emitted, before the last byte. Only a request that waits makes a task.

Three layers make one object: `exchange_state.py` has the data and the record, `engine_caller.py` finds replicas,
retries and ends the request, and this module handles the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from corral.domain.errors import CorralError, LimitReached
from corral.domain.usage import ErrorOrigin
from corral.gateway.exchange.engine_caller import EngineCaller
from corral.gateway.exchange.exchange_state import (
    BUFFERED_BYTES_MAX,
    CALLING,
    CLIENT_LEFT_CODE,
    DONE,
    KEPT_BODY_BYTES,
    READ_AT_ONCE_BYTES_MAX,
    READ_BYTES_MAX,
    RELAYING,
    EventSplitter,
    estimate_prompt_bytes,
)
from corral.gateway.exchange.gateway import (
    CLIENT_LEFT,
    ResponseReadOptions,
    find_error_origin,
    to_corral_error,
)
from corral.gateway.routing.in_flight_leases import ReplicaCheckout
from corral.policy.serving.circuit_breaker import EngineVerdict, judge_response
from corral.policy.serving.response_check import (
    EVENTS,
    KIND_JSON,
    LINES,
    RAW,
    RESULT_MARKS,
    WHOLE,
    classify_head,
    find_fault,
    find_fault_in_head,
    find_fault_in_stream,
    restate_error,
)
from corral.ports.requests import EngineLost, EngineRefused, HeadLines
from corral.runtime.attempt import AttemptFailure, attempt, attempt_sync

# 401: the engine at that address is not the one that our key is for. 503: the engine takes no calls now.
_OK, _UNAUTHORIZED, _UNAVAILABLE = 200, 401, 503
# The statuses of an engine's own failures. Other 5xx statuses say that the engine does not know the call at all.
_RETRIED_STATUSES = frozenset({500, 502, 504})
# The first and the last byte of most responses.
_OPENS, _CLOSES = b"{}"
# No proxy between here and the client may buffer events.
_UNBUFFERED = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
_NO_QUEUE = ((b"x-corral-queue-ms", b"0"),)
# The origin and the code of a response that is no error.
_NO_ERROR = (ErrorOrigin.NONE, "")
_EVENT_ENDS = {EVENTS: b"\n\n", LINES: b"\n"}


class Exchange(EngineCaller):
    """Relays one inference request between a client connection and an engine.

    Implements `ports.requests.ResponseHandler`.
    """

    __slots__ = ()

    def start(self) -> None:
        """Start the request and return at once. By then the client may have received a failure, but no response."""
        gateway, request = self._gateway, self._request
        gateway.open_exchanges.add(self)
        read_options = request.read_options
        try:
            if read_options is None or not read_options.is_admitted:
                gateway.limiter.admit(request.principal, request.model.name)
        except LimitReached as error:
            error.lines = gateway.render_limit_headers(request) if request.principal.limits else ()
            self._fail(error)
        except CorralError as error:
            self._fail(error)
        else:
            self._try_next_replica(self._began)

    # The client's side

    def pause(self) -> None:
        """Stop reading from the engine, because the client does not read its response."""
        self._is_paused = True
        self._silent_since = self._gateway.clock.monotonic()
        if self._engine_call is not None and self._state == RELAYING:
            self._engine_call.pause()

    def resume(self) -> None:
        self._is_paused = False
        self._has_moved = True
        if self._engine_call is not None and self._state == RELAYING:
            self._engine_call.resume()

    def write(self, piece: bytes, *, is_last: bool) -> None:
        """Send the next piece of a body in pieces, after `on_writable` only. No retry is possible from here on."""
        if self._state == DONE:
            return
        assert self._engine_call is not None, "a piece came before the engine could take it"
        self._has_written = self._has_moved = True
        self._engine_call.write(piece, is_last=is_last)

    def abandon(self) -> None:
        """Abort the engine call, because the client has disconnected. No-op once done."""
        if self._state != DONE:
            self._emit_record(CLIENT_LEFT, ErrorOrigin.CLIENT, CLIENT_LEFT_CODE)

    def reject_response(self, error: CorralError, status: int) -> None:
        """Mark the engine's response as unusable and report `error` with `status` to the client. No-op once done."""
        if self._state != DONE:
            if self._checkout is not None:
                self._checkout.record_failure()
            self._emit_record(status, find_error_origin(error), error.slug)

    # The engine's side

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        self._accept_head(status, head, size_bytes)

    def _accept_head(self, status: int, head: HeadLines, size_bytes: int | None) -> bool:
        """Return whether the response head is usable. If not, the request is retried on another replica."""
        checkout = self._checkout
        assert checkout is not None
        self._has_moved = True
        if status == _UNAUTHORIZED and checkout.replica.engine_key:
            self._retry_on_key_mismatch(checkout)
            return False
        lines, form, kind = classify_head(head)
        self._kind = kind
        self._status, self._size_bytes = status, size_bytes
        if form != WHOLE and self._is_read_whole(form):
            form = WHOLE
        self._form = form
        if form != WHOLE:
            # No length is promised to the client, because an error event may have to follow.
            self._size_bytes = None
            self._splitter = EventSplitter(_EVENT_ENDS[form]) if form in _EVENT_ENDS else None
            lines += _UNBUFFERED
        if self._gateway.has_response_headers:
            queue_s = self._queue_s
            lines += checkout.response_headers + (
                ((b"x-corral-queue-ms", b"%d" % (queue_s * 1000)),) if queue_s else _NO_QUEUE
            )
        self._head = lines
        if (status == 200 and kind == KIND_JSON and size_bytes) or status >= 400:
            # Most responses end here: JSON is valid for every call.
            return True
        fault = find_fault_in_head(self._request.call, status, kind, size_bytes)
        if fault:
            self._retry_after_bad_response(checkout, fault)
        return not fault

    def _is_read_whole(self, form: int) -> bool:
        """Return whether the response is no stream, or is a stream that the caller reads as a whole."""
        if self._status >= 300 or (form == RAW and self._size_bytes is not None):
            return True
        options = self._request.read_options
        return options is not None and options.read is not None and not (form == EVENTS and options.expects_events)

    def on_body(self, piece: bytes) -> None:
        self._has_moved = True
        if self._first_byte_s is None:
            self._first_byte_s = self._gateway.clock.monotonic() - self._began
            if self._form != WHOLE and (fault := find_fault_in_stream(self._kind, piece)):
                assert self._checkout is not None
                self._retry_after_bad_response(self._checkout, fault)
                return
        stream = self._splitter
        if stream is not None:
            piece = stream.feed(piece)
            if self._rewriter is not None and self._form == EVENTS:
                piece = self._rewriter.rewrite_events(piece)
        elif self._form == WHOLE and self._state != RELAYING:
            piece = self._buffer_piece(piece)
        if self._name_change is not None:
            piece = piece.replace(*self._name_change)
        if piece:
            if self._state == CALLING:
                self._begin_relaying()
            self._sent_bytes += len(piece)
            self._client.send_piece(piece)

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        if not self._accept_head(status, head, len(body)):
            return
        if body and self._form == WHOLE and len(body) <= BUFFERED_BYTES_MAX:
            self._first_byte_s = self._gateway.clock.monotonic() - self._began
            self._buffered.append(body)
        elif body:
            attempt = self._attempts
            self.on_body(body)
            if self._engine_call is None or self._attempts != attempt:
                # The request is being retried on another replica.
                return
        self.on_end()

    def on_end(self) -> None:
        self._engine_call = None
        checkout = self._checkout
        assert checkout is not None
        request, status, stream, is_passing = self._request, self._status, self._splitter, self._state == RELAYING
        if status >= 400:
            status = self._find_error_status(checkout)
            if not status:
                return
        rest = b"".join(self._buffered) if stream is None else stream.finish()
        if self._rewriter is not None and status == _OK:
            if self._is_too_large_to_rewrite(self._rewriter, rest):
                self._start_task(self._read_large(checkout, self._rewrite_large, rest), "rewrite")
                return
            rest = self._rewrite_rest(self._rewriter, rest)
        if self._name_change is not None:
            rest = rest.replace(*self._name_change)
        # Most responses are JSON from the first byte to the last, which this test shows without a function call.
        is_plain = self._kind == KIND_JSON and rest and rest[0] == _OPENS and rest[-1] == _CLOSES
        if not is_plain and status < 400 and not is_passing and self._retry_if_unusable(checkout, rest):
            return
        options = request.read_options
        if options is not None and not is_passing and self._withhold_response(checkout, options, rest):
            return
        total_s = self._gateway.clock.monotonic() - self._began
        if status < 400:
            origin, code = _NO_ERROR
            queue_s = self._queue_s
            mark = RESULT_MARKS.get(request.call) if stream is None and not is_passing else None
            if rest.find(mark) >= 0 if mark is not None else stream is None or stream.events > 0:
                checkout.record_success(total_s - queue_s, (self._first_byte_s or total_s) - queue_s)
            else:
                # A response without a result says nothing about the speed of the replica.
                checkout.record_success()
        else:
            origin, code = _record_engine_error(checkout, status)
        self._has_begun = is_passing
        self._rest = rest
        self._sent_bytes += len(rest)
        self._release()
        self._gateway.finish_exchange(self, self._make_record(status, origin, code, total_s, rest))

    def flush_response(self) -> None:
        """Send the buffered rest of the response. Called after the `RequestRecord` has been emitted."""
        client, rest = self._client, self._rest
        if not self._has_begun:
            if self._request.principal.limits:
                self._head += self._gateway.render_limit_headers(self._request)
            if self._form == WHOLE:
                client.send_whole(self._status, self._head, rest)
                return
            client.begin(self._status, self._head, None)
        if rest:
            client.send_piece(rest)
        client.end()

    def _withhold_response(self, checkout: ReplicaCheckout, read_options: ResponseReadOptions, whole: bytes) -> bool:
        """Return whether the caller cannot use this response, so that it must not be relayed."""
        if self._status in read_options.fallback_statuses:
            # A path that the engine does not have is not a failure of the replica.
            checkout.record_success()
            self._release()
            self._client.begin(self._status, self._head, 0)
            self._client.end()
            return True
        if read_options.read is None or self._status >= 400 or self._form != WHOLE:
            return False
        read = read_options.read
        if read_options.read_large is not None and len(whole) > READ_AT_ONCE_BYTES_MAX:
            self._buffered = [whole]
            self._request = replace(self._request, read_options=None)
            self._start_task(self._read_large(checkout, read_options.read_large, whole), "read")
            return True
        outcome = attempt_sync(lambda: read(whole))
        if isinstance(outcome, AttemptFailure):
            checkout.record_failure()
            self._fail(to_corral_error(outcome.error))
        return isinstance(outcome, AttemptFailure)

    async def _read_large(
        self, checkout: ReplicaCheckout, read: Callable[[bytes], Awaitable[None]], whole: bytes
    ) -> None:
        """Have a large response read off the event loop, then continue as if it had been read at once."""
        outcome = await attempt(lambda: read(whole))
        self._task = None
        if self._state == DONE:
            return
        if isinstance(outcome, AttemptFailure):
            if isinstance(outcome.error, EngineLost):
                checkout.record_failure()
            self._fail(to_corral_error(outcome.error))
            return
        self._state = CALLING
        self.on_end()

    def on_writable(self, is_writable: bool) -> None:  # noqa: FBT001 - the signature of a callback
        self._has_moved = True
        self._client.on_writable(is_writable=is_writable)

    # Checking the response

    def _retry_if_unusable(self, checkout: ReplicaCheckout, whole: bytes) -> bool:
        """Retry on another replica and return True if the complete response is unusable. Nothing of it was relayed."""
        if self._form == WHOLE:
            fault = find_fault(self._request.call, self._kind, whole)
        else:
            fault = "" if whole else "returned 200 with nothing"
        if fault:
            self._retry_after_bad_response(checkout, fault)
        return bool(fault)

    def _retry_if_busy_or_unloaded(self, checkout: ReplicaCheckout) -> bool:
        """Drop a replica whose engine lost its model, or retry a busy one elsewhere. Return whether it was retried."""
        if self._state == RELAYING or self._has_written:
            return False
        address, verdict = checkout.replica.address, judge_response(self._status, b"".join(self._buffered))
        if verdict is EngineVerdict.NOT_LOADED:
            self.on_lost(EngineRefused(f"The engine at {address} has no model loaded.", code="engine_not_loaded"))
        elif verdict is EngineVerdict.BUSY and self._ensure_selector().has_others(checkout.replica.id):
            self._retry_after_loss(checkout, EngineLost(f"The engine at {address} is busy.", code="engine_busy"))
        else:
            return False
        return True

    def _retry_engine_error(self, checkout: ReplicaCheckout, status: int) -> bool:
        """Retry an engine's own error on another replica, once: a request that breaks one engine may break all."""
        options = self._request.read_options
        if self._state == RELAYING or self._has_written or self._attempts > 1 or status not in _RETRIED_STATUSES:
            return False
        if (options is not None and status in options.fallback_statuses) or not self._ensure_selector().has_others(
            checkout.replica.id
        ):
            return False
        self._retry_after_loss(
            checkout, EngineLost(f"The engine at {checkout.replica.address} returned {status}.", code="engine_error")
        )
        return True

    def _find_error_status(self, checkout: ReplicaCheckout) -> int:
        """Return the status of an error that the client is to get; 0 if the request is retried instead."""
        if self._retry_if_busy_or_unloaded(checkout):
            return 0
        status = self._restate_error()
        return 0 if status >= 500 and self._retry_engine_error(checkout, status) else status

    def _restate_error(self) -> int:
        """Replace an engine's error that official clients would misread, and return the status that the client gets."""
        if self._state != RELAYING and self._form == WHOLE:
            self._status, body = restate_error(self._status, b"".join(self._buffered), self._request.model.name)
            self._buffered = [body]
        return self._status

    # Relaying the response

    def _buffer_piece(self, piece: bytes) -> bytes:
        """Buffer a piece. Return all buffered bytes if they have grown too large to be kept, else nothing."""
        self._buffered.append(piece)
        self._buffered_bytes += len(piece)
        if self._buffered_bytes <= BUFFERED_BYTES_MAX:
            return b""
        if self._needs_whole():
            if self._buffered_bytes > READ_BYTES_MAX:
                self._refuse_large()
            return b""
        whole, self._buffered = b"".join(self._buffered), []
        return whole

    def _refuse_large(self) -> None:
        """Fail a response that is larger than its reader accepts. Another replica would send the same."""
        assert self._checkout is not None
        self._abort_engine_call()
        self._checkout.record_failure()
        sentence = f"The engine's response is larger than {READ_BYTES_MAX // 2**20} MiB."
        self._fail(EngineLost(sentence, hint="Request less at a time.", code="engine_answer_too_large"))

    def _begin_relaying(self) -> None:
        """Send the response head to the client. From here on the request cannot be retried."""
        self._state = RELAYING
        if len(self._request.body) > KEPT_BODY_BYTES:
            self._prompt_bytes = estimate_prompt_bytes(self._request)
            self._request = replace(self._request, body=b"")
        if self._request.principal.limits:
            self._head += self._gateway.render_limit_headers(self._request)
        self._client.begin(self._status, self._head, self._size_bytes)
        if self._is_paused and self._engine_call is not None:
            self._engine_call.pause()


def _record_engine_error(checkout: ReplicaCheckout, status: int) -> tuple[ErrorOrigin, str]:
    """Record an engine's error for its replica, and return its origin and its code. A 4xx is the client's fault,
    because it is about the request."""
    if status < 500:
        checkout.record_success()
        return ErrorOrigin.CLIENT, ""
    if status != _UNAVAILABLE:
        checkout.record_failure()
    return ErrorOrigin.ENGINE, "engine_error"
