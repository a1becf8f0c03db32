"""Time, ids and randomness as parameters: this is what makes the simulator possible."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Interface that tells the time and sleeps, so that tests can replace it.

    Durations come from `monotonic`; `wall` is for people and for what crosses a machine.

    What is *stored and compared* never comes from here: the database stamps it.
    """

    def monotonic(self) -> float: ...

    def wall(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class IdGenerator(Protocol):
    """Interface that generates ids and secrets that cannot be guessed, so that tests can replace it."""

    def new_id(self) -> str:
        """Return a UUID that grows with time."""
        ...

    def new_secret(self) -> str:
        """Return 256 random bits as URL-safe text."""
        ...
