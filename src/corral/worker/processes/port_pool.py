"""Allots ports and processor threads to engines. Pure: the time is passed in, and so is the check for other programs.

Guarantee: a port has one owner at a time. A released port pauses for 15 s, so that a late request for the previous
process does not reach another; then for five minutes it goes to its last owner only, unless the range is full; then to
any engine. One entry a port is remembered at most, however many processes come and go.

A port is chosen in this order: the owner's last one, a free one without an owner, the next that was never used, one
taken from an absent owner (with a warning); otherwise an error says how many ports are in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from corral.worker.processes.process_control import NoFreePort

PORT_MAX = 65_535
BASE_DEFAULT = 50_100
QUARANTINE_S = 15.0
AFFINITY_S = 300.0


class PortChoice(StrEnum):
    """How a worker chose an engine's port: the owner's last one, a free one, a new one, or an absent owner's."""

    OWN = "own"
    FREE = "free"
    NEW = "new"
    STOLEN = "stolen"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRange:
    """The lowest and highest TCP port that a worker gives to engine processes."""

    base: int
    last: int

    def __str__(self) -> str:
        return f"{self.base}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAllotment:
    """A TCP port that was given to an engine, how it was chosen, and who owned it if it was taken away."""

    port: int
    choice: PortChoice
    # The previous owner, if the port was taken away.
    previous_owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReleasedPort:
    """Records which engine released a port and when."""

    owner: str
    at_s: float


def parse_range(base: int, maximum: int | None) -> tuple[PortRange, str]:
    """Return the range to use, and a warning if a bound is invalid and was replaced: a bad maximum blocks nothing."""
    if not 1 <= base <= PORT_MAX:
        return _with_default_base(base)
    if maximum is None:
        return PortRange(base=base, last=PORT_MAX), ""
    if maximum > PORT_MAX:
        return PortRange(
            base=base, last=PORT_MAX
        ), f"The highest engine port {maximum} does not exist; {PORT_MAX} is used."
    if maximum < base:
        warning = f"The highest engine port {maximum} is below the lowest, {base}, and is ignored."
        return PortRange(base=base, last=PORT_MAX), warning
    return PortRange(base=base, last=maximum), ""


def _with_default_base(base: int) -> tuple[PortRange, str]:
    warning = f"The lowest engine port {base} does not exist; {BASE_DEFAULT} is used."
    return PortRange(base=BASE_DEFAULT, last=PORT_MAX), warning


@dataclass(slots=True, kw_only=True)
class PortPool:
    """Allots a worker's TCP ports to engines, one owner at a time.

    A released port pauses and then prefers its last owner.
    """

    range: PortRange
    # Whether a port can be bound now; other programs hold ports too.
    is_bindable: Callable[[int], bool] = lambda _port: True
    _running: dict[int, str] = field(default_factory=dict)
    _released_ports: dict[int, _ReleasedPort] = field(default_factory=dict)
    # The lowest port that was never handed out.
    _next: int = 0

    def __post_init__(self) -> None:
        self._next = self.range.base

    def count_running(self) -> int:
        return len(self._running)

    def count_quarantined(self, now_s: float) -> int:
        return sum(1 for released in self._released_ports.values() if self._is_quarantined(released, now_s))

    def count_remembered(self) -> int:
        """Return the number of ports that have an owner or a last owner."""
        return len(self._running) + len(self._released_ports)

    def find_owner(self, port: int) -> str | None:
        return self._running.get(port)

    def hold(self, owner: str, port: int) -> None:
        """Record that `owner` has this port already: an earlier worker started it."""
        self._released_ports.pop(port, None)
        self._running[port] = owner

    def allot(self, owner: str, now_s: float) -> PortAllotment:
        self._sweep(now_s)
        for candidate in self._iterate_candidates(owner, now_s):
            if candidate.port not in self._running and self.is_bindable(candidate.port):
                self._released_ports.pop(candidate.port, None)
                self._running[candidate.port] = owner
                return candidate
        raise NoFreePort(
            f"No port is free in {self.range}: {self.count_running()} running,"
            f" {self.count_quarantined(now_s)} quarantined.",
            hint="Widen the range of engine ports, or stop what is not needed.",
            details={"running": self.count_running(), "quarantined": self.count_quarantined(now_s)},
        )

    def release(self, owner: str, port: int, now_s: float) -> None:
        """Release a port. Only its owner can, and only once."""
        if self._running.get(port) != owner:
            return
        del self._running[port]
        # Keep one last port an owner: an engine that crashes for ever must not own a port for each crash.
        for other, released in tuple(self._released_ports.items()):
            if released.owner == owner:
                self._released_ports[other] = _ReleasedPort(owner="", at_s=released.at_s)
        self._released_ports[port] = _ReleasedPort(owner=owner, at_s=now_s)

    def _iterate_candidates(self, owner: str, now_s: float) -> Iterator[PortAllotment]:
        available = {
            port: known for port, known in self._released_ports.items() if not self._is_quarantined(known, now_s)
        }
        yield from (
            PortAllotment(port=p, choice=PortChoice.OWN) for p, known in available.items() if known.owner == owner
        )
        yield from (
            PortAllotment(port=p, choice=PortChoice.FREE)
            for p, known in sorted(available.items(), key=_get_port)
            if not known.owner
        )
        yield from self._iterate_unused()
        oldest_first = sorted(available.items(), key=lambda item: item[1].at_s)
        yield from (
            PortAllotment(port=port, choice=PortChoice.STOLEN, previous_owner=known.owner)
            for port, known in oldest_first
            if known.owner and known.owner != owner
        )

    def _iterate_unused(self) -> Iterator[PortAllotment]:
        """Yield ports below `_next` without an entry: their entry has expired, so they are as free as those never
        used."""
        for port in range(self.range.base, self._next):
            if port not in self._released_ports:
                yield PortAllotment(port=port, choice=PortChoice.FREE)
        while self._next <= self.range.last:
            self._next += 1
            if self._next - 1 not in self._released_ports:
                yield PortAllotment(port=self._next - 1, choice=PortChoice.NEW)

    def _sweep(self, now_s: float) -> None:
        self._released_ports = {
            port: known for port, known in self._released_ports.items() if now_s - known.at_s < AFFINITY_S
        }

    def _is_quarantined(self, released: _ReleasedPort, now_s: float) -> bool:
        return now_s - released.at_s < QUARANTINE_S


def _get_port(item: tuple[int, _ReleasedPort]) -> int:
    return item[0]


@dataclass(slots=True, kw_only=True)
class ThreadBudget:
    """Divides the processor threads of a worker's machine among engines; every engine gets at least one.

    Nothing is pinned, engines only receive a number. The held counts add up to no more than the machine has, unless
    there are more processes than threads. A requested number is granted as far as threads are free. Without one a
    process gets half of the free ones, which is every core on a machine with two threads a core, and leaves room
    for the next.
    """

    total: int
    held: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = max(1, self.total)

    @property
    def free(self) -> int:
        return max(0, self.total - sum(self.held.values()))

    def allot(self, owner: str, requested: int | None = None) -> int:
        """Return how many threads `owner` has from now on; its previous ones are released first."""
        self.release(owner)
        desired = -(-self.free // 2) if requested is None else requested
        count = max(1, min(desired, self.free))
        self.held[owner] = count
        return count

    def hold(self, owner: str, count: int) -> None:
        """Record that `owner` received this number from an earlier worker."""
        self.held[owner] = max(1, count)

    def release(self, owner: str) -> None:
        self.held.pop(owner, None)
