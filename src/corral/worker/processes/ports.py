"""Which port is whose. Pure: the time is passed in, and so is the look at what other programs hold.

Guarantee: a port has one owner at a time. A released port rests for 15 s, so that a late request for the old process
does not reach another; then for five minutes it goes to its last owner only, unless the range is full; then to anyone.
What is remembered is one entry a port at most, however many processes come and go.

Asked for a port, in this order: the owner's last one, a free one that nobody owns, the next that was never used, one
taken away from an absent owner (with a warning), and then an error that says how things stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from corral.worker.processes.errors import NoFreePort

PORT_MAX = 65_535
BASE_DEFAULT = 50_100
QUARANTINE_S = 15.0
AFFINITY_S = 300.0


class Choice(StrEnum):
    OWN = "own"
    FREE = "free"
    NEW = "new"
    STOLEN = "stolen"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRange:
    base: int
    last: int

    def __str__(self) -> str:
        return f"{self.base}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotted:
    port: int
    how: Choice
    # Whose it was, if it was taken away.
    loser: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Released:
    owner: str
    at_s: float


def read_range(base: int, maximum: int | None) -> tuple[PortRange, str]:
    """The range to use, and a warning if the wish was not taken as it was: a bad maximum blocks nothing."""
    if not 1 <= base <= PORT_MAX:
        return _with_default_base(base)
    if maximum is None:
        return PortRange(base=base, last=PORT_MAX), ""
    if maximum > PORT_MAX:
        return PortRange(
            base=base, last=PORT_MAX
        ), f"The highest engine port {maximum} does not exist: {PORT_MAX} it is."
    if maximum < base:
        warning = f"The highest engine port {maximum} is below the lowest, {base}, and is ignored."
        return PortRange(base=base, last=PORT_MAX), warning
    return PortRange(base=base, last=maximum), ""


def _with_default_base(base: int) -> tuple[PortRange, str]:
    warning = f"The lowest engine port {base} does not exist: {BASE_DEFAULT} it is."
    return PortRange(base=BASE_DEFAULT, last=PORT_MAX), warning


@dataclass(slots=True, kw_only=True)
class PortPool:
    range: PortRange
    # Whether a port could be bound now; other programs hold ports too.
    is_bindable: Callable[[int], bool] = lambda _port: True
    _running: dict[int, str] = field(default_factory=dict)
    _released: dict[int, _Released] = field(default_factory=dict)
    # The lowest port that was never handed out.
    _next: int = 0

    def __post_init__(self) -> None:
        self._next = self.range.base

    def running(self) -> int:
        return len(self._running)

    def quarantined(self, now_s: float) -> int:
        return sum(1 for released in self._released.values() if self._rests(released, now_s))

    def remembered(self) -> int:
        """How many ports anything is known of."""
        return len(self._running) + len(self._released)

    def owner_of(self, port: int) -> str | None:
        return self._running.get(port)

    def hold(self, owner: str, port: int) -> None:
        """`owner` has this port already: it was started by an earlier worker."""
        self._released.pop(port, None)
        self._running[port] = owner

    def allot(self, owner: str, now_s: float) -> Allotted:
        self._sweep(now_s)
        for candidate in self._candidates(owner, now_s):
            if candidate.port not in self._running and self.is_bindable(candidate.port):
                self._released.pop(candidate.port, None)
                self._running[candidate.port] = owner
                return candidate
        raise NoFreePort(
            f"No port is free in {self.range}: {self.running()} running, {self.quarantined(now_s)} quarantined.",
            hint="Widen the range of engine ports, or stop what is not needed.",
            details={"running": self.running(), "quarantined": self.quarantined(now_s)},
        )

    def release(self, owner: str, port: int, now_s: float) -> None:
        """Only its owner gives a port back, and once."""
        if self._running.get(port) != owner:
            return
        del self._running[port]
        # One last port an owner: an engine that crashes for ever must not own a port for each crash.
        for other, released in tuple(self._released.items()):
            if released.owner == owner:
                self._released[other] = _Released(owner="", at_s=released.at_s)
        self._released[port] = _Released(owner=owner, at_s=now_s)

    def _candidates(self, owner: str, now_s: float) -> Iterator[Allotted]:
        rested = {port: known for port, known in self._released.items() if not self._rests(known, now_s)}
        yield from (Allotted(port=p, how=Choice.OWN) for p, known in rested.items() if known.owner == owner)
        yield from (
            Allotted(port=p, how=Choice.FREE) for p, known in sorted(rested.items(), key=_port) if not known.owner
        )
        yield from self._unused()
        oldest_first = sorted(rested.items(), key=lambda item: item[1].at_s)
        yield from (
            Allotted(port=port, how=Choice.STOLEN, loser=known.owner)
            for port, known in oldest_first
            if known.owner and known.owner != owner
        )

    def _unused(self) -> Iterator[Allotted]:
        """Ports below `_next` that nothing is known of were swept: they are as free as those never used."""
        for port in range(self.range.base, self._next):
            if port not in self._released:
                yield Allotted(port=port, how=Choice.FREE)
        while self._next <= self.range.last:
            self._next += 1
            if self._next - 1 not in self._released:
                yield Allotted(port=self._next - 1, how=Choice.NEW)

    def _sweep(self, now_s: float) -> None:
        self._released = {port: known for port, known in self._released.items() if now_s - known.at_s < AFFINITY_S}

    def _rests(self, released: _Released, now_s: float) -> bool:
        return now_s - released.at_s < QUARANTINE_S


def _port(item: tuple[int, _Released]) -> int:
    return item[0]
