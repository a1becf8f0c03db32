"""Traces: a request gets its place in one before its engine is called, and its spans are sent after its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Tracer(Protocol):
    def begin(self, sent: str) -> str:
        """The `traceparent` for the engine and for the record: continued from what the client sent, or begun here.
        Empty: neither. At once, in memory; what the client sent may be anything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time that a request has spent somewhere. Ids are hexadecimal, times nanoseconds since the epoch."""

    name: str
    trace_id: str
    span_id: str
    # Empty: it is the first of its trace.
    parent_id: str = ""
    begin_ns: int
    end_ns: int
    # A request of a client's, a call to an engine, or something inside.
    is_server: bool = False
    is_client: bool = False
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    # Moments within it.
    events: tuple[tuple[str, int], ...] = ()
    # The slug of what went wrong; empty: nothing.
    error: str = ""


class Spans(Protocol):
    async def send(self, spans: Sequence[Span]) -> None:
        """To whoever keeps them. `Unavailable` if they could not be delivered."""
        ...

    async def close(self) -> None: ...
