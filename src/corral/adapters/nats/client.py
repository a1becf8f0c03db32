"""The bus over NATS: connects for ever, confirms subscriptions, changes its credential without missing a message.

`start` returns at once; one loop connects, connects again and takes a fresh credential before the old one runs out.
After every connect, and when messages had to be dropped, all `on_reconnect` callbacks run. Limit: what is published
while a connection is down is lost; hints may be.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import structlog
from nacl.utils import random as random_bytes

from corral.adapters.nats.connection import Connection, Endpoint
from corral.adapters.nats.credentials import CredentialProvider
from corral.adapters.nats.reporter import Reporter
from corral.adapters.nats.subscription import OrderedSubscription, Surroundings
from corral.bus.codec import decode_reply, encode
from corral.bus.subjects import Kind, SubjectSpec, subject
from corral.domain.errors import BusUnavailable, NotAllowed
from corral.ports.bus import Handler, Reread
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")

# How long handlers and answers may take to end when the bus stops or a connection is replaced.
DRAIN_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often the connection is looked after. Half of it is chance, so that nodes do not come back in step."""

    retry_s: float = 1.0
    jitter: float = 0.5


class NatsBus:
    def __init__(
        self,
        endpoint: Endpoint,
        credentials: CredentialProvider,
        *,
        clock: Clock,
        rng: random.Random,
        timing: Timing | None = None,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._clock = clock
        plan = timing or Timing()
        self._loop = Loop(
            LoopPlan(name="bus", interval_s=plan.retry_s, jitter=plan.jitter),
            self._look_after,
            clock,
            rng,
            on_crash=on_crash,
        )
        self._tasks = Tasks("bus", on_crash)
        self._reporter = Reporter(endpoint.client_name)
        self._around = Surroundings(
            reporter=self._reporter, on_overflow=self._read_again, on_cancel=self._forget_subscription
        )
        self._current: Connection | None = None
        self._subscriptions: list[OrderedSubscription[Any, Any]] = []
        self._retiring: set[Connection] = set()
        self._callbacks: list[Reread] = []
        self._reread = asyncio.Event()
        # Held while a connection is made or replaced, so that no subscription falls between two of them.
        self._switching = asyncio.Lock()
        self._message_ids = (f"{prefix}-{number}" for prefix in [random_bytes(8).hex()] for number in itertools.count())

    @property
    def name(self) -> str:
        return "bus"

    @property
    def is_connected(self) -> bool:
        return self._current is not None and self._current.is_open

    @property
    def credential_expires_at(self) -> datetime | None:
        """When the credential in use runs out; None without a connection."""
        return self._current.credential.expires_at if self._current is not None else None

    @property
    def open_connections(self) -> int:
        """One, or two for the moment in which a credential is replaced."""
        return int(self.is_connected) + len(self._retiring)

    async def start(self) -> None:
        self._tasks.start(self._run_callbacks(), name="callbacks")
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
        async with self._switching:
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
        target = subject(spec, node=node)
        data = encode(message, subject=target)
        answer = await self._connected().request(
            target, data, timeout_s=timeout_s or spec.timeout_s, message_id=next(self._message_ids)
        )
        return decode_reply(spec.reply, answer, subject=target)

    async def publish(self, spec: SubjectSpec[Q, None], message: Q, *, node: str | None = None) -> None:
        assert spec.kind is Kind.PUBLISH, f"{spec.name} is a request"
        target = subject(spec, node=node)
        data = encode(message, subject=target)
        await self._connected().publish(target, data, message_id=next(self._message_ids))

    async def subscribe(
        self, spec: SubjectSpec[Q, R], handler: Handler[Q, R], *, node: str | None = None
    ) -> OrderedSubscription[Q, R]:
        subscription = OrderedSubscription(spec, handler, node=node, around=self._around)
        async with self._switching:
            if self._current is not None and self._current.is_open:
                try:
                    await subscription.attach(self._current)
                except BusUnavailable:
                    log.debug("the connection ended while subscribing", subject=subscription.subject)
            self._subscriptions.append(subscription)
            for _ in range(spec.parallel):
                self._tasks.start(subscription.consume(), name=f"consume {subscription.subject}")
        return subscription

    def on_reconnect(self, callback: Reread) -> None:
        self._callbacks.append(callback)

    async def refresh(self) -> None:
        """Take the provider's credential into use now; subscriptions lose no message and keep their order."""
        async with self._switching:
            old = self._current
            if old is None or not old.is_open:
                # The next connect asks the provider anyway.
                return
            new = await self._open()
            try:
                await self._prepare(new)
            except BaseException:
                for subscription in self._subscriptions:
                    subscription.abandon()
                await asyncio.shield(new.close())
                raise
            self._current = new
            try:
                for subscription in self._subscriptions:
                    await subscription.finish_old()
            finally:
                for subscription in self._subscriptions:
                    subscription.release()
                self._tasks.start(self._retire(old), name="retire")
        log.info("the bus credential was replaced", client=self._endpoint.client_name)

    async def _look_after(self) -> None:
        current = self._current
        if current is None or not current.is_open:
            await self._connect()
            return
        due = current.credential.rotate_at
        if due is not None and self._clock.wall() >= due and self._credentials() != current.credential:
            await self.refresh()

    async def _connect(self) -> None:
        async with self._switching:
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
        self._read_again()

    async def _open(self) -> Connection:
        connection = Connection(self._endpoint, self._credentials(), reporter=self._reporter, on_lost=self._loop.wake)
        await connection.open()
        return connection

    async def _attach(self, subscription: OrderedSubscription[Any, Any], connection: Connection) -> None:
        try:
            await subscription.attach(connection)
        except NotAllowed as error:
            # One refused subject must not keep the others off the bus.
            log.warning("subscription refused", subject=subscription.subject, problem=error.message)

    async def _prepare(self, connection: Connection) -> None:
        for subscription in self._subscriptions:
            try:
                await subscription.prepare(connection)
            except NotAllowed as error:
                log.warning("subscription refused", subject=subscription.subject, problem=error.message)

    async def _drain(self, connection: Connection, subscriptions: list[OrderedSubscription[Any, Any]]) -> None:
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                for subscription in subscriptions:
                    await subscription.finish_old()
                await connection.retire(DRAIN_LIMIT_S)
        except TimeoutError:
            log.warning("the bus did not drain in time", client=self._endpoint.client_name, limit_s=DRAIN_LIMIT_S)
        finally:
            await asyncio.shield(connection.close())

    async def _retire(self, connection: Connection) -> None:
        self._retiring.add(connection)
        try:
            await connection.retire(DRAIN_LIMIT_S)
        finally:
            self._retiring.discard(connection)

    def _connected(self) -> Connection:
        if self._current is None or not self._current.is_open:
            raise BusUnavailable(
                f"There is no connection to NATS at {self._endpoint.printable}.",
                hint="It is being made in the background; try again.",
            )
        return self._current

    async def _forget_subscription(self, subscription: OrderedSubscription[Any, Any]) -> None:
        async with self._switching:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                await subscription.detach()

    def _read_again(self) -> None:
        self._reread.set()

    async def _run_callbacks(self) -> None:
        while True:
            await self._reread.wait()
            self._reread.clear()
            for callback in list(self._callbacks):
                outcome = await attempt(callback)
                if isinstance(outcome, Failed):
                    self._reporter.warn(f"Reading the state again after a connect failed: {outcome.sentence}")
