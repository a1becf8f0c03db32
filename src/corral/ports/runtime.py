"""Time, ids and chance as parameters: this is what makes the simulator possible."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Durations come from `monotonic`; `wall` is for people's eyes and for what crosses a machine.

    What is *stored and compared* never comes from here: the database stamps it.
    """

    def monotonic(self) -> float: ...

    def wall(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Names and secrets nobody can guess."""

    def new_id(self) -> str:
        """A UUID, growing with time."""
        ...

    def secret(self) -> str:
        """256 random bits, URL-safe."""
        ...
