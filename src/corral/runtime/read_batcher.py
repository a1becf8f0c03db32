"""Batches the reads of one turn of the event loop on all connections, and delivers them together after the last read.

A busy loop finds many connections readable at once. Delivering each read at once sends the processor from the kernel to
Python and back for each of them, and each time its caches are full of the other's code. So many reads are collected
first and delivered then, and work that can be done once for all of them is done once (`at_end`). Guarantee: the data of
a connection is delivered in order, and all of it before the loop waits again. A receiver that raises is cut off, and
the others go on. With few connections, everything is delivered at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

# Fewer reads than this in one turn are not worth a batch, …
BATCH_MIN = 3
# … and this many reads are then delivered at once, before the batcher counts again.
DIRECT_COUNT = 16
# A larger read is delivered at once, because more may follow and its receiver must be able to pause the sender first.
KEPT_BYTES_MAX = 64 * 1024


class DataReceiver(Protocol):
    """Interface of a network connection that receives the data which a `ReadBatcher` has read for it."""

    def receive_data(self, data: bytes) -> None: ...

    def on_receive_error(self) -> None:
        """Close after the receiver has raised. It receives no more data."""
        ...


class ReadBatcher:
    """Gathers what one turn of the event loop has read on all network connections, and delivers it together.

    Delivering it together is cheaper than one by one.
    """

    __slots__ = ("_direct_left", "_pending", "batch_callbacks", "is_running")

    def __init__(self) -> None:
        self._pending: list[tuple[DataReceiver, bytes]] = []
        self._direct_left = 0
        # Called after all reads of a batch were delivered.
        self.batch_callbacks: list[Callable[[], None]] = []
        self.is_running = False

    def add(self, receiver: DataReceiver, data: bytes) -> None:
        pending = self._pending
        if self._direct_left:
            self._direct_left -= 1
            receiver.receive_data(data)
        elif len(data) > KEPT_BYTES_MAX:
            self.run()
            receiver.receive_data(data)
        else:
            if not pending:
                asyncio.get_running_loop().call_soon(self.run)
            pending.append((receiver, data))

    def run(self) -> None:
        """Deliver all collected reads. No-op without any, and when called from inside itself."""
        pending = self._pending
        if not pending or self.is_running:
            return
        self._pending = []
        self._direct_left = DIRECT_COUNT if len(pending) < BATCH_MIN else 0
        self.is_running = True
        left = iter(pending)
        try:
            for taker, data in left:
                taker.receive_data(data)
        except BaseException:
            self._requeue([*left])
            taker.on_receive_error()
            raise
        finally:
            self.is_running = False
            for end in self.batch_callbacks:
                end()

    def _requeue(self, left: list[tuple[DataReceiver, bytes]]) -> None:
        """Deliver these reads in the next turn, ahead of its own."""
        self._pending = [*left, *self._pending]
        if self._pending:
            self._direct_left = 0
            asyncio.get_running_loop().call_soon(self.run)
