"""A limit on bytes per second, shared by all that take from it. A quarter of a second's worth may go at once."""

from __future__ import annotations

from corral.ports.runtime import Clock

_BURST_S = 0.25


class Throttle:
    """Without a limit it never waits."""

    def __init__(self, bytes_per_s: int | None, clock: Clock) -> None:
        assert bytes_per_s is None or bytes_per_s > 0, "a limit is more than nothing"
        self._rate = bytes_per_s
        self._clock = clock
        # When the bytes that were let through so far are due.
        self._due = 0.0

    @property
    def is_open(self) -> bool:
        return self._rate is None

    async def take(self, count: int) -> None:
        """Wait until so many more bytes may move."""
        if self._rate is None:
            return
        now = self._clock.monotonic()
        self._due = max(self._due, now - _BURST_S) + count / self._rate
        if self._due > now:
            await self._clock.sleep(self._due - now)
