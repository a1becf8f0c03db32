"""Where traces begin: a request gets its place in one before its engine is called."""

from __future__ import annotations

from typing import Protocol


class Tracer(Protocol):
    def begin(self, sent: str) -> str:
        """The `traceparent` for the engine and for the record: continued from what the client sent, or begun here.
        Empty: neither. At once, in memory; what the client sent may be anything."""
        ...
