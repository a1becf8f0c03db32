"""Reads, continues and begins W3C trace contexts (`traceparent`). Which traces are kept is decided by their ids."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_SAMPLED = 1
# Whether a new trace is kept depends on this many of its last bits, so that every process decides alike.
_RATIO_BITS = 56


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """Holds a W3C trace context: which trace, which span, and whether anybody keeps it."""

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
