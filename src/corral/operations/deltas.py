"""Publishes the progress of operations to watchers, on this frontend and on the others.

Deltas that were published several times since the last pass are sent once, with every target that moved; so an
operation is sent at most four times a second, and its last state always. A slow watcher misses steps in between,
never the newest. Limit: a delta is a hint beside the rows; one that is lost on the bus is in the row a moment later.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import replace

from corral.bus.messages import OperationDelta
from corral.bus.subjects import OPERATION_DELTA
from corral.domain.errors import CorralError, TooLarge
from corral.operations.job_reports import merge_targets
from corral.ports.bus import Bus, Delivery

# A little more than a quarter of a second: even with jitter the loop stays under four passes a second.
INTERVAL_S = 0.28
# Limits the operations that a watcher has not read yet, that wait for the next pass, or whose last revision is
# remembered.
OPERATIONS_MAX = 2000


class OperationDeltaFeed:
    """Publishes progress of operations to watchers at this frontend and the others, a few times a second."""

    def __init__(self, bus: Bus, frontend_id: str) -> None:
        self._bus = bus
        self._frontend_id = frontend_id
        self._waiting: OrderedDict[str, OperationDelta] = OrderedDict()
        self.watchers: set[DeltaSubscription] = set()
        self._revisions: OrderedDict[str, int] = OrderedDict()

    def publish(self, delta: OperationDelta) -> None:
        """Queue a delta for the next pass, which sends it to watchers here and to the peers."""
        _put(self._waiting, replace(delta, origin=self._frontend_id))

    async def tick(self) -> int:
        """Send the queued deltas and return how many operations they covered."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for delta in waiting.values():
            self._pass_to_watchers(delta)
        for delta in waiting.values():
            try:
                await self._bus.publish(OPERATION_DELTA, delta)
            except TooLarge:
                continue  # Too large for the bus: watchers of the peers read the operation from its row.
            except CorralError:
                break  # The bus is away: watchers of the peers read the operation from its row.
        return len(waiting)

    async def on_delta(self, delivery: Delivery[OperationDelta]) -> None:
        """Pass the delta of a peer on to watchers here. This frontend's own deltas come back as well, and change
        nothing."""
        if delivery.message.origin != self._frontend_id:
            self._pass_to_watchers(delivery.message)

    def _pass_to_watchers(self, delta: OperationDelta) -> None:
        if delta.rev < self._revisions.get(delta.operation_id, 0):
            return
        self._revisions[delta.operation_id] = delta.rev
        self._revisions.move_to_end(delta.operation_id)
        while len(self._revisions) > OPERATIONS_MAX:
            self._revisions.popitem(last=False)
        for watcher in self.watchers:
            watcher.put(delta)

    async def watch(self) -> AsyncGenerator[OperationDelta, None]:
        """Yield every delta from now on, the newest of each operation."""
        watcher = DeltaSubscription()
        self.watchers.add(watcher)
        try:
            while True:
                yield await watcher.next()
        finally:
            self.watchers.discard(watcher)


class DeltaSubscription:
    """Progress of operations that one watcher has not read yet: the newest of each operation."""

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


def _put(waiting: OrderedDict[str, OperationDelta], delta: OperationDelta) -> None:
    older = waiting.get(delta.operation_id)
    if older is not None:
        newest = delta if delta.rev >= older.rev else older
        first, second = (older, delta) if newest is delta else (delta, older)
        delta = replace(newest, targets=merge_targets(first.targets, second.targets))
    waiting[delta.operation_id] = delta
    while len(waiting) > OPERATIONS_MAX:
        waiting.popitem(last=False)
