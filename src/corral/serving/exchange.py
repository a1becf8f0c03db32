"""One request on its way: a replica, a call to its engine, and the answer passed on byte for byte.

        start ──> WAITING ──a replica──> CALLING ──the first event, or the whole answer──> PASSING ──> OVER
                     ^                      │
                     └──lost, refused, late─┘

A stream is passed on as it comes, in whole events: if its engine dies, what the client has got so far is readable, and
one more event tells what happened. Any other answer is gathered first, so that a call whose engine dies in the middle
is made again elsewhere and nobody notices; one that grows too large is passed on as it comes.

Guarantee: whatever happens, the client hears `end`, `fail` or `cut` exactly once (nothing if it has left), the replica
is let go of, and the listeners get exactly one record, before the last byte goes out. All of it is plain calls: a task
is made only for a request that has to wait for a replica.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from corral.domain.answered import Origin
from corral.domain.errors import CorralError, LimitReached, Unavailable
from corral.policy.serving.breaker import Verdict, judge
from corral.policy.serving.engine_errors import restate_error
from corral.policy.serving.forms import EVENTS, KIND_JSON, LINES, RAW, WHOLE, read_head
from corral.policy.serving.plausible import RESULT_MARKS, find_fault, find_fault_in_head, find_fault_in_stream
from corral.ports.engines import EngineLost, EngineRefused, HeadLines
from corral.runtime.guard import Failed, attempt, attempt_now
from corral.serving.errors import AnswerCut, EngineSilent, not_twice
from corral.serving.exchange_state import (
    BYTES_PER_TOKEN,
    CALLING,
    CLIENT_LEFT_CODE,
    OVER,
    PASSING,
    WAITING,
    ExchangeState,
    prompt_bytes,
)
from corral.serving.gateway import (
    CLIENT_LEFT,
    STOPPING,
    Reading,
    as_error,
    blamed,
    blamed_by_status,
)
from corral.serving.router import ENGINE_GARBAGE, Visit
from corral.serving.stream import Stream
from corral.serving.use import Held

# An answer up to this size is gathered before it is passed on.
GATHERED_BYTES_MAX = 8 * 1024 * 1024
# A body that is larger is let go of as soon as it cannot be needed any more.
KEPT_BODY_BYTES = 64 * 1024
# Between two calls of a request at the same replica.
AGAIN_S = 0.1
# The engine at that address is not the one that our key is for.
_NOT_OURS = 401
# It takes no calls now.
_NOT_NOW = 503
# How most answers begin and end.
_OPENS, _CLOSES = b"{}"
# What an engine's own failures look like. Others say that it does not know the call at all.
_TRIED_ELSEWHERE = frozenset({500, 502, 504})
# Nothing between here and the client may keep events back.
_UNBUFFERED = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
_NO_QUEUE = ((b"x-corral-queue-ms", b"0"),)
_ENDS = {EVENTS: b"\n\n", LINES: b"\n"}


class Exchange(ExchangeState):
    """A `ports.engines.Hearer`. Made once for each request; `start` begins it."""

    __slots__ = ()

    def start(self) -> None:
        """Returns at once. The client may have been told of a failure by then, and of nothing else."""
        gateway, wish = self._gateway, self._wish
        gateway.open.add(self)
        reading = wish.reading
        try:
            if reading is None or not reading.is_again:
                gateway.limiter.admit(wish.principal, wish.model.name)
        except LimitReached as error:
            error.lines = gateway.left_lines(wish) if wish.principal.limits else ()
            self._fail(error)
        except CorralError as error:
            self._fail(error)
        else:
            self._try_next(self._began)

    # The client's side

    def pause(self) -> None:
        """The client does not read: neither do we, and the engine waits."""
        self._is_paused = True
        self._silent_since = self._gateway.clock.monotonic()
        if self._line is not None and self._at == PASSING:
            self._line.pause()

    def resume(self) -> None:
        self._is_paused = False
        self._has_moved = True
        if self._line is not None and self._at == PASSING:
            self._line.resume()

    def write(self, piece: bytes, *, is_last: bool) -> None:
        """The next piece of a body that comes in pieces; only when it was wanted. It cannot be told to another engine
        any more."""
        if self._at == OVER:
            return
        assert self._line is not None, "a piece came before it was wanted"
        self._has_written = self._has_moved = True
        self._line.write(piece, is_last=is_last)

    def abandon(self) -> None:
        """The client has left: so does its call. Harmless afterwards."""
        if self._at != OVER:
            self._tell_end(CLIENT_LEFT, Origin.CLIENT, CLIENT_LEFT_CODE)

    def disown(self, error: CorralError, status: int) -> None:
        """Who reads the answer can make nothing of it, and its client gets this status. Harmless afterwards."""
        if self._at != OVER:
            if self._held is not None:
                self._held.failed()
            self._tell_end(status, blamed(error), error.slug)

    def stop(self) -> None:
        """The frontend ends and waits no longer: the client is told, and may ask another one. Harmless afterwards."""
        if self._at == PASSING:
            told = AnswerCut(
                "This frontend is stopping, and the answer was not at its end. Ask again.", code="stopping"
            )
            self._tell_end(self._status, Origin.GATEWAY, told.slug)
            self._client.cut(told)
        else:
            self._fail(Unavailable(STOPPING, hint="Ask another frontend.", code="stopping"))

    # The engine's side

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        self._take_head(status, head, size_bytes)

    def _take_head(self, status: int, head: HeadLines, size_bytes: int | None) -> bool:
        """Whether the answer can be one. If not, it is asked elsewhere, and nothing more is heard of it."""
        held = self._held
        assert held is not None
        self._has_moved = True
        if status == _NOT_OURS and held.replica.engine_key:
            self._is_not_ours(held)
            return False
        lines, form, kind = read_head(head)
        self._kind = kind
        self._status, self._size_bytes = status, size_bytes
        if form != WHOLE and self._is_read_whole(form):
            form = WHOLE
        self._form = form
        if form != WHOLE:
            # Nobody promises how long it will be: an error may have to be said at its end.
            self._size_bytes = None
            self._stream = Stream(_ENDS[form]) if form in _ENDS else None
            lines += _UNBUFFERED
        if self._gateway.has_response_headers:
            queue_s = self._queue_s
            lines += held.named + (((b"x-corral-queue-ms", b"%d" % (queue_s * 1000)),) if queue_s else _NO_QUEUE)
        self._head = lines
        if (status == 200 and kind == KIND_JSON and size_bytes) or status >= 400:
            # Most answers: JSON is expected by every call.
            return True
        fault = find_fault_in_head(self._wish.call, status, kind, size_bytes)
        if fault:
            self._reject(held, fault)
        return not fault

    def _is_read_whole(self, form: int) -> bool:
        """No stream, or one that whoever asked does not take for one."""
        if self._status >= 300 or (form == RAW and self._size_bytes is not None):
            return True
        reading = self._wish.reading
        return reading is not None and reading.read is not None and not (form == EVENTS and reading.expects_events)

    def on_body(self, piece: bytes) -> None:
        self._has_moved = True
        if self._first_byte_s is None:
            self._first_byte_s = self._gateway.clock.monotonic() - self._began
            if self._form != WHOLE and (fault := find_fault_in_stream(self._kind, piece)):
                assert self._held is not None
                self._reject(self._held, fault)
                return
        stream = self._stream
        if stream is not None:
            piece = stream.take(piece)
        elif self._form == WHOLE and self._at != PASSING:
            piece = self._gather(piece)
        if piece:
            if self._at == CALLING:
                self._begin()
            self._sent_bytes += len(piece)
            self._client.piece(piece)

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        if not self._take_head(status, head, len(body)):
            return
        if body and self._form == WHOLE and len(body) <= GATHERED_BYTES_MAX:
            self._first_byte_s = self._gateway.clock.monotonic() - self._began
            self._kept.append(body)
        elif body:
            attempt = self._attempts
            self.on_body(body)
            if self._line is None or self._attempts != attempt:
                # It is asked elsewhere.
                return
        self.on_end()

    def on_end(self) -> None:
        self._line = None
        held = self._held
        assert held is not None
        wish, status, stream, is_passing = self._wish, self._status, self._stream, self._at == PASSING
        if status >= 400:
            if self._goes_elsewhere(held):
                return
            status = self._restate_error()
            if status >= 500 and self._is_retried(held, status):
                return
        rest = b"".join(self._kept) if stream is None else stream.rest()
        # Most answers are JSON from the first byte to the last, which is seen here without a call.
        is_plain = self._kind == KIND_JSON and rest and rest[0] == _OPENS and rest[-1] == _CLOSES
        if not is_plain and status < 400 and not is_passing and self._is_unusable(held, rest):
            return
        if wish.reading is not None and not is_passing and self._is_kept_back(held, wish.reading):
            return
        total_s = self._gateway.clock.monotonic() - self._began
        if status < 400:
            queue_s = self._queue_s
            mark = RESULT_MARKS.get(wish.call) if stream is None and not is_passing else None
            if rest.find(mark) >= 0 if mark is not None else stream is None or stream.events > 0:
                held.succeeded(total_s - queue_s, (self._first_byte_s or total_s) - queue_s)
            else:
                # However fast it was.
                held.succeeded()
        elif status < 500:
            held.succeeded()
        elif status != _NOT_NOW:
            held.failed()
        self._has_begun = is_passing
        self._rest = rest
        self._sent_bytes += len(rest)
        origin, code = blamed_by_status(status)
        self._let_go()
        self._gateway.end(self, self._record(status, origin, code, total_s, rest))

    def say_rest(self) -> None:
        """It has been told: the client gets what is left of its answer."""
        client, rest = self._client, self._rest
        if not self._has_begun:
            if self._wish.principal.limits:
                self._head += self._gateway.left_lines(self._wish)
            if self._form == WHOLE:
                client.whole(self._status, self._head, rest)
                return
            client.begin(self._status, self._head, None)
        if rest:
            client.piece(rest)
        client.end()

    def _is_kept_back(self, held: Held, reading: Reading) -> bool:
        """Whether whoever asked has no use for this answer."""
        if self._status in reading.gives_up_on:
            # A path that the engine does not have is no fault of it.
            held.succeeded()
            self._let_go()
            self._client.begin(self._status, self._head, 0)
            self._client.end()
            return True
        if reading.read is None or self._status >= 400 or self._form != WHOLE:
            return False
        read, whole = reading.read, b"".join(self._kept)
        outcome = attempt_now(lambda: read(whole))
        if isinstance(outcome, Failed):
            held.failed()
            self._fail(as_error(outcome.error))
        return isinstance(outcome, Failed)

    def on_lost(self, error: EngineRefused | EngineLost) -> None:
        if self._at == OVER:
            return
        held, self._line = self._held, None
        assert held is not None
        if self._at == PASSING:
            held.failed()
            self._cut(error)
        elif isinstance(error, EngineRefused) and not self._gateway.is_closing:
            self._start_task(self._leave(held, error), "refused")
        else:
            self._lose(held, error)

    def on_writable(self, is_writable: bool) -> None:  # noqa: FBT001 - what a callback is told
        self._has_moved = True
        self._client.wants_more(is_wanted=is_writable)

    # Whether an answer is one

    def _is_unusable(self, held: Held, whole: bytes) -> bool:
        """Whether an answer that is at its end is none. Nothing of it was passed on, so it is asked elsewhere then."""
        if self._form == WHOLE:
            fault = find_fault(self._wish.call, self._kind, whole)
        else:
            fault = "" if whole else "answered 200 with nothing"
        if fault:
            self._reject(held, fault)
        return bool(fault)

    def _reject(self, held: Held, fault: str) -> None:
        """The engine's answer is none: a failure of its replica, and another one is asked."""
        error = EngineLost(f"The engine at {held.replica.address} {fault}.", code=ENGINE_GARBAGE)
        self._hang_up()
        self._lose(held, error)

    def _is_retried(self, held: Held, status: int) -> bool:
        """Whether an engine's own error is tried at another replica: once, because a request that breaks one engine may
        break all of them."""
        reading = self._wish.reading
        if self._at == PASSING or self._has_written or self._attempts > 1 or status not in _TRIED_ELSEWHERE:
            return False
        if (reading is not None and status in reading.gives_up_on) or not self._visiting().has_others(held.replica.id):
            return False
        self._lose(held, EngineLost(f"The engine at {held.replica.address} answered {status}.", code="engine_error"))
        return True

    # Looking for a replica

    def _is_not_ours(self, held: Held) -> None:
        """As good as nobody: the port belongs to another process by now."""
        error = EngineRefused(f"The engine at {held.replica.address} does not know our key.", code="engine_mismatch")
        self._hang_up()
        self.on_lost(error)

    def _goes_elsewhere(self, held: Held) -> bool:
        """An engine without its model is as good as none; one that takes no calls now is passed over for another."""
        if self._at == PASSING or self._has_written:
            return False
        address, verdict = held.replica.address, judge(self._status, b"".join(self._kept))
        if verdict is Verdict.NOT_LOADED:
            self.on_lost(EngineRefused(f"The engine at {address} has no model.", code="engine_not_loaded"))
        elif verdict is Verdict.BUSY and self._visiting().has_others(held.replica.id):
            self._lose(held, EngineLost(f"The engine at {address} takes no calls now.", code="engine_busy"))
        else:
            return False
        return True

    def _restate_error(self) -> int:
        """Replace an engine's error that official clients would misread, and return the status that the client gets."""
        if self._at != PASSING and self._form == WHOLE:
            self._status, body = restate_error(self._status, b"".join(self._kept), self._wish.model.name)
            self._kept = [body]
        return self._status

    def _visiting(self) -> Visit:
        if self._visit is None:
            wish, cost = self._wish, 1 + len(self._wish.body) // BYTES_PER_TOKEN
            wait_s = self._gateway.allowed_wait_s(wish)
            self._visit = self._gateway.router.visit(wish.model, wait_s, wish.principal.key_id, cost, self._attempts)
        return self._visit

    def _try_next(self, now: float) -> None:
        held = self._visiting().try_now() if self._attempts else self._gateway.router.take(self._wish.model)
        if held is not None:
            self._call(held, now)
        elif self._gateway.is_closing:
            self._fail(Unavailable(STOPPING, hint="Ask another frontend.", code="stopping"))
        else:
            self._start_task(self._find(), "wait")

    async def _find(self) -> None:
        outcome = await attempt(self._visiting().replica)
        self._task = None
        if isinstance(outcome, Failed):
            self._fail(as_error(outcome.error))
        else:
            self._call(outcome.value, self._gateway.clock.monotonic())

    async def _find_again(self) -> None:
        """An engine that was killed is still called for a moment, and breaks off. After that nobody listens there, and
        its model is loaded anew."""
        await self._gateway.clock.sleep(AGAIN_S)
        await self._find()

    async def _leave(self, held: Held, error: EngineRefused) -> None:
        """Nobody listens there any more, or somebody else."""
        outcome = await attempt(lambda: self._visiting().refused(held, error))
        self._held = None
        if isinstance(outcome, Failed):
            self._task = None
            self._fail(as_error(outcome.error))
        elif self._has_written:
            self._task = None
            self._fail(not_twice(error))
        else:
            await self._find()

    def _lose(self, held: Held, error: CorralError) -> None:
        """The call broke before anything was passed on."""
        is_same_again = self._visiting().lost(held, error)
        self._held = None
        if self._has_written:
            self._fail(not_twice(error))
        elif is_same_again and not self._gateway.is_closing:
            self._start_task(self._find_again(), "again")
        else:
            self._try_next(self._gateway.clock.monotonic())

    def _call(self, held: Held, now: float) -> None:
        if self._at == OVER:
            held.release()
            return
        self._held = held
        self._at = CALLING
        self._silent_since = now
        self._queue_s = now - self._began
        if self._attempts:
            # What another replica began is nothing.
            self._first_byte_s = self._stream = None
            self._kept, self._kept_bytes = [], 0
        self._attempts += 1
        try:
            self._line = self._gateway.engines.send(held.replica, self._wish, self)
        except CorralError as error:
            self._fail(error)

    def _start_task(self, work: Any, name: str) -> None:
        self._at = WAITING
        self._task = self._gateway.tasks.start(work, name=name)

    # Passing an answer on

    def _gather(self, piece: bytes) -> bytes:
        """What has to be passed on, because it grows too large to be kept; else nothing."""
        self._kept.append(piece)
        self._kept_bytes += len(piece)
        if self._kept_bytes <= GATHERED_BYTES_MAX:
            return b""
        whole, self._kept = b"".join(self._kept), []
        return whole

    def _begin(self) -> None:
        """From here on no other replica can answer instead."""
        self._at = PASSING
        if len(self._wish.body) > KEPT_BODY_BYTES:
            self._prompt_bytes = prompt_bytes(self._wish)
            self._wish = replace(self._wish, body=b"")
        if self._wish.principal.limits:
            self._head += self._gateway.left_lines(self._wish)
        self._client.begin(self._status, self._head, self._size_bytes)
        if self._is_paused and self._line is not None:
            self._line.pause()

    # Being late

    def sweep(self, now: float) -> bool:
        """Called once a second. True if this one was late and has been dealt with."""
        if self._has_moved:
            self._has_moved = False
            self._silent_since = now
            return False
        limits, silent_s = self._gateway.timeouts, now - self._silent_since
        if self._at == PASSING:
            limit_s = limits.client_s if self._is_paused else limits.between_s
        elif self._at == CALLING:
            limit_s = limits.first_byte_s if self._first_byte_s is None else limits.between_s
        else:
            return False
        if not limit_s or silent_s < limit_s:
            return False
        if self._is_paused and self._at == PASSING:
            error = CorralError("The client reads nothing of its answer.", code="client_stalled")
            self._cut(error, Origin.CLIENT)
        else:
            self._is_late(limit_s)
        return True

    def _is_late(self, limit_s: float) -> None:
        held = self._held
        assert held is not None
        self._hang_up()
        silent = EngineSilent(
            f"The engine of {self._wish.model.name} took the call and said nothing for {limit_s:g} s.",
            hint="A long prompt may take longer: CORRAL_FIRST_BYTE_TIMEOUT_S, CORRAL_BETWEEN_BYTES_TIMEOUT_S.",
        )
        if self._at == PASSING:
            held.failed()
            self._cut(silent)
        elif self._has_written or not self._visiting().has_others(held.replica.id):
            # Asking the same one again would only take as long again.
            self._visiting().lost(held, silent)
            self._fail(silent)
        else:
            self._lose(held, EngineLost(silent.message, code=silent.slug))

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()

    # The end

    def _fail(self, error: CorralError) -> None:
        if self._at != OVER:
            try:
                self._tell_end(error.status, blamed(error), error.slug)
            finally:
                self._client.fail(error)

    def _cut(self, error: CorralError, origin: Origin = Origin.ENGINE) -> None:
        self._hang_up()
        lead = "The engine went away in the middle of the answer: " if origin == Origin.ENGINE else ""
        code = None if origin == Origin.ENGINE else error.slug
        told = AnswerCut(f"{lead}{error.message} Ask again.", code=code, details={"cause": error.slug})
        try:
            self._tell_end(self._status, origin, told.slug)
        finally:
            self._client.cut(told)

    def _tell_end(self, status: int, origin: Origin, code: str) -> None:
        total_s = self._gateway.clock.monotonic() - self._began
        self._let_go()
        self._gateway.tell(self._record(status, origin, code, total_s, b""))

    def _let_go(self) -> None:
        """Let go of everything, once; then the record is made."""
        assert self._at != OVER
        self._at = OVER
        held, task = self._held, self._task
        self._gateway.open.discard(self)
        if self._line is not None:
            self._hang_up()
        self._kept, self._task = [], None
        if held is not None:
            held.release()
        if task is not None:
            task.cancel()
