"""The bus inside the simulator: `corral.ports.bus.Bus` over a simulated network instead of NATS.

Guarantee: what the port promises about errors, order, confirmation and `on_reconnect` holds here too; messages go
through the real codec and the real permissions, so that nothing works here which NATS would refuse.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from corral.bus.codec import decode, decode_reply, encode, encode_error
from corral.bus.subjects import (
    BusRole,
    SubjectKind,
    SubjectSpec,
    format_pattern,
    format_subject,
    make_inbox_prefix,
    make_permissions,
    parse_node,
)
from corral.domain.errors import BusUnavailable, CorralError, NodeUnreachable, NotAllowed
from corral.ports.bus import Delivery, MessageHandler, ReconnectCallback
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from tests.simulation.clock import SimClock
from tests.simulation.network import Link, Network, Packet
from tests.simulation.virtual_loop import VirtualLoop

Q = TypeVar("Q")
R = TypeVar("R")

MAX_PENDING_MESSAGES = 1024


class SimSubscription(Generic[Q, R]):
    """Handles messages one after the other, through a bounded queue."""

    def __init__(self, bus: SimBus, spec: SubjectSpec[Q, R], handler: MessageHandler[Q, R], node: str | None) -> None:
        self._bus = bus
        self._spec = spec
        self._handler = handler
        self._queue: asyncio.Queue[Packet | None] = asyncio.Queue()
        self._is_cancelled = False
        self.subject = format_pattern(spec, node=node)
        self.is_attached = False

    @property
    def is_confirmed(self) -> bool:
        return self.is_attached and self._bus.is_connected

    async def cancel(self) -> None:
        self._is_cancelled = True
        self._bus.forget(self)
        self._queue.put_nowait(None)

    def enqueue(self, packet: Packet) -> bool:
        """Put a message into the queue; return False if there is no room."""
        if self._queue.qsize() >= MAX_PENDING_MESSAGES:
            return False
        self._queue.put_nowait(packet)
        return True

    async def consume(self) -> None:
        while (packet := await self._queue.get()) is not None:
            if not self._is_cancelled:
                await self._handle(packet)
        # The next consumer is to end too.
        self._queue.put_nowait(None)

    async def _handle(self, packet: Packet) -> None:
        async def work() -> bytes:
            message = decode(self._spec.request, packet.data, subject=packet.subject)
            delivery = Delivery(message=message, subject=packet.subject, node=parse_node(self._spec, packet.subject))
            result = await self._handler(delivery)
            return encode(result, subject=packet.subject) if self._spec.kind is SubjectKind.REQUEST else b""

        outcome = await attempt(work)
        if self._spec.kind is SubjectKind.REQUEST and packet.reply_to:
            answer = (
                encode_error(_to_corral_error(outcome.error)) if isinstance(outcome, AttemptFailure) else outcome.value
            )
            self._bus.answer(packet.reply_to, answer)


class SimBus:
    """Connects one participant. `owner_id` names it on the network and is what its permissions are made for."""

    def __init__(self, loop: VirtualLoop, network: Network, *, role: BusRole, owner_id: str) -> None:
        self._loop = loop
        self._clock = SimClock(loop)
        self._network = network
        self._owner_id = owner_id
        self._allowed = make_permissions(role, owner_id)
        self._tasks = TaskSet(f"bus of {owner_id}")
        self._link: Link | None = None
        self._subscriptions: list[SimSubscription[Any, Any]] = []
        self._callbacks: list[ReconnectCallback] = []
        self._reread = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Packet]] = {}
        self._requests = 0

    @property
    def name(self) -> str:
        return "bus"

    @property
    def is_connected(self) -> bool:
        return self._link is not None and self._link.is_up

    async def start(self) -> None:
        self._tasks.start(self._run_callbacks(), name="callbacks")
        self._link = self._network.join(self._owner_id, self)

    async def stop(self) -> None:
        self.unplug()
        await self._tasks.close()

    def unplug(self) -> None:
        """End the connection and everything that waits for it, because the process has died."""
        link, self._link = self._link, None
        if link is not None:
            self._network.leave(link)
        self.lost()

    async def request(
        self, spec: SubjectSpec[Q, R], message: Q, *, node: str | None = None, timeout_s: float | None = None
    ) -> R:
        assert spec.reply is not None, f"{spec.name} is not a request"
        target = format_subject(spec, node=node)
        self._requests += 1
        inbox = f"{make_inbox_prefix(self._owner_id)}.{self._requests}"
        answer: asyncio.Future[Packet] = self._loop.create_future()
        self._waiting[inbox] = answer
        limit_s = timeout_s or spec.timeout_s
        try:
            self._send(Packet(subject=target, data=encode(message, subject=target), reply_to=inbox))
            async with asyncio.timeout(limit_s):
                packet = await answer
        except TimeoutError as error:
            raise NodeUnreachable(f"No reply on {target} within {limit_s:g} s.", code="node_timeout") from error
        finally:
            del self._waiting[inbox]
        if packet.is_no_responders:
            raise NodeUnreachable(f"No subscriber listens on {target}.")
        return decode_reply(spec.reply, packet.data, subject=target)

    async def publish(self, spec: SubjectSpec[Q, None], message: Q, *, node: str | None = None) -> None:
        assert spec.kind is SubjectKind.PUBLISH, f"{spec.name} is a request"
        target = format_subject(spec, node=node)
        self._send(Packet(subject=target, data=encode(message, subject=target)))

    async def subscribe(
        self, spec: SubjectSpec[Q, R], handler: MessageHandler[Q, R], *, node: str | None = None
    ) -> SimSubscription[Q, R]:
        subscription = SimSubscription(self, spec, handler, node)
        if not any(_covers(allowed, subscription.subject) for allowed in self._allowed.subscribe_allow):
            raise NotAllowed(f"{self._owner_id} may not listen on {subscription.subject}.")
        self._subscriptions.append(subscription)
        for _ in range(spec.parallel):
            self._tasks.start(subscription.consume(), name=f"consume {subscription.subject}")
        if self.is_connected:
            await self._clock.sleep(self._network.round_trip_s())
            # A server that is out of reach hears of it at the next connect.
            link = self._link
            subscription.is_attached = link is not None and link.is_up and link.sends and link.hears
        return subscription

    def on_reconnect(self, callback: ReconnectCallback) -> None:
        self._callbacks.append(callback)

    # --- for the subscriptions and the network ---

    def forget(self, subscription: SimSubscription[Any, Any]) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def answer(self, reply_to: str, data: bytes) -> None:
        """Reply to a requester, which permissions allow; a reply that cannot be sent is lost."""
        if self._link is not None and self._link.is_up:
            self._network.send(self._link, Packet(subject=reply_to, data=data))

    def wants(self, target: str) -> bool:
        return _covers(f"{make_inbox_prefix(self._owner_id)}.>", target) or any(
            each.is_attached and _covers(each.subject, target) for each in self._subscriptions
        )

    def take(self, packet: Packet) -> None:
        waiting = self._waiting.get(packet.subject)
        if waiting is not None and not waiting.done():
            waiting.set_result(packet)
        for each in self._subscriptions:
            if each.is_attached and _covers(each.subject, packet.subject) and not each.enqueue(packet):
                self._reread.set()

    def lost(self) -> None:
        for subscription in self._subscriptions:
            subscription.is_attached = False
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(BusUnavailable("The simulated connection to the bus broke."))

    def connected(self) -> None:
        for subscription in self._subscriptions:
            subscription.is_attached = True
        self._reread.set()

    def _send(self, packet: Packet) -> None:
        assert any(_covers(allowed, packet.subject) for allowed in self._allowed.publish_allow), (
            f"{self._owner_id} may not send on {packet.subject}: NATS would drop it without a word"
        )
        if self._link is None or not self._link.is_up:
            raise BusUnavailable("There is no connection to the simulated bus.")
        self._network.send(self._link, packet)

    async def _run_callbacks(self) -> None:
        while True:
            await self._reread.wait()
            self._reread.clear()
            for callback in list(self._callbacks):
                # A failure is the callback's own: the next connect calls it again.
                await attempt(callback)


def _covers(allowed: str, target: str) -> bool:
    """Return whether a subject, or a pattern, lies within a pattern of NATS."""
    pattern, given = allowed.split("."), target.split(".")
    if pattern[-1] == ">":
        return len(given) >= len(pattern) and all(map(_token_covers, pattern[:-1], given))
    return len(pattern) == len(given) and all(map(_token_covers, pattern, given))


def _token_covers(pattern: str, given: str) -> bool:
    return pattern in ("*", given)


def _to_corral_error(error: Exception) -> CorralError:
    if isinstance(error, CorralError):
        return error
    return CorralError(f"The handler failed with {type(error).__name__}. See its log.")
