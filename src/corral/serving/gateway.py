"""What every request on its way shares: router, engines, limits, listeners, time; and the sweep over those under way.

A warm request makes no task, no timer and no statement. Whatever waits too long is found once a second by one pass
over the open exchanges, so a timeout is kept to the second and costs nothing while nothing is late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import structlog

from corral.domain.access import Principal
from corral.domain.answered import Answered, Origin
from corral.domain.errors import CorralError, InvalidRequest, LimitReached, TooLarge
from corral.policy.serving.allowances import anthropic_lines, openai_lines
from corral.ports.answers import Limiter, Listener, NoLimits
from corral.ports.engines import Engines, Headers, HeadLines
from corral.ports.runtime import Clock, Ids
from corral.ports.traces import Tracer
from corral.runtime.byte_budget import MIB, ByteBudget, ByteLimits
from corral.runtime.intake import Intake
from corral.runtime.tasks import Tasks
from corral.serving.router import Router
from corral.store.use import Served

if TYPE_CHECKING:
    from corral.serving.exchange import Exchange

log = structlog.get_logger(__name__)

JSON = "application/json"
STOPPING = "This frontend is stopping."
SWEEP_INTERVAL_S = 1.0
# What a frontend keeps of requests: bodies in memory, and forms with recordings on the disk.
BODY_LIMITS = ByteLimits(total_bytes=512 * MIB, key_bytes=128 * MIB)
UPLOAD_LIMITS = ByteLimits(total_bytes=4096 * MIB, key_bytes=1024 * MIB)
# The client went away before its answer was whole; nobody is told this status, it is only counted.
CLIENT_LEFT = 499
# 0 means no limit, so the shortest wait that can be asked for is short.
SHORTEST_WAIT_S = 0.05
# A body that makes no sense, or is too large.
_OF_BODIES = frozenset({InvalidRequest.status, TooLarge.status})
# Calls whose clients know limits by Anthropic's names.
_ANTHROPICS = frozenset({"messages", "count_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What whoever asks does with the answer instead of passing it on as it is."""

    # A whole answer is given to this before anybody is told of it. What it raises the client gets to hear instead.
    read: Callable[[bytes], None] | None = None
    # A stream of events is no whole answer and is passed on; any other stream is gathered and given to `read`, too.
    expects_events: bool = False
    # With one of these nobody is told and nothing is counted: the same is asked again in other words.
    gives_up_on: frozenset[int] = frozenset()
    # This is that second time: the limits have let it in.
    is_again: bool = False


@dataclass(slots=True, kw_only=True)
class Wish:
    """A call to be answered, and a `ports.engines.EngineCall`. Nobody changes one. It is not frozen because the hot
    path makes it of a `records.blank`."""

    model: Served
    # What is asked: chat, completions, embeddings, …
    call: str
    # Where the engine has it.
    path: str
    body: bytes = field(repr=False)
    principal: Principal
    request_id: str
    content_type: str = JSON
    # More lines for the engine, already checked: names in lower case, no line breaks.
    headers: Headers = ()
    # The caller wants to wait for its model no longer than this.
    wait_s: float | None = None
    # How much the client has sent.
    received_bytes: int = 0
    # Set: the body comes in pieces (`Exchange.write`) and has this many bytes in all; `body` is its beginning.
    size_bytes: int | None = None
    # W3C trace context; goes to the engine, too.
    traceparent: str = ""
    # None: passed on as it comes.
    reading: Reading | None = None

    def engine_headers(self) -> Headers:
        """All lines for the engine: the request's id and its trace go with it."""
        own = (b"x-request-id", self.request_id.encode())
        if self.traceparent:
            return (own, (b"traceparent", self.traceparent.encode()), *self.headers)
        return (own, *self.headers) if self.headers else (own,)


class Client(Protocol):
    """Where an answer goes: `begin`, pieces, `end`; or `whole` or `fail` instead; or `cut` after `begin`."""

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        """The engine's status and what of its head concerns the client. `size_bytes` None: nobody knows yet."""
        ...

    def piece(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def whole(self, status: int, head: HeadLines, body: bytes) -> None:
        """All of an answer at once: `begin`, a piece and `end` in one."""
        ...

    def fail(self, error: CorralError) -> None:
        """Nothing has been passed on: say this instead, in the caller's envelope."""
        ...

    def cut(self, error: CorralError) -> None:
        """It broke in the middle: one error event in the caller's dialect if it is a stream, else the connection ends
        without the answer's end."""
        ...

    def wants_more(self, *, is_wanted: bool) -> None:
        """Only for bodies in pieces: whether `Exchange.write` may be called. Not before the first time that it may."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """In seconds; 0: none. How long it may take to be connected is the adapter's business."""

    # A long prompt is silent for minutes, and so is an answer that is no stream.
    first_byte_s: float = 600.0
    between_s: float = 300.0
    # A client that reads nothing of what lies ready keeps its replica busy for so long.
    client_s: float = 120.0


@dataclass(slots=True, kw_only=True)
class Gateway:
    """`wait_s` is how long a request may wait for its model; 0: as long as the load takes."""

    router: Router
    engines: Engines
    clock: Clock
    ids: Ids
    wait_s: float
    limiter: Limiter = field(default_factory=NoLimits)
    body_budget: ByteBudget = field(default_factory=lambda: ByteBudget(BODY_LIMITS, "of request bodies"))
    upload_budget: ByteBudget = field(default_factory=lambda: ByteBudget(UPLOAD_LIMITS, "of uploads"))
    listeners: list[Listener] = field(default_factory=list)
    # None: requests are not traced; what a client sends of a trace goes to the engine as it is.
    tracer: Tracer | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    # Whether answers name node, replica and time in the queue.
    has_response_headers: bool = True
    # Requests that are not warm: those that wait for a replica.
    tasks: Tasks = field(default_factory=lambda: Tasks("gateway"))
    open: set[Exchange] = field(default_factory=set)
    is_closing: bool = False
    # What else is looked at in a sweep; told the time, says how many were late.
    swept: list[Callable[[float], int]] = field(default_factory=list)
    intake: Intake = field(default_factory=Intake)
    # What has to be added to a moment of the monotonic clock to get seconds since the epoch.
    epoch_s: float = 0.0
    # Of exchanges that are at their end: what is told of them, and they themselves, who have the last word to say.
    _told: list[Answered] = field(default_factory=list)
    _ended: list[Exchange] = field(default_factory=list)
    _life: str = ""
    _requests: int = 0

    def __post_init__(self) -> None:
        self._set_epoch()
        self._life = self.ids.secret()[:12]
        self.intake.at_end.append(self.settle)

    async def tick(self) -> int:
        """One sweep; how many exchanges and connections were late."""
        self._set_epoch()
        now = self.clock.monotonic()
        return sum(exchange.sweep(now) for exchange in tuple(self.open)) + sum(sweep(now) for sweep in self.swept)

    def stop(self) -> int:
        """End what is still under way, with a word to each client; how many that were."""
        self.is_closing, left = True, tuple(self.open)
        for exchange in left:
            exchange.stop()
        return len(left)

    async def close(self) -> None:
        self.stop()
        await self.tasks.close()

    def allowed_wait_s(self, wish: Wish) -> float:
        """Less than what is set, never more."""
        if wish.wait_s is None:
            return self.wait_s
        asked_s = max(SHORTEST_WAIT_S, wish.wait_s)
        return min(asked_s, self.wait_s or asked_s)

    def new_request_id(self) -> str:
        """One that nobody else has: this life of this frontend, and a number."""
        self._requests += 1
        return f"{self._life}-{self._requests}"

    def tell(self, *records: Answered) -> None:
        for listener in self.listeners:
            listener.answered(*records)

    def end(self, exchange: Exchange, record: Answered) -> None:
        """Its answer is whole. All that end in one intake are told together, and then their clients get the rest."""
        self._ended.append(exchange)
        self._told.append(record)
        if not self.intake.is_running:
            self.settle()

    def settle(self) -> None:
        ended, told = self._ended, self._told
        if not ended:
            return
        self._ended, self._told = [], []
        try:
            self.tell(*told)
        finally:
            # Also if a listener has broken its promise not to raise: the clients can do nothing about it.
            _say_rest(ended)

    def turned_away(
        self, error: CorralError, *, call: str, request_id: str, principal: Principal | None = None, model: str = ""
    ) -> None:
        """A request ended before it became an exchange: no key, no model, a body that makes no sense."""
        self.tell(
            Answered(
                request_id=request_id,
                key_id=principal.key_id if principal else "",
                model=model,
                call=call,
                status=error.status,
                origin=blamed(error),
                error_code=error.slug,
                began_at=self.clock.monotonic() + self.epoch_s,
                queue_s=0.0,
                first_byte_s=None,
                total_s=0.0,
                attempts=0,
            )
        )

    def charge_refused(self, error: CorralError, principal: Principal | None) -> CorralError:
        """Count a request that was refused for its body against the limits of its key. Return what its client is told:
        `error`, or that a limit is reached."""
        if principal is None or not principal.limits or error.status not in _OF_BODIES:
            return error
        try:
            self.limiter.charge(principal)
        except LimitReached as reached:
            return reached
        return error

    def left_lines(self, wish: Wish) -> HeadLines:
        """The lines that say what is left to a key that has limits, as the clients of its dialect know them."""
        allowance = self.limiter.allowance(wish.principal, wish.model.name)
        if wish.call in _ANTHROPICS:
            return tuple(anthropic_lines(allowance, self.clock.wall()))
        return tuple(openai_lines(allowance))

    def _set_epoch(self) -> None:
        self.epoch_s = self.clock.wall().timestamp() - self.clock.monotonic()


def _say_rest(ended: Iterable[Exchange]) -> None:
    left = iter(ended)
    try:
        for exchange in left:
            exchange.say_rest()
    except BaseException:
        # One whose client cannot be told takes no answer from the others.
        _say_rest(left)
        raise


def blamed(error: CorralError) -> Origin:
    """Who is to blame for an error of ours."""
    if error.slug.startswith("engine_"):
        return Origin.ENGINE
    return Origin.CLIENT if error.status < 500 else Origin.GATEWAY


_NOBODYS = (Origin.NOBODY, "")


def blamed_by_status(status: int) -> tuple[Origin, str]:
    """Whose fault an engine's answer is, and how it is called. An engine that says 4xx speaks of what it was asked."""
    if status < 400:
        return _NOBODYS
    return (Origin.CLIENT, "") if status < 500 else (Origin.ENGINE, "engine_error")


def as_error(error: Exception) -> CorralError:
    """What to say of whatever went wrong."""
    if isinstance(error, CorralError):
        return error
    log.error("request failed", exc_info=error)
    return CorralError("Corral made a mistake; the log of this frontend says more.")
