"""Requests that wait until a replica of a loaded model has room.

Whose turn it is goes by `policy/serving/fairness.py`. A request that was given a replica before and lost it goes first:
it has had its turn, and only the replicas that it has not tried are of use to it.

Guarantee: what is handed over is used or released, also if the one who waited for it leaves in that very moment; who
leaves is out of the line at once. Everybody is woken once, with a replica or to look again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from corral.policy.serving.fairness import Turns


class Releasable(Protocol):
    def release(self) -> None: ...


T = TypeVar("T", bound=Releasable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request that wants a replica. `without`: those that are of no use to it."""

    who: str = ""
    cost: int = 1
    without: Collection[str] = ()
    # It was given one before.
    is_again: bool = False


class Queue(Generic[T]):
    """`take` gives a replica that has room and is none of these, or None."""

    def __init__(self, take: Callable[[Collection[str]], T | None]) -> None:
        self._take = take
        self._turns: Turns[asyncio.Future[T | None]] = Turns()
        self._again: dict[asyncio.Future[T | None], Collection[str]] = {}
        # A plain number: it is looked at by every request.
        self.count = 0

    async def wait(self, asking: Asking, within_s: float) -> T | None:
        """A replica; None: look again, things have changed. `TimeoutError` after `within_s`."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        ticket = 0
        if asking.is_again:
            self._again[future] = asking.without
        else:
            ticket = self._turns.add(asking.who, asking.cost, future)
        self.count += 1
        # If there is room after all, nobody else would notice.
        self.serve()
        try:
            async with asyncio.timeout(within_s):
                return await future
        except BaseException:
            self._leave(future, ticket)
            raise

    def serve(self) -> None:
        """Hand over what is free, to whoever's turn it is."""
        for future, without in tuple(self._again.items()):
            thing = None if future.done() else self._take(without)
            if thing is not None:
                self._drop_again(future)
                future.set_result(thing)
        while self.count > len(self._again):
            thing = self._take(())
            if thing is None:
                return
            self._hand_over(thing)

    def wake(self, *, only_again: bool = False) -> None:
        """Have them look again: other replicas are there than those that they wait for."""
        woken = list(self._again)
        self._again.clear()
        self.count -= len(woken)
        if not only_again:
            others = self._turns.clear()
            self.count -= len(others)
            woken += others
        for future in woken:
            if not future.done():
                future.set_result(None)

    def _hand_over(self, thing: T) -> None:
        while (future := self._turns.take()) is not None:
            self.count -= 1
            # Its client has left, and it has had no time yet to leave the line.
            if not future.done():
                future.set_result(thing)
                return
        thing.release()

    def _leave(self, future: asyncio.Future[T | None], ticket: int) -> None:
        if not self._drop_again(future) and self._turns.remove(ticket):
            self.count -= 1
        handed = future.result() if future.done() and not future.cancelled() else None
        if handed is not None:
            handed.release()

    def _drop_again(self, future: asyncio.Future[T | None]) -> bool:
        if self._again.pop(future, None) is None:
            return False
        self.count -= 1
        return True
