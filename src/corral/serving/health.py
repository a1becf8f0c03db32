"""What does not work now, as one frontend has seen it, in sentences for people.

Memory alone: it can be asked while everything else is away. `app/core.py` tells it what the loops see, about once a
second; other parts add sentences of their own with `add`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from corral.domain.errors import StoreUnavailable
from corral.ports.runtime import Clock

# The feed looks every second. So late it is only when something hinders it.
BEHIND_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    since: datetime
    cause: str = ""


class Health:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sources: list[Callable[[], str | None]] = []
        self._read_monotonic: float | None = None
        self._held_up_s = 0.0
        self.store: Outage | None = None
        self.bus: Outage | None = None
        # Set from a start without PostgreSQL until that start is complete: what is served is what was kept on disk.
        self.kept_as_of: datetime | None = None
        # Told to stop: what is under way may end, and nobody should send more.
        self.is_stopping = False

    def add(self, source: Callable[[], str | None]) -> None:
        """Somebody who can say what does not work; None: all is well."""
        self._sources.append(source)

    def store_answered(self, *, held_up_s: float = 0.0) -> None:
        """The registry's changes were read. `held_up_s`: how old the oldest change is that may not be read yet."""
        self.store = None
        self._held_up_s = held_up_s
        self._read_monotonic = self._clock.monotonic()

    def store_is_away(self, error: StoreUnavailable) -> None:
        cause = str(error.details.get("cause", ""))
        self.store = Outage(since=self.store.since if self.store else self._clock.wall(), cause=cause)

    def saw_bus(self, *, is_connected: bool) -> bool:
        """Note whether this frontend is on the bus. Return True if that has changed."""
        had_bus = self.bus is None
        if is_connected:
            self.bus = None
        elif self.bus is None:
            self.bus = Outage(since=self._clock.wall())
        return had_bus is not is_connected

    def sentences(self, *, has_leader: bool = True) -> list[str]:
        """Empty when all is well."""
        found = [self._about_store(), self._about_bus(), None if has_leader or self.store else _NO_LEADER]
        found += [source() for source in self._sources]
        return [sentence for sentence in found if sentence]

    def _about_store(self) -> str | None:
        if self.kept_as_of is not None:
            as_of = moment(self.kept_as_of)
            return f"PostgreSQL cannot be reached; serving from memory as of {as_of}, and nothing can be changed."
        if self.store is not None:
            since = moment(self.store.since)
            return f"PostgreSQL is away since {since}: what is known is served, nothing can be changed."
        late_s = 0.0 if self._read_monotonic is None else self._clock.monotonic() - self._read_monotonic
        if late_s > BEHIND_S:
            return f"Changes of the registry were last read {late_s:.0f} s ago: what is served may be out of date."
        if self._held_up_s > BEHIND_S:
            cause = "A transaction that is open on the PostgreSQL server has held up changes"
            return f"{cause} for {self._held_up_s:.0f} s: what is served may be out of date, credentials are not."
        return None

    def _about_bus(self) -> str | None:
        if self.bus is None:
            return None
        return f"NATS is away since {moment(self.bus.since)}: nodes get no commands; what is loaded is served."


_NO_LEADER = "No frontend leads: lost nodes are not noticed and nothing is scaled until one does."


def moment(at: datetime) -> str:
    """As people read it in a sentence."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
