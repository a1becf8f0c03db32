"""The clock and the ids of one simulated machine.

Guarantee: they implement `corral.ports.runtime`; every machine may have its own offset and drift, and may step its
wall clock, while all of them sleep on the one virtual time.
"""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.simulation.chance import Random

# Virtual time starts here; any fixed moment would do.
START = datetime(2030, 1, 1, tzinfo=UTC)


class SimClock:
    """Tells a machine's time: `offset_s` off the true one from the start, and `drift` seconds per second faster."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, offset_s: float = 0.0, drift: float = 0.0) -> None:
        assert drift > -1, "a clock that stands or runs backwards cannot sleep"
        self._loop = loop
        self._offset_s = offset_s
        self._speed = 1.0 + drift

    def monotonic(self) -> float:
        return self._loop.time() * self._speed

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() + self._offset_s)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(max(0.0, seconds) / self._speed, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back; the monotonic one does not notice."""
        self._offset_s += seconds


class SimIds:
    """Draws UUIDs of version 7 and secrets from the seed: the same in every run, and easy to guess."""

    def __init__(self, rng: Random, clock: SimClock) -> None:
        self._rng = rng
        self._clock = clock

    def new_id(self) -> str:
        milliseconds = int(self._clock.wall().timestamp() * 1000)
        value = milliseconds << 80 | 7 << 76 | self._rng.getrandbits(12) << 64 | 0b10 << 62 | self._rng.getrandbits(62)
        return str(UUID(int=value))

    def new_secret(self) -> str:
        return base64.urlsafe_b64encode(self._rng.randbytes(32)).rstrip(b"=").decode()


def true_time(loop: asyncio.AbstractEventLoop) -> datetime:
    """Return the time of the database's clock."""
    return START + timedelta(seconds=loop.time())


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
