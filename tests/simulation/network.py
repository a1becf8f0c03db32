"""The simulated bus server and the links to it: seeded delay, loss, repetition, reordering, and cut cables.

Guarantee: without faults a link keeps the order of its messages, as a TCP connection does, and everything arrives.
Each message takes two hops, sender to server and server to receiver, and each hop has its own fate.
A request is called one without a subscriber only if no copy of it is delivered, now or later, as NATS promises.
Limit: harsher than NATS, which loses messages only with a connection. What survives this survives NATS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulation.chance import Random
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop

# Two messages of one link never arrive at the same instant: the order of one instant belongs to the seed.
STEP_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class BusFaults:
    """Says how often each fault strikes a hop, from 0 to 1."""

    lose: float = 0.0
    repeat: float = 0.0
    reorder: float = 0.0
    """The message may be overtaken by later ones of the same link."""
    late: float = 0.0
    late_s: float = 3.0
    """A late message waits for up to this long."""
    usual_s: float = 0.002
    """Every other hop takes up to this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    subject: str
    data: bytes
    reply_to: str = ""
    is_no_responders: bool = False


class Receiver(Protocol):
    """Receives messages at the client's end of a link."""

    def wants(self, subject: str) -> bool: ...

    def take(self, packet: Packet) -> None: ...

    def lost(self) -> None: ...

    def connected(self) -> None: ...


@dataclass(slots=True)
class Link:
    """Describes one participant's cable. `is_up` is what both ends believe; `sends` and `hears` are what is true."""

    name: str
    receiver: Receiver
    is_up: bool = False
    sends: bool = True
    hears: bool = True
    last_arrival_s: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Request:
    """Holds what the server decided when the first copy of a request arrived: whether there were subscribers."""

    has_subscribers: bool | None = None


class Network:
    """Simulates the server in the middle."""

    def __init__(
        self, loop: VirtualLoop, rng: Random, *, faults: BusFaults | None = None, trace: Trace | None = None
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._links: list[Link] = []
        self.faults = faults or BusFaults()
        self.is_running = True

    # --- for the participants ---

    def join(self, name: str, receiver: Receiver) -> Link:
        """Plug in and connect in the background."""
        link = Link(name=name, receiver=receiver)
        self._links.append(link)
        self._connect_soon(link)
        return link

    def leave(self, link: Link) -> None:
        """Close the connection of a process that has ended; the server sees that at once."""
        if link in self._links:
            self._links.remove(link)
        link.is_up = False

    def send(self, sender: Link, packet: Packet) -> None:
        if sender.sends:
            request = _Request()
            self._hop(sender, "to server", lambda: self._at_server(sender, packet, request), packet)
        else:
            self._note(f"{sender.name} sends into the void: {packet.subject}")

    def round_trip_s(self) -> float:
        return self._rng.uniform(0, self.faults.usual_s) * 2

    # --- for the scenario ---

    def cut(self, name: str, *, sends: bool = False, hears: bool = False, notice_after_s: float | None) -> None:
        """Cut the cable, or one direction of it. Both ends believe in the connection until they notice."""
        for link in self._named(name):
            link.sends, link.hears = sends, hears
            self._note(f"{name} is cut: sends {sends}, hears {hears}")
            if notice_after_s is not None:
                self._loop.call_later(notice_after_s, self._notice, link)

    def has(self, name: str) -> bool:
        return any(link.name == name for link in self._links)

    def heal(self, name: str) -> None:
        for link in self._named(name):
            link.sends = link.hears = True
            self._note(f"{name} is healed")
            if not link.is_up:
                self._connect_soon(link)

    def expel(self, name: str) -> None:
        """Make the server refuse this participant from now on."""
        for link in [link for link in self._links if link.name == name]:
            self._note(f"{name} is expelled")
            self._drop(link)
            self._links.remove(link)

    def stop_server(self) -> None:
        """Stop the server: every participant loses the connection at once."""
        self.is_running = False
        for link in self._links:
            self._drop(link)

    def start_server(self) -> None:
        self.is_running = True
        for link in self._links:
            self._connect_soon(link)

    # --- inside ---

    def _at_server(self, sender: Link, packet: Packet, request: _Request) -> None:
        if not self.is_running or not sender.is_up:
            return
        receivers = [link for link in self._links if link.is_up and link.receiver.wants(packet.subject)]
        if packet.reply_to:
            if request.has_subscribers is None:
                request.has_subscribers = bool(receivers)
            if not request.has_subscribers:
                self._deliver(sender, Packet(subject=packet.reply_to, data=b"", is_no_responders=True))
                return
        for link in receivers:
            self._deliver(link, packet)

    def _deliver(self, link: Link, packet: Packet) -> None:
        def arrive() -> None:
            if link.is_up and link.hears and self.is_running:
                self._note(f"{link.name} hears {packet.subject}")
                link.receiver.take(packet)

        self._hop(link, "from server", arrive, packet)

    def _hop(self, link: Link, direction: str, arrive: Callable[[], None], packet: Packet) -> None:
        if self._strikes(self.faults.lose):
            self._note(f"lost {direction} on {link.name}: {packet.subject}")
            return
        for _ in range(2 if self._strikes(self.faults.repeat) else 1):
            limit_s = self.faults.late_s if self._strikes(self.faults.late) else self.faults.usual_s
            at_s = self._loop.time() + self._rng.uniform(0, limit_s)
            if not self._strikes(self.faults.reorder):
                at_s = max(at_s, link.last_arrival_s.get(direction, 0.0) + STEP_S)
                link.last_arrival_s[direction] = at_s
            self._loop.call_at(at_s, arrive)

    def _connect_soon(self, link: Link) -> None:
        self._loop.call_later(self._rng.uniform(0, 0.1), self._connect, link)

    def _connect(self, link: Link) -> None:
        possible = link in self._links and link.sends and link.hears and self.is_running
        if possible and not link.is_up:
            link.is_up = True
            self._note(f"{link.name} connects")
            link.receiver.connected()

    def _notice(self, link: Link) -> None:
        if not (link.sends and link.hears):
            self._drop(link)

    def _drop(self, link: Link) -> None:
        if link.is_up:
            link.is_up = False
            self._note(f"{link.name} has lost the connection")
            link.receiver.lost()

    def _named(self, name: str) -> list[Link]:
        found = [link for link in self._links if link.name == name]
        assert found, f"nobody called {name} is on the simulated bus"
        return found

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability

    def _note(self, event: str) -> None:
        if self._trace is not None:
            self._trace.add(event)
