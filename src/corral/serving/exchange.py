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

from asyncio import Task
from dataclasses import replace
from typing import Any

from corral.domain.answered import Answered, Origin
from corral.domain.errors import CorralError, LimitReached, Unavailable
from corral.domain.records import blank
from corral.policy.serving.breaker import Verdict, judge
from corral.policy.serving.engine_errors import restate_error
from corral.policy.serving.forms import EVENTS, LINES, RAW, WHOLE, read_head
from corral.policy.serving.usage import UNKNOWN, usage_of
from corral.ports.engines import EngineLost, EngineRefused, HeadLines, Line
from corral.runtime.guard import Failed, attempt, attempt_now
from corral.serving.errors import AnswerCut, EngineSilent, not_twice
from corral.serving.gateway import (
    CLIENT_LEFT,
    STOPPING,
    Client,
    Gateway,
    Reading,
    Wish,
    as_error,
    blamed,
    blamed_by_status,
)
from corral.serving.router import Visit
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
# Nothing between here and the client may keep events back.
_UNBUFFERED = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
_NO_QUEUE = ((b"x-corral-queue-ms", b"0"),)
_ENDS = {EVENTS: b"\n\n", LINES: b"\n"}
_BYTES_PER_TOKEN = 4
# Where it is. Plain numbers: members of an enum cost several times as much to look at.
_WAITING, _CALLING, _PASSING, _OVER = range(4)


class Exchange:
    """A `ports.engines.Hearer`. Made once for each request; `start` begins it."""

    __slots__ = (
        "_at",
        "_attempts",
        "_began",
        "_client",
        "_first_byte_s",
        "_form",
        "_gateway",
        "_has_begun",
        "_has_moved",
        "_has_written",
        "_head",
        "_held",
        "_is_paused",
        "_kept",
        "_kept_bytes",
        "_line",
        "_queue_s",
        "_rest",
        "_sent_bytes",
        "_silent_since",
        "_size_bytes",
        "_status",
        "_stream",
        "_task",
        "_visit",
        "_wish",
    )

    def __init__(self, gateway: Gateway, wish: Wish, client: Client) -> None:
        if gateway.tracer is not None:
            wish = replace(wish, traceparent=gateway.tracer.begin(wish.traceparent))
        self._gateway = gateway
        self._wish = wish
        self._client = client
        self._at = _WAITING
        self._began = self._silent_since = gateway.clock.monotonic()
        self._queue_s = 0.0
        self._attempts = 0
        self._held: Held | None = None
        self._line: Line | None = None
        self._task: Task[Any] | None = None
        self._is_paused = False
        self._has_written = False
        self._has_moved = False
        self._has_begun = False
        self._rest = b""
        self._first_byte_s: float | None = None
        self._status = 0
        self._head: HeadLines = ()
        self._size_bytes: int | None = None
        self._form = WHOLE
        # What was gathered of an answer that is no stream, and is not passed on yet.
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._stream: Stream | None = None
        self._sent_bytes = 0
        # Made when the first replica is not found at once, or fails: most requests have no use for it.
        self._visit: Visit | None = None

    @property
    def is_over(self) -> bool:
        return self._at == _OVER

    @property
    def node_name(self) -> str:
        return self._held.node_name if self._held is not None else ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Model, call and replica; the last is empty while there is none."""
        return self._wish.model.name, self._wish.call, self._held.replica.id if self._held is not None else ""

    @property
    def is_streaming(self) -> bool:
        return self._at == _PASSING and self._form != WHOLE

    @property
    def events(self) -> int:
        """How many events of its stream have been passed on so far."""
        return self._stream.events if self._stream is not None else 0

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
        if self._line is not None and self._at == _PASSING:
            self._line.pause()

    def resume(self) -> None:
        self._is_paused = False
        self._has_moved = True
        if self._line is not None and self._at == _PASSING:
            self._line.resume()

    def write(self, piece: bytes, *, is_last: bool) -> None:
        """The next piece of a body that comes in pieces; only when it was wanted. It cannot be told to another engine
        any more."""
        if self._at == _OVER:
            return
        assert self._line is not None, "a piece came before it was wanted"
        self._has_written = self._has_moved = True
        self._line.write(piece, is_last=is_last)

    def abandon(self) -> None:
        """The client has left: so does its call. Harmless afterwards."""
        if self._at != _OVER:
            self._tell_end(CLIENT_LEFT, Origin.CLIENT, "client_left")

    def disown(self, error: CorralError, status: int) -> None:
        """Who reads the answer can make nothing of it, and its client gets this status. Harmless afterwards."""
        if self._at != _OVER:
            if self._held is not None:
                self._held.failed()
            self._tell_end(status, blamed(error), error.slug)

    def stop(self) -> None:
        """The frontend ends and waits no longer: the client is told, and may ask another one. Harmless afterwards."""
        if self._at == _PASSING:
            told = AnswerCut(
                "This frontend is stopping, and the answer was not at its end. Ask again.", code="stopping"
            )
            self._tell_end(self._status, Origin.GATEWAY, told.slug)
            self._client.cut(told)
        else:
            self._fail(Unavailable(STOPPING, hint="Ask another frontend.", code="stopping"))

    # The engine's side

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        held = self._held
        assert held is not None
        self._has_moved = True
        if status == _NOT_OURS and held.replica.engine_key:
            self._is_not_ours(held)
            return
        lines, form = read_head(head)
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
        stream = self._stream
        if stream is not None:
            piece = stream.take(piece)
        elif self._form == WHOLE and self._at != _PASSING:
            piece = self._gather(piece)
        if piece:
            if self._at == _CALLING:
                self._begin()
            self._sent_bytes += len(piece)
            self._client.piece(piece)

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        self.on_head(status, head, len(body))
        if self._line is None:
            # It is asked elsewhere.
            return
        if body and self._form == WHOLE and len(body) <= GATHERED_BYTES_MAX:
            self._first_byte_s = self._gateway.clock.monotonic() - self._began
            self._kept.append(body)
        elif body:
            self.on_body(body)
        self.on_end()

    def on_end(self) -> None:
        self._line = None
        held = self._held
        assert held is not None
        status, reading, stream = self._status, self._wish.reading, self._stream
        if status >= 400:
            if self._goes_elsewhere(held):
                return
            status = self._restate_error()
        if reading is not None and self._at != _PASSING and self._is_kept_back(held, reading):
            return
        total_s = self._gateway.clock.monotonic() - self._began
        if status < 400:
            queue_s = self._queue_s
            held.succeeded(total_s - queue_s, (self._first_byte_s or total_s) - queue_s)
        elif status < 500:
            held.succeeded()
        elif status != _NOT_NOW:
            held.failed()
        self._has_begun = self._at == _PASSING
        self._rest = rest = b"".join(self._kept) if stream is None else stream.rest()
        self._sent_bytes += len(rest)
        origin, code = blamed_by_status(status)
        self._gateway.end(self, self._end(status, origin, code, total_s, rest))

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
        if self._at == _OVER:
            return
        held, self._line = self._held, None
        assert held is not None
        if self._at == _PASSING:
            held.failed()
            self._cut(error)
        elif isinstance(error, EngineRefused) and not self._gateway.is_closing:
            self._start_task(self._leave(held, error), "refused")
        else:
            self._lose(held, error)

    def on_writable(self, is_writable: bool) -> None:  # noqa: FBT001 - what a callback is told
        self._has_moved = True
        self._client.wants_more(is_wanted=is_writable)

    # Looking for a replica

    def _is_not_ours(self, held: Held) -> None:
        """As good as nobody: the port belongs to another process by now."""
        error = EngineRefused(f"The engine at {held.replica.address} does not know our key.", code="engine_mismatch")
        self._hang_up()
        self.on_lost(error)

    def _goes_elsewhere(self, held: Held) -> bool:
        """An engine without its model is as good as none; one that takes no calls now is passed over for another."""
        if self._at == _PASSING or self._has_written:
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
        if self._at != _PASSING and self._form == WHOLE:
            self._status, body = restate_error(self._status, b"".join(self._kept), self._wish.model.name)
            self._kept = [body]
        return self._status

    def _visiting(self) -> Visit:
        if self._visit is None:
            wish, cost = self._wish, 1 + len(self._wish.body) // _BYTES_PER_TOKEN
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
        if self._at == _OVER:
            held.release()
            return
        self._held = held
        self._at = _CALLING
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
        self._at = _WAITING
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
        self._at = _PASSING
        if len(self._wish.body) > KEPT_BODY_BYTES:
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
        if self._at == _PASSING:
            limit_s = limits.client_s if self._is_paused else limits.between_s
        elif self._at == _CALLING:
            limit_s = limits.first_byte_s if self._first_byte_s is None else limits.between_s
        else:
            return False
        if not limit_s or silent_s < limit_s:
            return False
        if self._is_paused and self._at == _PASSING:
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
        if self._at == _PASSING:
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
        if self._at != _OVER:
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
        self._gateway.tell(self._end(status, origin, code, total_s))

    def _end(self, status: int, origin: Origin, code: str, total_s: float, whole: bytes = b"") -> Answered:
        """Let go of everything, once; what is to be told of it. `whole` is an answer that was gathered to its end."""
        self._let_go()
        wish, held, stream, events, usage = self._wish, self._held, self._stream, 0, UNKNOWN
        if stream is not None:
            events, usage = stream.events, stream.usage()
        elif whole and self._form == WHOLE and status < 300:
            usage = usage_of(whole)
        is_estimated = events > 0 and usage.completion is None
        told = blank(Answered)
        told.request_id = wish.request_id
        told.key_id = wish.principal.key_id
        told.model = wish.model.name
        told.call = wish.call
        told.status = status
        told.origin = origin
        told.error_code = code
        told.replica_id, told.node_name = (held.replica.id, held.node_name) if held is not None else ("", "")
        told.began_at = self._began + self._gateway.epoch_s
        told.queue_s = self._queue_s
        told.first_byte_s = self._first_byte_s
        told.total_s = total_s
        told.is_stream = self._form != WHOLE
        told.events = events
        told.prompt_tokens = usage.prompt
        told.cached_tokens = usage.cached
        told.completion_tokens = self._estimate() if is_estimated else usage.completion
        told.is_estimated = is_estimated
        told.received_bytes = wish.received_bytes or len(wish.body)
        told.sent_bytes = self._sent_bytes
        told.attempts = self._attempts
        told.traceparent = wish.traceparent
        return told

    def _let_go(self) -> None:
        assert self._at != _OVER
        self._at = _OVER
        held, task = self._held, self._task
        self._gateway.open.discard(self)
        if self._line is not None:
            self._hang_up()
        self._kept, self._task = [], None
        if held is not None:
            held.release()
        if task is not None:
            task.cancel()

    def _estimate(self) -> int:
        """One token for each event; the first event of a chat only says who speaks."""
        return max(0, self.events - 1) if self._wish.call == "chat" else self.events
