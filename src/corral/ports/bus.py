"""The bus as the flows see it: typed requests, hints and subscriptions.

Messages are commands and hints. Losing, repeating or reordering them between connections costs latency, never
correctness: a handler that needs the current state reads it again in the `on_reconnect` callback.
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
    """One message that has arrived over NATS.

    `node` is the node's token in the subject, or None if it has none.
    """

    message: Q
    subject: str
    node: str | None


class Subscription(Protocol):
    """Interface of one subscription of a NATS subject, until it is cancelled."""

    @property
    def subject(self) -> str: ...

    @property
    def is_confirmed(self) -> bool:
        """Return whether the server has accepted the subscription on the current connection."""
        ...

    async def cancel(self) -> None:
        """Unsubscribe. A handler that is running may finish."""
        ...


MessageHandler = Callable[[Delivery[Q]], Awaitable[R]]
ReconnectCallback = Callable[[], Awaitable[None]]


class Bus(Protocol):
    """Interface to NATS that sends typed requests and events to nodes and frontends, and receives theirs."""

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
        """Send a request and return its reply. Raises `NodeUnreachable` at once if no node listens, `NodeUnreachable`
        with the code `node_timeout` without a reply in time, `BusUnavailable` without a connection, and the handler's
        own error if it failed."""
        ...

    async def publish(self, spec: SubjectSpec[Q, None], message: Q, *, node: str | None = None) -> None:
        """Send a hint without confirmation. Raises `BusUnavailable` without a connection."""
        ...

    async def subscribe(
        self, spec: SubjectSpec[Q, R], handler: MessageHandler[Q, R], *, node: str | None = None
    ) -> Subscription:
        """Subscribe to the messages of one node, or of every node without `node`: one message after the other, or as
        many at a time as the subject says.

        When this returns, the server has confirmed the subscription, or refused it: `NotAllowed` naming the subject.
        Without a connection the subscription is made at the next connect, and a refusal is then logged."""
        ...

    def on_reconnect(self, callback: ReconnectCallback) -> None:
        """Run the callback after every connect, the first included, and whenever messages had to be dropped."""
        ...
