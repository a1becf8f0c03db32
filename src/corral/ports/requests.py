"""Ports that one request to a model needs: an engine, limits, a load, listeners, a trace.

The request body goes into the engine unchanged and the response comes back unchanged: bytes are neither read nor
changed here. Errors differ by their time: before the engine can have received anything, before its first byte, or in
the middle of its response. Calls are made of plain callbacks, because a coroutine for every piece of every stream is
what makes proxies slow. Limits, listeners and tracers run at once and in memory.

A W3C trace context (`traceparent`) is read, continued or begun; which traces are kept is decided by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from corral.domain.access import KeyAllowance, Principal
from corral.domain.errors import CorralError
from corral.domain.operation import OperationId
from corral.domain.usage import RequestRecord

Headers = Sequence[tuple[bytes, bytes]]
# The headers of a response. Hashable, because most responses of an engine have the same and are cached by them.
HeadLines = tuple[tuple[bytes, bytes], ...]


class EngineEndpoint(Protocol):
    """Interface of something with the address and key of one engine. A `Replica` is one."""

    @property
    def address(self) -> str:
        """Return host and port."""
        ...

    @property
    def engine_key(self) -> str:
        """Return the key that the engine expects; empty if it checks none."""
        ...


class EngineRequest(Protocol):
    """Interface of one inference request as it is sent to an engine: path, body and headers."""

    @property
    def path(self) -> str: ...

    @property
    def body(self) -> bytes: ...

    @property
    def content_type(self) -> str: ...

    @property
    def size_bytes(self) -> int | None:
        """Return the size of a body that comes in pieces (`EngineCallHandle.write`); `body` then holds its beginning.
        None: `body` is whole."""
        ...

    def build_engine_headers(self) -> Headers:
        """Return more headers, already checked: names in lower case, no line breaks."""
        ...


class EngineRefused(CorralError):
    """No engine listens at the replica's address."""

    code: ClassVar[str] = "engine_refused"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


class EngineLost(CorralError):
    """The engine did not respond, or its response broke off."""

    code: ClassVar[str] = "engine_lost"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


class ResponseHandler(Protocol):
    """Interface that receives an engine's response to one inference request by callbacks.

    `on_head`, any number of `on_body`, `on_end`; or `on_whole` instead of all of them; or `on_lost` at any point, and
    then nothing more. Never called from inside `send`.
    """

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        """Receive the response head. Names are in lower case, without hop-by-hop headers and the length; `size_bytes`
        None: the length is unknown. Interim responses (1xx) are skipped."""
        ...

    def on_body(self, piece: bytes) -> None: ...

    def on_end(self) -> None:
        """Receive the end of a complete response."""
        ...

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        """Receive a whole response that came in one read."""
        ...

    def on_lost(self, error: EngineRefused | EngineLost) -> None: ...

    def on_writable(self, is_writable: bool) -> None:  # noqa: FBT001 - the signature of a callback
        """Learn whether the engine takes more of a body in pieces now."""
        ...


class EngineCallHandle(Protocol):
    """Interface that controls one running request to an engine: pauses it, sends more of its body, aborts it."""

    def pause(self) -> None:
        """Stop reading the response for now, because the client is slow."""
        ...

    def resume(self) -> None: ...

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        """Send the next piece of a body that comes in pieces."""
        ...

    def abort(self) -> None:
        """Abort the call: the engine sees the connection close, and the handler receives no more callbacks. No-op after
        the end."""
        ...


class EngineClient(Protocol):
    """Interface that sends inference requests to engines and passes their responses to handlers."""

    def send(self, endpoint: EngineEndpoint, request: EngineRequest, handler: ResponseHandler) -> EngineCallHandle:
        """Start a call and return at once. A kept connection that its engine closed meanwhile is replaced by a new one,
        as long as no response has begun and the whole body is in `request`."""
        ...


class Limiter(Protocol):
    """Interface that decides in memory, by the limits of its API key, whether an inference request is admitted."""

    def admit(self, principal: Principal, model: str) -> None:
        """Count one request of this key for this model. Raises `LimitReached` (429) with the time to wait if a limit is
        exceeded; then the request is not counted."""
        ...

    def check_requests(self, principal: Principal) -> None:
        """Raise `LimitReached` (429) if a limit on the requests of this key is used up. Nothing is counted."""
        ...

    def charge(self, principal: Principal) -> None:
        """Count one request whose body was refused, so that its model is unknown, against every limit on the requests
        of this key. Raises `LimitReached` (429) if one of them is used up; then the request is not counted."""
        ...

    def compute_allowance(self, principal: Principal, model: str) -> KeyAllowance:
        """Return what is left of the key's limits. Called only for a key that has limits."""
        ...


class RequestListener(Protocol):
    """Interface that gets the record of every ended inference request, such as the access log.

    Exactly once and before the response's last byte is sent.
    """

    def on_requests_ended(self, *records: RequestRecord) -> None:
        """Receive the records of these requests, each exactly once and before its last byte is sent. Must not raise."""
        ...


class NoLimits:
    """Implements `Limiter` so that every inference request is admitted."""

    def admit(self, principal: Principal, model: str) -> None:
        del principal, model

    def check_requests(self, principal: Principal) -> None:
        del principal

    def charge(self, principal: Principal) -> None:
        del principal

    def compute_allowance(self, principal: Principal, model: str) -> KeyAllowance:
        del principal, model
        return KeyAllowance()


class LoadRequester(Protocol):
    """Interface that requests the load of a model for a waiting inference request, and names the operation."""

    async def request_load(self, model: str) -> OperationId:
        """Return the operation that will load the model: the one that is under way, else a new one.

        Calling this is free to repeat, on any number of frontends. A load that failed a moment ago is not started
        again: its id is returned once more, so that the caller reads the recorded cause. Raises `CorralError` if the
        model cannot be loaded at all."""
        ...


class Tracer(Protocol):
    """Interface that assigns an OpenTelemetry trace to an inference request before its engine is called."""

    def begin(self, sent: str) -> str:
        """Return the `traceparent` for the engine and for the record: continued from the client's header `sent`, which
        may be any text, or begun here. Empty: neither. Runs at once and in memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """One span of an OpenTelemetry trace: a stretch of time that a request or a model's load spent somewhere.

    Ids are hexadecimal, times nanoseconds since the epoch.
    """

    name: str
    trace_id: str
    span_id: str
    # Empty for the root span of a trace.
    parent_id: str = ""
    begin_ns: int
    end_ns: int
    # A client's request, a call to an engine, or an internal step.
    is_server: bool = False
    is_client: bool = False
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    # Points in time within the span.
    events: tuple[tuple[str, int], ...] = ()
    # The error code; empty without an error.
    error: str = ""


class SpanExporter(Protocol):
    """Interface that sends finished spans to an OpenTelemetry collector."""

    async def send(self, spans: Sequence[TraceSpan]) -> None:
        """Send the spans to the collector. Raises `Unavailable` if they could not be delivered."""
        ...

    async def close(self) -> None: ...


_HEADER = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_SAMPLED = 1
# Whether a new trace is kept depends on this many of its last bits, so that every process decides alike.
_RATIO_BITS = 56


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """Holds a W3C trace context: which trace, which span, and whether it is recorded."""

    trace_id: str
    span_id: str
    is_sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-0{int(self.is_sampled)}"


def parse_traceparent(header: str) -> TraceContext | None:
    """Parse a header; None if it is not a trace context. Later versions may have more parts, which are ignored."""
    found = _HEADER.fullmatch(header.strip())
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
        return None
    if not int(found["trace"], 16) or not int(found["span"], 16):
        return None
    is_sampled = bool(int(found["flags"], 16) & _SAMPLED)
    return TraceContext(trace_id=found["trace"], span_id=found["span"], is_sampled=is_sampled)


def sanitise_traceparent(header: str) -> str:
    """Return a client's header if it is safe to send on, else an empty string."""
    found = _HEADER.fullmatch(header)
    return header if found is not None and found["more"] is None else ""


def is_kept(trace_id: str, share: float) -> bool:
    """Return whether a trace that begins here is among the share that is kept."""
    return int(trace_id, 16) % (1 << _RATIO_BITS) < share * (1 << _RATIO_BITS)
