"""How far operations are, for eyes that watch: on this frontend and on the others.

What was published several times since the last pass is told once, with every target that moved; so an operation is
told at most four times a second, and its last word always. A watcher that does not keep up misses steps between, never
the newest. Limits: it is a hint beside the rows; what is lost on the bus is in the row a moment later.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import replace

from corral.bus.messages import OperationDelta
from corral.bus.subjects import OPERATION_DELTA
from corral.domain.errors import CorralError, TooLarge
from corral.operations.hearing import merged_targets
from corral.ports.bus import Bus, Delivery

# A little more than a quarter of a second: with its jitter the loop still stays under four a second.
INTERVAL_S = 0.28
# Operations that a watcher has not taken yet, that wait for the next pass, or whose last revision is remembered.
OPERATIONS_MAX = 2000


class Deltas:
    def __init__(self, bus: Bus, frontend_id: str) -> None:
        self._bus = bus
        self._frontend_id = frontend_id
        self._waiting: OrderedDict[str, OperationDelta] = OrderedDict()
        self.watchers: set[Watcher] = set()
        self._revisions: OrderedDict[str, int] = OrderedDict()

    def publish(self, delta: OperationDelta) -> None:
        """Told at the next pass, here and to the peers."""
        _put(self._waiting, replace(delta, origin=self._frontend_id))

    async def tick(self) -> int:
        """Tell what is waiting; how many operations that were."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for delta in waiting.values():
            self._show(delta)
        for delta in waiting.values():
            try:
                await self._bus.publish(OPERATION_DELTA, delta)
            except TooLarge:
                continue  # The peers' watchers read it from the rows.
            except CorralError:
                break  # So they do when the bus is away.
        return len(waiting)

    async def on_delta(self, delivery: Delivery[OperationDelta]) -> None:
        """A peer tells. Our own words come back as well, and change nothing."""
        if delivery.message.origin != self._frontend_id:
            self._show(delivery.message)

    def _show(self, delta: OperationDelta) -> None:
        if delta.rev < self._revisions.get(delta.operation_id, 0):
            return
        self._revisions[delta.operation_id] = delta.rev
        self._revisions.move_to_end(delta.operation_id)
        while len(self._revisions) > OPERATIONS_MAX:
            self._revisions.popitem(last=False)
        for watcher in self.watchers:
            watcher.put(delta)

    async def watch(self) -> AsyncGenerator[OperationDelta, None]:
        """Everything that is told from now on, the newest of each operation."""
        watcher = Watcher()
        self.watchers.add(watcher)
        try:
            while True:
                yield await watcher.next()
        finally:
            self.watchers.discard(watcher)


class Watcher:
    """What one watcher has not taken yet: the newest of each operation."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OperationDelta] = OrderedDict()
        self._has_some = asyncio.Event()

    def put(self, delta: OperationDelta) -> None:
        _put(self._waiting, delta)
        self._has_some.set()

    async def next(self) -> OperationDelta:
        while not self._waiting:
            self._has_some.clear()
            await self._has_some.wait()
        return self._waiting.popitem(last=False)[1]

    def take_all(self) -> list[OperationDelta]:
        """What waits now, without waiting for more."""
        waiting, self._waiting = self._waiting, OrderedDict()
        return list(waiting.values())


def _put(waiting: OrderedDict[str, OperationDelta], delta: OperationDelta) -> None:
    older = waiting.get(delta.operation_id)
    if older is not None:
        newest = delta if delta.rev >= older.rev else older
        first, second = (older, delta) if newest is delta else (delta, older)
        delta = replace(newest, targets=merged_targets(first.targets, second.targets))
    waiting[delta.operation_id] = delta
    while len(waiting) > OPERATIONS_MAX:
        waiting.popitem(last=False)
