"""Collects what does not work now, as one frontend has seen it, in sentences for people.

Kept in memory alone, so that it answers while everything else is down. `app/core.py` reports what the loops see about
once a second; other parts add sentences of their own with `add_source`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from corral.domain.errors import StoreUnavailable
from corral.ports.runtime import Clock

# The feed reads every second. It is this late only when something blocks it.
BEHIND_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Says since when this frontend cannot reach PostgreSQL or NATS, and why."""

    since: datetime
    cause: str = ""


class Health:
    """Collects what does not work in this frontend now, as sentences for people.

    Memory alone, so it answers while everything else is down.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sources: list[Callable[[], str | None]] = []
        self._store_read_at: float | None = None
        self._held_up_s = 0.0
        self.store: Outage | None = None
        self.bus: Outage | None = None
        # Set while a frontend that started without PostgreSQL serves from the state that was saved on disk.
        self.saved_as_of: datetime | None = None
        # This frontend is stopping: open requests may end, and load balancers should send no more.
        self.is_stopping = False

    def add_source(self, source: Callable[[], str | None]) -> None:
        """Add a callback that returns a sentence about what does not work, or None if all is well."""
        self._sources.append(source)

    def record_store_read(self, *, held_up_s: float = 0.0) -> None:
        """Note that the registry's changes were read. `held_up_s`: the age of the oldest change that cannot be read
        yet."""
        self.store = None
        self._held_up_s = held_up_s
        self._store_read_at = self._clock.monotonic()

    def record_store_outage(self, error: StoreUnavailable) -> None:
        cause = str(error.details.get("cause", ""))
        self.store = Outage(since=self.store.since if self.store else self._clock.wall(), cause=cause)

    def record_bus(self, *, is_connected: bool) -> bool:
        """Note whether this frontend is on the bus. Return True if that has changed."""
        had_bus = self.bus is None
        if is_connected:
            self.bus = None
        elif self.bus is None:
            self.bus = Outage(since=self._clock.wall())
        return had_bus is not is_connected

    def list_sentences(self, *, has_leader: bool = True) -> list[str]:
        """Return a sentence for each thing that does not work; empty when all is well."""
        found = [self._describe_store(), self._describe_bus(), None if has_leader or self.store else _NO_LEADER]
        found += [source() for source in self._sources]
        return [sentence for sentence in found if sentence]

    def _describe_store(self) -> str | None:
        if self.saved_as_of is not None:
            as_of = format_time(self.saved_as_of)
            return f"PostgreSQL cannot be reached; serving from memory as of {as_of}, and nothing can be changed."
        if self.store is not None:
            since = format_time(self.store.since)
            return f"PostgreSQL is away since {since}: what is known is served, nothing can be changed."
        late_s = 0.0 if self._store_read_at is None else self._clock.monotonic() - self._store_read_at
        if late_s > BEHIND_S:
            return f"Changes of the registry were last read {late_s:.0f} s ago: what is served may be out of date."
        if self._held_up_s > BEHIND_S:
            cause = "A transaction that is open on the PostgreSQL server has held up changes"
            return f"{cause} for {self._held_up_s:.0f} s: what is served may be out of date, credentials are not."
        return None

    def _describe_bus(self) -> str | None:
        if self.bus is None:
            return None
        return f"NATS is away since {format_time(self.bus.since)}: nodes get no commands; what is loaded is served."


_NO_LEADER = "No frontend leads: lost nodes are not noticed and nothing is scaled until one does."


def format_time(at: datetime) -> str:
    """Format a time for a sentence that people read."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
