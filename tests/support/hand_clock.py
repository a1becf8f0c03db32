"""A clock that stands still until the test moves it."""

from __future__ import annotations

from datetime import UTC, datetime


class HandClock:
    """A `Clock` that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
