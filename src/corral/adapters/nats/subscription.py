"""One subscription: a bounded queue, its consumers, and the way from one connection to the next.

Messages are handled one after the other in the order in which they came (as many at a time as the subject says, where
it says more than one); a slow handler makes its own queue wait and nothing else. What does not fit is dropped, and
everybody is told to read the state again. While a connection is replaced, the new one's messages are held until the
old one has delivered its last; doubles are left out by their id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from corral.adapters.nats.connection import ID_HEADER, Connection
from corral.adapters.nats.library import Feed, Msg
from corral.adapters.nats.reporter import Reporter
from corral.bus.codec import decode, encode, encode_error
from corral.bus.subjects import Kind, SubjectSpec, node_in, pattern
from corral.domain.errors import CorralError
from corral.ports.bus import Delivery, Handler
from corral.runtime.guard import Failed, attempt

Q = TypeVar("Q")
R = TypeVar("R")

# A handler that is this far behind would act on the past: reading the state again is quicker.
MAX_PENDING_MESSAGES = 1024
MAX_PENDING_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    message: Msg
    connection: Connection

    @property
    def message_id(self) -> str:
        return (self.message.headers or {}).get(ID_HEADER, "")

    @property
    def size_bytes(self) -> int:
        return len(self.message.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a subscription needs of the bus that it belongs to."""

    reporter: Reporter
    on_overflow: Callable[[], None]
    on_cancel: Callable[[OrderedSubscription[Any, Any]], Awaitable[None]]


class OrderedSubscription(Generic[Q, R]):
    def __init__(
        self, spec: SubjectSpec[Q, R], handler: Handler[Q, R], *, node: str | None, around: Surroundings
    ) -> None:
        self._spec = spec
        self._handler = handler
        self._subject = pattern(spec, node=node)
        self._around = around
        self._queue: asyncio.Queue[Arrived | None] = asyncio.Queue()
        self._pending_bytes = 0
        self._feed: Feed | None = None
        self._connection: Connection | None = None
        self._is_cancelled = False
        # Only while a connection is replaced: what the next one brought, and which ids the old one brought.
        self._next: tuple[Connection, Feed | None] | None = None
        self._held: list[Arrived] = []
        self._seen: set[str] = set()

    @property
    def subject(self) -> str:
        return self._subject

    @property
    def is_confirmed(self) -> bool:
        # While a connection is replaced, either of the two counts.
        ways = ((self._connection, self._feed), self._next or (None, None))
        return any(feed is not None and connection is not None and connection.is_open for connection, feed in ways)

    async def cancel(self) -> None:
        if self._is_cancelled:
            return
        self._is_cancelled = True
        await self._around.on_cancel(self)
        self._queue.put_nowait(None)

    async def detach(self) -> None:
        """Tell the server that nobody listens any more."""
        feed, self._feed = self._feed, None
        if feed is not None:
            # A connection that is gone has forgotten the subscription by itself.
            await attempt(feed.unsubscribe)

    async def attach(self, connection: Connection) -> None:
        """Hear this connection from now on; the one before is gone."""
        self._feed = None
        self._connection = connection
        self._feed = await connection.subscribe(self._subject, self._taker(connection))

    async def prepare(self, connection: Connection) -> None:
        """Listen on the next connection too, and hold what it brings."""
        self._seen.clear()
        self._next = (connection, None)
        self._next = (connection, await connection.subscribe(self._subject, self._taker(connection)))

    async def finish_old(self) -> None:
        """Take the last messages of the old connection."""
        feed, self._feed = self._feed, None
        if feed is not None and self._connection is not None:
            await self._connection.drain(feed)

    def release(self) -> None:
        """The next connection is the one in use: what it brought and the old one did not comes now."""
        if self._next is None:
            return
        self._connection, self._feed = self._next
        self._next = None
        held, self._held = self._held, []
        for arrived in held:
            if arrived.message_id and arrived.message_id in self._seen:
                arrived.connection.settle()
            else:
                self._enqueue(arrived)
        self._seen.clear()

    def abandon(self) -> None:
        """The next connection did not come about."""
        self._next = None
        for arrived in self._held:
            arrived.connection.settle()
        self._held = []
        self._seen.clear()

    async def consume(self) -> None:
        """One of as many consumers as the subject has. Ends when the subscription is cancelled."""
        while (arrived := await self._queue.get()) is not None:
            self._pending_bytes -= arrived.size_bytes
            try:
                if not self._is_cancelled:
                    await self._handle(arrived)
            finally:
                arrived.connection.settle()
        # The next consumer is to end too.
        self._queue.put_nowait(None)

    def _taker(self, connection: Connection) -> Callable[[Msg], None]:
        def take(message: Msg) -> None:
            arrived = Arrived(message=message, connection=connection)
            connection.owe()
            if self._next is not None and self._next[0] is connection:
                self._held.append(arrived)
                return
            if self._next is not None:
                self._seen.add(arrived.message_id)
            self._enqueue(arrived)

        return take

    def _enqueue(self, arrived: Arrived) -> None:
        is_full = self._queue.qsize() >= MAX_PENDING_MESSAGES
        if self._is_cancelled or is_full or self._pending_bytes + arrived.size_bytes > MAX_PENDING_BYTES:
            arrived.connection.settle()
            if not self._is_cancelled:
                self._around.reporter.warn(
                    f"Messages on {self._subject} come faster than they are handled; some are lost."
                )
                self._around.on_overflow()
            return
        self._pending_bytes += arrived.size_bytes
        self._queue.put_nowait(arrived)

    async def _handle(self, arrived: Arrived) -> None:
        message = arrived.message

        async def work() -> bytes:
            request = decode(self._spec.request, message.data, subject=message.subject)
            delivery = Delivery(message=request, subject=message.subject, node=node_in(self._spec, message.subject))
            result = await self._handler(delivery)
            return encode(result, subject=message.subject) if self._spec.kind is Kind.REQUEST else b""

        outcome = await attempt(work)
        if isinstance(outcome, Failed):
            self._around.reporter.warn(f"A message on {message.subject} could not be handled: {outcome.sentence}")
        if self._spec.kind is Kind.REQUEST and message.reply:
            answer = encode_error(_told(outcome.error)) if isinstance(outcome, Failed) else outcome.value
            sent = await attempt(lambda: arrived.connection.publish(message.reply, answer))
            if isinstance(sent, Failed):
                self._around.reporter.warn(f"A request on {message.subject} was not answered: {sent.sentence}")


def _told(error: Exception) -> CorralError:
    """What the other side hears: our own errors in full, of others only that there was one."""
    if isinstance(error, CorralError):
        return error
    return CorralError(f"The handler failed with {type(error).__name__}; its log has the rest.")
