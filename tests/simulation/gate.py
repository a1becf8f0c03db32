"""The way to the database inside the simulator: one transaction at a time, in a seeded order, with seeded faults.

Guarantee: with the same seed the same transactions run in the same order. Leaving a turn frees the gate, whether by
commit, error or cancellation, and the next turn starts only when the server has forgotten the last one.
Limit: transactions never overlap here, so races *inside* PostgreSQL are for the tests with real concurrency.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from corral.domain.errors import StoreUnavailable
from corral.store.database import Transaction
from tests.simulation.chance import Random
from tests.simulation.clock import SimClock, true_time
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import MACHINE, VirtualLoop

SET_VIRTUAL_NOW = "SET corral.virtual_now = '{now}'; SET corral.participant = '{participant}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFaults:
    """Says how often each fault strikes a transaction, from 0 to 1, and how long a delay may last."""

    refuse: float = 0.0
    """No connection: nothing was done, and the caller knows it."""
    break_off: float = 0.0
    """The connection breaks after BEGIN: nothing was done, and the caller cannot know it."""
    lose_reply: float = 0.0
    """The connection breaks after COMMIT: everything was done, and the caller cannot know it."""
    slow: float = 0.0
    """The transaction stays open for a while; its caller's deadline may pass meanwhile."""
    delay: float = 0.0
    """The request, or its answer, is under way for a while."""
    delay_s: float = 5.0


class Turnstile:
    """Lets one transaction at a time into a simulated database, in an order that the seed draws."""

    def __init__(self, loop: VirtualLoop, rng: Random, *, settle: Callable[[], Awaitable[None]] | None = None) -> None:
        self._loop = loop
        self._rng = rng
        self._settle = settle
        self._settling: asyncio.Task[None] | None = None
        self._busy = False
        self._waiting: list[tuple[asyncio.Future[None], str | None]] = []
        # The machine whose transaction is inside: it must not be frozen now, or nobody would get in any more.
        self.holder: str | None = None

    @property
    def is_free(self) -> bool:
        return not self._busy

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        await self._enter()
        abandoned = True
        try:
            with self._loop.io():
                yield
            abandoned = False
        finally:
            self._leave(abandoned=abandoned)

    async def _enter(self) -> None:
        if not self._busy:
            self._busy, self.holder = True, MACHINE.get()
            return
        granted: asyncio.Future[None] = self._loop.create_future()
        place = (granted, MACHINE.get())
        self._waiting.append(place)
        try:
            await granted
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            else:
                # The turn was granted in the same instant in which the waiter was cancelled: pass it on.
                self._grant()
            raise

    def _leave(self, *, abandoned: bool) -> None:
        if self._loop.io_outstanding or (abandoned and self._settle is not None):
            # The driver still closes a connection, or the server still rolls back: nobody may see the locks.
            # It belongs to no machine: it has to be done even if the one that left is frozen.
            self._settling = self._loop.create_task(
                self._settle_then_grant(abandoned=abandoned), name="settle", context=Context()
            )
        else:
            self._grant()

    async def _settle_then_grant(self, *, abandoned: bool) -> None:
        try:
            with self._loop.io():
                while driver_tasks := self._loop.driver_tasks():
                    await asyncio.wait(driver_tasks)
                if abandoned and self._settle is not None:
                    await self._settle()
        finally:
            self._grant()

    def look_again(self) -> None:
        """Choose the next transaction, because a machine was thawed that may have waited for its turn."""
        if not self._busy:
            self._busy = True
            self._grant()

    def _grant(self) -> None:
        awake = [place for place in self._waiting if not self._loop.is_frozen(place[1])]
        if not awake:
            self._busy, self.holder = False, None
            return
        place = awake[self._rng.randrange(len(awake))]
        self._waiting.remove(place)
        granted, self.holder = place
        granted.set_result(None)


class SimGate:
    """Leads one participant to the database (`store.database.Gate`): its own faults, the common turnstile."""

    def __init__(
        self,
        name: str,
        turnstile: Turnstile,
        *,
        loop: VirtualLoop,
        rng: Random,
        faults: StoreFaults | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._name = name
        self._turnstile = turnstile
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._clock = SimClock(loop)
        self.faults = faults or StoreFaults()
        self.is_cut_off = False
        self._flows = asyncio.Event()
        self._flows.set()

    def stall(self, *, stalls: bool) -> None:
        """Hold all transactions up, as a network does that drops packets for a while and delivers them in the end."""
        if stalls:
            self._flows.clear()
        else:
            self._flows.set()

    @asynccontextmanager
    async def pass_through(self) -> AsyncIterator[None]:
        """Wrap one transaction, from before the connection is taken until after it is given back."""
        await self._delay()
        await self._flows.wait()
        if self._breaks(self.faults.refuse):
            self._note("refused")
            raise StoreUnavailable(f"{self._name}: the simulated database refuses the connection.")
        async with self._turnstile.turn():
            self._note("begin")
            yield
            self._note("end")
        await self._delay()
        if self._breaks(self.faults.lose_reply):
            self._note("reply lost")
            raise StoreUnavailable(f"{self._name}: the simulated connection broke after the commit.")

    async def on_begin(self, transaction: Transaction) -> None:
        """Set the database's clock to the virtual one, as the first statement of the transaction."""
        # In one message and for the session, whose next transaction sets it anew: the driver sends BEGIN with the first
        # statement of its own. Names and times need no quoting.
        raw = await transaction.connection.get_raw_connection()
        driver: Any = raw.driver_connection
        await driver.execute(SET_VIRTUAL_NOW.format(now=self.now().isoformat(), participant=self._name))
        if self._strikes(self.faults.slow):
            self._note("slow")
            with self._loop.without_io():
                await self._clock.sleep(self._rng.uniform(0, self.faults.delay_s))
        if self._strikes(self.faults.break_off):
            self._note("broken off")
            raise ConnectionResetError(f"{self._name}: the simulated connection broke inside the transaction.")

    def now(self) -> datetime:
        return true_time(self._loop)

    async def _delay(self) -> None:
        if self._strikes(self.faults.delay):
            await self._clock.sleep(self._rng.uniform(0, self.faults.delay_s))

    def _breaks(self, probability: float) -> bool:
        return self.is_cut_off or self._strikes(probability)

    def _strikes(self, probability: float) -> bool:
        # No draw for a fault that is switched off: a plan without it has the same order with or without the code.
        return probability > 0 and self._rng.random() < probability

    def _note(self, event: str) -> None:
        if self._trace is not None:
            self._trace.add(f"{self._name} {event}")
