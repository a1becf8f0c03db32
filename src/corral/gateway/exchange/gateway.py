"""Holds what all exchanges share (router, engines, limits, listeners, clock), and sweeps over the open ones.

A warm request makes no task, no timer and no SQL statement. Exchanges that wait too long are found once a second by one
pass over the open ones, so a timeout is kept to the second and costs nothing while nothing is late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import structlog

from corral.domain.access import Principal
from corral.domain.errors import CorralError, InvalidRequest, LimitReached, TooLarge
from corral.domain.usage import ErrorOrigin, RequestRecord
from corral.gateway.routing.router import Router
from corral.policy.serving.rate_limit_headers import render_anthropic_headers, render_openai_headers
from corral.policy.serving.response_rewriter import PromptEcho
from corral.ports.requests import EngineClient, Headers, HeadLines, Limiter, NoLimits, RequestListener, Tracer
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.byte_budget import MIB, ByteBudget, ByteLimits
from corral.runtime.compute_process import ComputeProcess
from corral.runtime.read_batcher import ReadBatcher
from corral.runtime.tasks import TaskSet
from corral.store.replica_use import ServedModel

if TYPE_CHECKING:
    from corral.gateway.exchange.engine_caller import EngineCaller
    from corral.gateway.exchange.exchange import Exchange

log = structlog.get_logger(__name__)

JSON = "application/json"
STOPPING = "This frontend is stopping."
SWEEP_INTERVAL_S = 1.0
# How many bytes of requests a frontend keeps: bodies in memory, and forms with recordings on the disk.
BODY_LIMITS = ByteLimits(total_bytes=512 * MIB, key_bytes=128 * MIB)
UPLOAD_LIMITS = ByteLimits(total_bytes=4096 * MIB, key_bytes=1024 * MIB)
# The client disconnected before its response was complete. This status is never sent, only counted.
CLIENT_LEFT = 499
# 0 means no limit, so the shortest wait that a request can ask for is not 0.
SHORTEST_WAIT_S = 0.05
# The statuses for a body that is invalid or too large.
_BODY_FAULT_STATUSES = frozenset({InvalidRequest.status, TooLarge.status})
# Calls whose clients expect the rate limit headers of Anthropic.
_ANTHROPIC_CALLS = frozenset({"messages", "count_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseReadOptions:
    """Says how the gateway reads or completes an engine's response instead of relaying it as it comes."""

    # Called with a whole response before it is recorded. The client gets the error that it raises instead.
    read: Callable[[bytes], None] | None = None
    # The same for a response that is too large to be read on the event loop. None: `read` gets every response.
    read_large: Callable[[bytes], Awaitable[None]] | None = None
    # A stream of events is relayed; any other stream is buffered and given to `read`, too.
    expects_events: bool = False
    # A response with one of these is neither relayed nor counted: the caller sends the request again in another form.
    fallback_statuses: frozenset[int] = frozenset()
    # This is the second form of a request that the limits have already admitted.
    is_admitted: bool = False
    # The prompts that the response is to repeat, where the engine does not.
    echo: PromptEcho | None = None


@dataclass(slots=True, kw_only=True)
class InferenceRequest:
    """One inference request as its engine is to get it: the model, the call, the body and who sent it.

    Implements `ports.requests.EngineRequest`. Treat it as immutable; it is not frozen because the hot path makes it
    with `new_uninitialised`.
    """

    model: ServedModel
    # The kind of call: chat, completions, embeddings, …
    call: str
    # The path of the call at the engine.
    path: str
    body: bytes = field(repr=False)
    principal: Principal
    request_id: str
    content_type: str = JSON
    # More headers for the engine, already checked: names in lower case, no line breaks.
    headers: Headers = ()
    # The caller waits for its model no longer than this.
    wait_s: float | None = None
    # How many bytes the client has sent.
    received_bytes: int = 0
    # Set: the body comes in pieces (`Exchange.write`) and has this many bytes in all; `body` is its beginning.
    size_bytes: int | None = None
    # The W3C trace context, which is also sent to the engine.
    traceparent: str = ""
    # None: the response is relayed as it comes.
    read_options: ResponseReadOptions | None = None

    def build_engine_headers(self) -> Headers:
        """Return all headers for the engine, including the request id and the trace context."""
        own = (b"x-request-id", self.request_id.encode())
        if self.traceparent:
            return (own, (b"traceparent", self.traceparent.encode()), *self.headers)
        return (own, *self.headers) if self.headers else (own,)


class ResponseSink(Protocol):
    """Interface that receives one inference response on its way to a client.

    `begin`, pieces and `end`; or `send_whole` or `fail` instead; or `cut` after `begin`.
    """

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        """Begin the response with the engine's status and the headers that concern the client. `size_bytes` is None if
        the length is unknown."""
        ...

    def send_piece(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def send_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        """Send a whole response at once: `begin`, a piece and `end` in one."""
        ...

    def fail(self, error: CorralError) -> None:
        """Send this error in the caller's envelope. Nothing of a response has been sent before."""
        ...

    def cut(self, error: CorralError) -> None:
        """End a response that broke in the middle: send one error event in the caller's dialect if it is a stream, else
        close the connection without the end of the response."""
        ...

    def on_writable(self, *, is_writable: bool) -> None:
        """Say whether `Exchange.write` may be called, for a body in pieces. It may not before the first call with
        True."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeTimeouts:
    """Timeouts in seconds of relaying one inference request; 0: no limit.

    They are for the first byte, between two bytes and for a client that does not read.
    """

    # An engine may be silent for minutes with a long prompt, or with a response that is no stream.
    first_byte_s: float = 600.0
    between_bytes_s: float = 300.0
    # A client that does not read its response keeps its replica busy for at most this long.
    client_stall_s: float = 120.0


@dataclass(slots=True, kw_only=True)
class Gateway:
    """Relays all inference requests of a frontend to engines, and ends the late ones once a second.

    Holds what all exchanges share (router, engines, limits, listeners, clock). `wait_s` is how long a request may wait
    for its model; 0: as long as the load takes.
    """

    router: Router
    engines: EngineClient
    clock: Clock
    ids: IdGenerator
    wait_s: float
    limiter: Limiter = field(default_factory=NoLimits)
    body_budget: ByteBudget = field(default_factory=lambda: ByteBudget(BODY_LIMITS, "of request bodies"))
    upload_budget: ByteBudget = field(default_factory=lambda: ByteBudget(UPLOAD_LIMITS, "of uploads"))
    listeners: list[RequestListener] = field(default_factory=list)
    # None: requests are not traced, and a client's trace context goes to the engine unchanged.
    tracer: Tracer | None = None
    timeouts: ExchangeTimeouts = field(default_factory=ExchangeTimeouts)
    # Whether response headers name the node, the replica and the time in the queue.
    has_response_headers: bool = True
    # The tasks of requests that wait for a replica.
    tasks: TaskSet = field(default_factory=lambda: TaskSet("gateway"))
    open_exchanges: set[EngineCaller] = field(default_factory=set)
    is_closing: bool = False
    # More callbacks of a sweep; each gets the time and returns how many of its items were late.
    sweepers: list[Callable[[float], int]] = field(default_factory=list)
    # More callbacks of a stop; each ends open responses of its own and returns how many there were.
    stoppers: list[Callable[[], int]] = field(default_factory=list)
    read_batcher: ReadBatcher = field(default_factory=ReadBatcher)
    # Rewrites responses that are too large for the event loop.
    compute: ComputeProcess = field(default_factory=ComputeProcess)
    # The offset from the monotonic clock to seconds since the epoch.
    epoch_s: float = 0.0
    # Exchanges that have ended but not flushed their responses: their records, and the exchanges themselves.
    _finished_records: list[RequestRecord] = field(default_factory=list)
    _finished_exchanges: list[Exchange] = field(default_factory=list)
    _boot_id: str = ""
    _request_count: int = 0

    def __post_init__(self) -> None:
        self._set_epoch()
        self._boot_id = self.ids.new_secret()[:12]
        self.read_batcher.batch_callbacks.append(self.flush_finished)

    async def tick(self) -> int:
        """Sweep once over the open exchanges and connections, and return how many were late."""
        self._set_epoch()
        now = self.clock.monotonic()
        return sum(exchange.fail_if_late(now) for exchange in tuple(self.open_exchanges)) + sum(
            sweep(now) for sweep in self.sweepers
        )

    def stop(self) -> int:
        """End all open responses with an error to each client, and return how many there were."""
        self.is_closing, left = True, tuple(self.open_exchanges)
        for exchange in left:
            exchange.stop()
        return len(left) + sum(stop() for stop in self.stoppers)

    async def close(self) -> None:
        self.stop()
        await self.tasks.close()

    def compute_wait_s(self, request: InferenceRequest) -> float:
        """Return how long the request may wait for its model: less than the setting if the request says so, never
        more."""
        if request.wait_s is None:
            return self.wait_s
        requested_s = max(SHORTEST_WAIT_S, request.wait_s)
        return min(requested_s, self.wait_s or requested_s)

    def new_request_id(self) -> str:
        """Return a unique request id: the id of this start of this frontend, and a number."""
        self._request_count += 1
        return f"{self._boot_id}-{self._request_count}"

    def emit_records(self, *records: RequestRecord) -> None:
        for listener in self.listeners:
            listener.on_requests_ended(*records)

    def finish_exchange(self, exchange: Exchange, record: RequestRecord) -> None:
        """Queue the record of an exchange whose response is complete. All exchanges that end in one batch of reads are
        recorded together, and then their responses are flushed."""
        self._finished_exchanges.append(exchange)
        self._finished_records.append(record)
        if not self.read_batcher.is_running:
            self.flush_finished()

    def flush_finished(self) -> None:
        ended, records = self._finished_exchanges, self._finished_records
        if not ended:
            return
        self._finished_exchanges, self._finished_records = [], []
        try:
            self.emit_records(*records)
        finally:
            # Flush even if a listener raised in spite of its contract: the clients are not to blame.
            _flush_responses(ended)

    def record_rejection(
        self, error: CorralError, *, call: str, request_id: str, principal: Principal | None = None
    ) -> None:
        """Record a request that ended before it became an exchange: no key, no model, or an invalid body."""
        self.emit_records(
            RequestRecord(
                request_id=request_id,
                key_id=principal.key_id if principal else "",
                model="",
                call=call,
                status=error.status,
                origin=find_error_origin(error),
                error_code=error.slug,
                began_at=self.clock.monotonic() + self.epoch_s,
                queue_s=0.0,
                first_byte_s=None,
                total_s=0.0,
                attempts=0,
            )
        )

    def charge_refused(self, error: CorralError, principal: Principal | None) -> CorralError:
        """Count a request that was refused for its body against the limits of its key. Return the error for its client:
        `error`, or that a limit is reached."""
        if principal is None or not principal.limits or error.status not in _BODY_FAULT_STATUSES:
            return error
        try:
            self.limiter.charge(principal)
        except LimitReached as reached:
            return reached
        return error

    def render_limit_headers(self, request: InferenceRequest) -> HeadLines:
        """Render the headers that say what is left to a key with limits, under the names that its dialect uses."""
        allowance = self.limiter.compute_allowance(request.principal, request.model.name)
        if request.call in _ANTHROPIC_CALLS:
            return tuple(render_anthropic_headers(allowance, self.clock.wall()))
        return tuple(render_openai_headers(allowance))

    def _set_epoch(self) -> None:
        self.epoch_s = self.clock.wall().timestamp() - self.clock.monotonic()


def _flush_responses(exchanges: Iterable[Exchange]) -> None:
    left = iter(exchanges)
    try:
        for exchange in left:
            exchange.flush_response()
    except BaseException:
        # A failure to flush one response must not keep the others from their clients.
        _flush_responses(left)
        raise


def find_error_origin(error: CorralError) -> ErrorOrigin:
    """Return who caused one of our own errors: the client, the engine or the gateway."""
    if error.slug.startswith("engine_"):
        return ErrorOrigin.ENGINE
    return ErrorOrigin.CLIENT if error.status < 500 else ErrorOrigin.GATEWAY


def to_corral_error(error: Exception) -> CorralError:
    """Convert any exception to a `CorralError` that can be sent to the client."""
    if isinstance(error, CorralError):
        return error
    log.error("request failed", exc_info=error)
    return CorralError("Internal error in Corral. See the log of this frontend.")
