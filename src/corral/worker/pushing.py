"""Tells the control plane something about this node: after every change, with every place that it gets, and again.

Guarantee: a change is told until a frontend has taken it, however long that lasts. A frontend that is too old to know
the route is no error; the next report may meet a newer one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in

from corral.domain.errors import NotFound
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.signals import Signal
from corral.worker.trouble import Trouble

FIRST_RETRY_S = 1.0

# Tells it in the name of this node.
Send = Callable[[str], Awaitable[None]]


class Pushing:
    """A service. `place` is the node's id while it is approved, and None before."""

    def __init__(self, name: str, send: Send, *, every_s: float, clock: Clock, rng: Random) -> None:
        self.name = name
        self._send = send
        self._every_s = every_s
        self._trouble = Trouble(f"reporting {name}")
        self._failures = 0
        self.place: Callable[[], str | None] = lambda: None
        # The node in whose name a frontend has taken a report last.
        self.taken_for: str | None = None
        self.on_taken: Callable[[], None] = lambda: None
        self.taken: Signal[str] = Signal()
        self.loop = Loop(LoopPlan(name=name, interval_s=every_s), self.tick, clock, rng)

    async def start(self) -> None:
        await self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    def wake(self) -> None:
        """Something has changed: report it now."""
        self.loop.wake()

    async def tick(self) -> None:
        node_id = self.place()
        if node_id is None:
            # The next place that the node gets wakes this.
            self._pace(self._every_s)
            return
        outcome = await attempt(lambda: self._send(node_id))
        if isinstance(outcome, Failed) and not _is_too_old(outcome.error):
            self._trouble.tell(outcome.error)
            self._failures += 1
            self._pace(min(self._every_s, FIRST_RETRY_S * 2 ** min(self._failures - 1, 10)))
            return
        self._trouble.over()
        self._failures = 0
        self._pace(self._every_s)
        self.taken_for = node_id
        self.taken.fire(node_id)
        self.on_taken()

    def _pace(self, interval_s: float) -> None:
        self.loop.plan = LoopPlan(name=self.name, interval_s=interval_s, jitter=0.2)


def _is_too_old(error: Exception) -> bool:
    """No such route. A node that is not known any more is another matter: its heartbeat sees to that."""
    return isinstance(error, NotFound) and error.slug != "node_not_found"
