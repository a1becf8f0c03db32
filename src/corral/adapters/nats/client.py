"""The bus over NATS: reconnects for ever, confirms subscriptions, changes its credential without missing a message.

`start` returns at once; one loop connects, reconnects and takes a fresh credential before the old one expires. After
every connect, and when messages had to be dropped, all `on_reconnect` callbacks run. Limit: messages that are published
while a connection is down are lost; hints may be.

A subscription is a bounded queue with its consumers. Messages are handled one after the other in the order in which
they came (as many at a time as the subject says, where it says more than one); a slow handler delays its own queue and
nothing else. Messages that do not fit are dropped. While a connection is replaced, the new one's messages are held
until the old one has delivered its last; duplicates are dropped by their id.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from nacl.utils import random as random_bytes

from corral.adapters.nats.connection import ID_HEADER, BusWarningLog, NatsConnection, NatsEndpoint
from corral.adapters.nats.credentials import CredentialProvider
from corral.adapters.nats.nats_py import Feed, Msg
from corral.bus.codec import decode, decode_reply, encode, encode_error
from corral.bus.subjects import SubjectKind, SubjectSpec, format_pattern, format_subject, parse_node
from corral.domain.errors import BusUnavailable, CorralError, NotAllowed
from corral.ports.bus import Delivery, MessageHandler, ReconnectCallback
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.loop import Loop, LoopOptions
from corral.runtime.tasks import TaskSet

log = structlog.get_logger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")

# How long handlers and replies may take to end when the bus stops or a connection is replaced.
DRAIN_LIMIT_S = 5.0

# A handler that is this far behind would act on old messages: reading the state again is quicker.
MAX_PENDING_MESSAGES = 1024
MAX_PENDING_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One message that a NATS subscription received, and the connection that the message came on."""

    message: Msg
    connection: NatsConnection

    @property
    def message_id(self) -> str:
        return (self.message.headers or {}).get(ID_HEADER, "")

    @property
    def size_bytes(self) -> int:
        return len(self.message.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDeps:
    """Callbacks and options that a NATS subscription needs from its client."""

    reporter: BusWarningLog
    on_overflow: Callable[[], None]
    on_cancel: Callable[[OrderedSubscription[Any, Any]], Awaitable[None]]


class OrderedSubscription(Generic[Q, R]):
    """Delivers the messages of one NATS subject to its handler in order, also while the connection is replaced.

    Implements `ports.bus.Subscription`.
    """

    def __init__(
        self, spec: SubjectSpec[Q, R], handler: MessageHandler[Q, R], *, node: str | None, deps: SubscriptionDeps
    ) -> None:
        self._spec = spec
        self._handler = handler
        self._subject = format_pattern(spec, node=node)
        self._deps = deps
        self._queue: asyncio.Queue[ReceivedMessage | None] = asyncio.Queue()
        self._pending_bytes = 0
        self._feed: Feed | None = None
        self._connection: NatsConnection | None = None
        self._is_cancelled = False
        # Only while a connection is replaced: the messages of the next one, and the ids of the old one's.
        self._next: tuple[NatsConnection, Feed | None] | None = None
        self._held_messages: list[ReceivedMessage] = []
        self._seen_ids: set[str] = set()

    @property
    def subject(self) -> str:
        return self._subject

    @property
    def is_confirmed(self) -> bool:
        # While a connection is replaced, a subscription on either of the two counts.
        ways = ((self._connection, self._feed), self._next or (None, None))
        return any(feed is not None and connection is not None and connection.is_open for connection, feed in ways)

    async def cancel(self) -> None:
        if self._is_cancelled:
            return
        self._is_cancelled = True
        await self._deps.on_cancel(self)
        self._queue.put_nowait(None)

    async def detach(self) -> None:
        """Unsubscribe at the server."""
        feed, self._feed = self._feed, None
        if feed is not None:
            # A closed connection has dropped the subscription by itself.
            await attempt(feed.unsubscribe)

    async def attach(self, connection: NatsConnection) -> None:
        """Subscribe on this connection; the previous one is closed."""
        self._feed = None
        self._connection = connection
        self._feed = await connection.subscribe(self._subject, self._make_receiver(connection))

    async def prepare_next(self, connection: NatsConnection) -> None:
        """Subscribe on the next connection too, and hold its messages."""
        self._seen_ids.clear()
        self._next = (connection, None)
        self._next = (connection, await connection.subscribe(self._subject, self._make_receiver(connection)))

    async def drain_old(self) -> None:
        """Receive the last messages of the old connection."""
        feed, self._feed = self._feed, None
        if feed is not None and self._connection is not None:
            await self._connection.drain(feed)

    def switch_to_next(self) -> None:
        """Use the next connection, and deliver the held messages that the old one did not bring."""
        if self._next is None:
            return
        self._connection, self._feed = self._next
        self._next = None
        held, self._held_messages = self._held_messages, []
        for arrived in held:
            if arrived.message_id and arrived.message_id in self._seen_ids:
                arrived.connection.finish_pending()
            else:
                self._enqueue(arrived)
        self._seen_ids.clear()

    def abandon_next(self) -> None:
        """Drop the held messages, because the next connection could not be opened."""
        self._next = None
        for arrived in self._held_messages:
            arrived.connection.finish_pending()
        self._held_messages = []
        self._seen_ids.clear()

    async def consume(self) -> None:
        """Handle messages until the subscription is cancelled. A subject has one or more such consumers."""
        while (arrived := await self._queue.get()) is not None:
            self._pending_bytes -= arrived.size_bytes
            try:
                if not self._is_cancelled:
                    await self._handle(arrived)
            finally:
                arrived.connection.finish_pending()
        # Pass the end mark on to the next consumer.
        self._queue.put_nowait(None)

    def _make_receiver(self, connection: NatsConnection) -> Callable[[Msg], None]:
        def take(message: Msg) -> None:
            arrived = ReceivedMessage(message=message, connection=connection)
            connection.add_pending()
            if self._next is not None and self._next[0] is connection:
                self._held_messages.append(arrived)
                return
            if self._next is not None:
                self._seen_ids.add(arrived.message_id)
            self._enqueue(arrived)

        return take

    def _enqueue(self, arrived: ReceivedMessage) -> None:
        is_full = self._queue.qsize() >= MAX_PENDING_MESSAGES
        if self._is_cancelled or is_full or self._pending_bytes + arrived.size_bytes > MAX_PENDING_BYTES:
            arrived.connection.finish_pending()
            if not self._is_cancelled:
                self._deps.reporter.warn(
                    f"Messages on {self._subject} arrive faster than they are handled; some were dropped."
                )
                self._deps.on_overflow()
            return
        self._pending_bytes += arrived.size_bytes
        self._queue.put_nowait(arrived)

    async def _handle(self, arrived: ReceivedMessage) -> None:
        message = arrived.message

        async def work() -> bytes:
            request = decode(self._spec.request, message.data, subject=message.subject)
            delivery = Delivery(message=request, subject=message.subject, node=parse_node(self._spec, message.subject))
            result = await self._handler(delivery)
            return encode(result, subject=message.subject) if self._spec.kind is SubjectKind.REQUEST else b""

        outcome = await attempt(work)
        if isinstance(outcome, AttemptFailure):
            self._deps.reporter.warn(f"A message on {message.subject} could not be handled: {outcome.sentence}")
        if self._spec.kind is SubjectKind.REQUEST and message.reply:
            answer = (
                encode_error(_to_wire_error(outcome.error)) if isinstance(outcome, AttemptFailure) else outcome.value
            )
            sent = await attempt(lambda: arrived.connection.publish(message.reply, answer))
            if isinstance(sent, AttemptFailure):
                self._deps.reporter.warn(f"A request on {message.subject} got no reply: {sent.sentence}")


def _to_wire_error(error: Exception) -> CorralError:
    """Return the error for the other side: our own errors in full, of others only the type."""
    if isinstance(error, CorralError):
        return error
    return CorralError(f"The handler failed with {type(error).__name__}. See its log.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectTiming:
    """Says how often a NATS client checks its connection.

    Half of the interval is random, so that nodes do not reconnect in step.
    """

    retry_s: float = 1.0
    jitter: float = 0.5


class NatsBus:
    """NATS client of frontends and workers: reconnects for ever and confirms subscriptions. Implements `ports.bus.Bus`.

    Changes its credential without missing a message.
    """

    def __init__(
        self,
        endpoint: NatsEndpoint,
        credentials: CredentialProvider,
        *,
        clock: Clock,
        rng: random.Random,
        timing: ReconnectTiming | None = None,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._clock = clock
        reconnect_timing = timing or ReconnectTiming()
        self._loop = Loop(
            LoopOptions(name="bus", interval_s=reconnect_timing.retry_s, jitter=reconnect_timing.jitter),
            self._maintain_connection,
            clock,
            rng,
            on_crash=on_crash,
        )
        self._tasks = TaskSet("bus", on_crash)
        self._reporter = BusWarningLog(endpoint.client_name)
        self._subscription_deps = SubscriptionDeps(
            reporter=self._reporter, on_overflow=self._schedule_reread, on_cancel=self._forget_subscription
        )
        self._current: NatsConnection | None = None
        self._subscriptions: list[OrderedSubscription[Any, Any]] = []
        self._retiring_connections: set[NatsConnection] = set()
        self._callbacks: list[ReconnectCallback] = []
        self._reread = asyncio.Event()
        # Held while a connection is made or replaced, so that no subscription is lost between two connections.
        self._switch_lock = asyncio.Lock()
        self._message_ids = (f"{prefix}-{number}" for prefix in [random_bytes(8).hex()] for number in itertools.count())

    @property
    def name(self) -> str:
        return "bus"

    @property
    def is_connected(self) -> bool:
        return self._current is not None and self._current.is_open

    async def start(self) -> None:
        self._tasks.start(self._run_callbacks(), name="callbacks")
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
        async with self._switch_lock:
            current, self._current = self._current, None
            subscriptions, self._subscriptions = self._subscriptions, []
        if current is not None:
            await self._drain(current, subscriptions)
        await self._tasks.close()

    async def request(
        self, spec: SubjectSpec[Q, R], message: Q, *, node: str | None = None, timeout_s: float | None = None
    ) -> R:
        assert spec.reply is not None, f"{spec.name} is not a request"
        assert spec.timeout_s is not None, f"{spec.name} is not a request"
        target = format_subject(spec, node=node)
        data = encode(message, subject=target)
        answer = await self._require_connection().request(
            target, data, timeout_s=timeout_s or spec.timeout_s, message_id=next(self._message_ids)
        )
        return decode_reply(spec.reply, answer, subject=target)

    async def publish(self, spec: SubjectSpec[Q, None], message: Q, *, node: str | None = None) -> None:
        assert spec.kind is SubjectKind.PUBLISH, f"{spec.name} is a request"
        target = format_subject(spec, node=node)
        data = encode(message, subject=target)
        await self._require_connection().publish(target, data, message_id=next(self._message_ids))

    async def subscribe(
        self, spec: SubjectSpec[Q, R], handler: MessageHandler[Q, R], *, node: str | None = None
    ) -> OrderedSubscription[Q, R]:
        subscription = OrderedSubscription(spec, handler, node=node, deps=self._subscription_deps)
        async with self._switch_lock:
            if self._current is not None and self._current.is_open:
                try:
                    await subscription.attach(self._current)
                except BusUnavailable:
                    log.debug("the connection ended while subscribing", subject=subscription.subject)
            self._subscriptions.append(subscription)
            for _ in range(spec.parallel):
                self._tasks.start(subscription.consume(), name=f"consume {subscription.subject}")
        return subscription

    def on_reconnect(self, callback: ReconnectCallback) -> None:
        self._callbacks.append(callback)

    async def refresh_credential(self) -> None:
        """Take the provider's credential into use now; subscriptions lose no message and keep their order."""
        async with self._switch_lock:
            old = self._current
            if old is None or not old.is_open:
                # The next connect fetches a credential from the provider anyway.
                return
            new = await self._open()
            try:
                await self._prepare(new)
            except BaseException:
                for subscription in self._subscriptions:
                    subscription.abandon_next()
                await asyncio.shield(new.close())
                raise
            self._current = new
            try:
                for subscription in self._subscriptions:
                    await subscription.drain_old()
            finally:
                for subscription in self._subscriptions:
                    subscription.switch_to_next()
                self._tasks.start(self._retire(old), name="retire")
        log.info("the bus credential was replaced", client=self._endpoint.client_name)

    async def _maintain_connection(self) -> None:
        current = self._current
        if current is None or not current.is_open:
            await self._connect()
            return
        due = current.credential.rotate_at
        if due is not None and self._clock.wall() >= due and self._credentials() != current.credential:
            await self.refresh_credential()

    async def _connect(self) -> None:
        async with self._switch_lock:
            connection = await self._open()
            try:
                for subscription in self._subscriptions:
                    await self._attach(subscription, connection)
            except BaseException:
                await asyncio.shield(connection.close())
                raise
            self._current = connection
        self._reporter.forget()
        log.info("connected to the bus", client=self._endpoint.client_name, url=self._endpoint.printable)
        self._schedule_reread()

    async def _open(self) -> NatsConnection:
        connection = NatsConnection(
            self._endpoint, self._credentials(), reporter=self._reporter, on_lost=self._loop.wake
        )
        await connection.open()
        return connection

    async def _attach(self, subscription: OrderedSubscription[Any, Any], connection: NatsConnection) -> None:
        try:
            await subscription.attach(connection)
        except NotAllowed as error:
            # One refused subject must not keep the others off the bus.
            log.warning("subscription refused", subject=subscription.subject, problem=error.message)

    async def _prepare(self, connection: NatsConnection) -> None:
        for subscription in self._subscriptions:
            try:
                await subscription.prepare_next(connection)
            except NotAllowed as error:
                log.warning("subscription refused", subject=subscription.subject, problem=error.message)

    async def _drain(self, connection: NatsConnection, subscriptions: list[OrderedSubscription[Any, Any]]) -> None:
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                for subscription in subscriptions:
                    await subscription.drain_old()
                await connection.close_when_idle(DRAIN_LIMIT_S)
        except TimeoutError:
            log.warning("the bus did not drain in time", client=self._endpoint.client_name, limit_s=DRAIN_LIMIT_S)
        finally:
            await asyncio.shield(connection.close())

    async def _retire(self, connection: NatsConnection) -> None:
        self._retiring_connections.add(connection)
        try:
            await connection.close_when_idle(DRAIN_LIMIT_S)
        finally:
            self._retiring_connections.discard(connection)

    def _require_connection(self) -> NatsConnection:
        if self._current is None or not self._current.is_open:
            raise BusUnavailable(
                f"There is no connection to NATS at {self._endpoint.printable}.",
                hint="It is being established in the background; try again.",
            )
        return self._current

    async def _forget_subscription(self, subscription: OrderedSubscription[Any, Any]) -> None:
        async with self._switch_lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                await subscription.detach()

    def _schedule_reread(self) -> None:
        self._reread.set()

    async def _run_callbacks(self) -> None:
        while True:
            await self._reread.wait()
            self._reread.clear()
            for callback in list(self._callbacks):
                outcome = await attempt(callback)
                if isinstance(outcome, AttemptFailure):
                    self._reporter.warn(f"The state could not be read again after a reconnect: {outcome.sentence}")
