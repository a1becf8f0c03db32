"""The bus as the flows see it: typed requests, hints and subscriptions.

Messages are commands and hints. Losing, repeating or reordering them between connections costs latency, never
correctness: whoever needs the truth reads it again in the `on_reconnect` callback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from corral.bus.subjects import SubjectSpec

Q = TypeVar("Q")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[Q]):
    """A message that has arrived. `node` is the node's token in the subject, or None if it has none."""

    message: Q
    subject: str
    node: str | None


class Subscription(Protocol):
    @property
    def subject(self) -> str: ...

    @property
    def is_confirmed(self) -> bool:
        """The server has taken it, on the connection that is in use now."""
        ...

    async def cancel(self) -> None:
        """Hear no more. A handler that is running is left to end."""
        ...


Handler = Callable[[Delivery[Q]], Awaitable[R]]
Reread = Callable[[], Awaitable[None]]


class Bus(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_connected(self) -> bool: ...

    async def start(self) -> None:
        """Return at once and connect in the background; `is_connected` and `on_reconnect` tell when."""
        ...

    async def stop(self) -> None: ...

    async def request(
        self, spec: SubjectSpec[Q, R], message: Q, *, node: str | None = None, timeout_s: float | None = None
    ) -> R:
        """The answer. Nobody listens: `NodeUnreachable` at once. Nobody answers in time: `NodeUnreachable` with
        the code `node_timeout`. No connection: `BusUnavailable`. The handler failed: its error."""
        ...

    async def publish(self, spec: SubjectSpec[Q, None], message: Q, *, node: str | None = None) -> None:
        """Send a hint; nobody says whether it arrived. No connection: `BusUnavailable`."""
        ...

    async def subscribe(
        self, spec: SubjectSpec[Q, R], handler: Handler[Q, R], *, node: str | None = None
    ) -> Subscription:
        """Hear one node, or every node without `node`: one message after the other, or as many at a time as the
        subject says.

        The server has confirmed it when this returns, or refused it: `NotAllowed` naming the subject. Without a
        connection it is made at the next connect, and a refusal is then logged.
        """
        ...

    def on_reconnect(self, callback: Reread) -> None:
        """Run this after every connect, the first included, and whenever messages had to be dropped."""
        ...
