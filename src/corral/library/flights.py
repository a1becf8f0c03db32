"""One flight for each content: whoever wants what is under way already joins, and gets the same result.

A flight ends when it is done, or when the last of those who wait for it has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from corral.domain.errors import Unavailable
from corral.runtime.guard import Done, Failed, attempt
from corral.runtime.tasks import Tasks

T = TypeVar("T")
# How many bytes are there by now, and how many there will be, if that is known.
Heard = Callable[[int, int | None], None]


@dataclass(slots=True)
class _Flight(Generic[T]):
    task: asyncio.Task[Done[T] | Failed]
    listeners: list[Heard] = field(default_factory=list)
    is_ending: bool = False


class Flights(Generic[T]):
    def __init__(self, name: str) -> None:
        self._tasks = Tasks(name)
        self._flights: dict[str, _Flight[T]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    async def join(self, key: str, work: Callable[[Heard], Awaitable[T]], heard: Heard) -> T:
        """The result of the flight with this key, begun with `work` if there is none."""
        while (flight := self._flights.get(key)) is not None and flight.is_ending:
            await asyncio.wait({flight.task})
        flight = flight or self._begin(key, work)
        flight.listeners.append(heard)
        try:
            # Not the task itself: whoever is cancelled here leaves, and the flight goes on for the others.
            await asyncio.wait({flight.task})
        finally:
            flight.listeners.remove(heard)
            if not flight.listeners and not flight.task.done():
                # Nobody wants it any more. It is waited for: the next flight for this content finds a quiet folder.
                flight.is_ending = True
                flight.task.cancel()
                await asyncio.wait({flight.task})
        if flight.task.cancelled():
            raise Unavailable("This frontend is stopping.", code="stopping")
        outcome = flight.task.result()
        if isinstance(outcome, Failed):
            raise outcome.error
        return outcome.value

    async def close(self) -> None:
        await self._tasks.close()

    def _begin(self, key: str, work: Callable[[Heard], Awaitable[T]]) -> _Flight[T]:
        listeners: list[Heard] = []

        def tell(current: int, total: int | None) -> None:
            for listener in tuple(listeners):
                listener(current, total)

        async def fly() -> Done[T] | Failed:
            try:
                return await attempt(lambda: work(tell))
            finally:
                del self._flights[key]

        flight = _Flight[T](self._tasks.start(fly(), name=key[:16]), listeners)
        self._flights[key] = flight
        return flight
