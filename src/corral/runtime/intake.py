"""What one turn of the event loop has read, on all connections, taken together behind the last read.

A busy loop finds many connections readable at once. To take what each has brought as soon as it is read sends the
processor from the kernel to Python and back for each of them, and each time its caches are full of the other's code. So
a crowd is read first and taken then, and what can be done once for all of it is done once (`at_end`).
Guarantee: what came on a connection is taken in its order, and all of it before the loop waits again. Who breaks while
it takes is broken off, and the others go on. Where no crowd is, everything is taken at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

# Fewer than this in one turn are no crowd, …
CROWD = 3
# … and so many are then taken as they come, before it is looked again whether one has gathered.
TAKEN_AT_ONCE = 16
# A read that is larger is taken at once, and may be followed by more of its kind: whoever holds it back is asked first.
KEPT_BYTES_MAX = 64 * 1024


class Taker(Protocol):
    def take(self, data: bytes) -> None: ...

    def break_off(self) -> None:
        """It has raised in `take`, and hears nothing more."""
        ...


class Intake:
    __slots__ = ("_came", "_left_at_once", "at_end", "is_running")

    def __init__(self) -> None:
        self._came: list[tuple[Taker, bytes]] = []
        self._left_at_once = 0
        # Called behind everything that was taken together.
        self.at_end: list[Callable[[], None]] = []
        self.is_running = False

    def add(self, taker: Taker, data: bytes) -> None:
        came = self._came
        if self._left_at_once:
            self._left_at_once -= 1
            taker.take(data)
        elif len(data) > KEPT_BYTES_MAX:
            self.run()
            taker.take(data)
        else:
            if not came:
                asyncio.get_running_loop().call_soon(self.run)
            came.append((taker, data))

    def run(self) -> None:
        """Take what has come so far. Harmless if nothing has, and from inside of it."""
        came = self._came
        if not came or self.is_running:
            return
        self._came = []
        self._left_at_once = TAKEN_AT_ONCE if len(came) < CROWD else 0
        self.is_running = True
        left = iter(came)
        try:
            for taker, data in left:
                taker.take(data)
        except BaseException:
            self._go_on_with([*left])
            taker.break_off()
            raise
        finally:
            self.is_running = False
            for end in self.at_end:
                end()

    def _go_on_with(self, left: list[tuple[Taker, bytes]]) -> None:
        """In the next turn, ahead of what comes then."""
        self._came = [*left, *self._came]
        if self._came:
            self._left_at_once = 0
            asyncio.get_running_loop().call_soon(self.run)
