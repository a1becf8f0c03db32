"""Tells the control plane what is installed here: after every change, with every place that the node gets, and again.

Guarantee: a change is reported until a frontend has taken it, however long that lasts. A frontend that is too old to
know the route is no error; the next report may meet a newer one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in

from corral.domain.backend import InstalledBackend
from corral.domain.errors import NotFound
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.signals import Signal
from corral.wire.backends import BackendsReportIn, InstalledIn
from corral.worker.control import ControlPlane
from corral.worker.jobs.runner import Holdings
from corral.worker.trouble import Trouble

EVERY_S = 60.0
FIRST_RETRY_S = 1.0
# What a report may hold; the route takes no more.
MAX_REPORTED = 1000


class BackendReports:
    """A service. `place` is the node's id while it is approved, and None before."""

    name = "backend reports"

    def __init__(
        self,
        control: ControlPlane,
        holdings: Callable[[str], Awaitable[Holdings]],
        *,
        boot_id: str,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._control = control
        self._holdings = holdings
        self._boot_id = boot_id
        self._trouble = Trouble("reporting installed backends")
        self._failures = 0
        self.place: Callable[[], str | None] = lambda: None
        self.taken: Signal[str] = Signal()
        self.loop = Loop(LoopPlan(name=self.name, interval_s=EVERY_S), self.tick, clock, rng)

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
            self._pace(EVERY_S)
            return
        outcome = await attempt(lambda: self._send(node_id))
        if isinstance(outcome, Failed) and not _is_too_old(outcome.error):
            self._trouble.tell(outcome.error)
            self._failures += 1
            self._pace(min(EVERY_S, FIRST_RETRY_S * 2 ** min(self._failures - 1, 10)))
            return
        self._trouble.over()
        self._failures = 0
        self._pace(EVERY_S)
        self.taken.fire(node_id)

    async def _send(self, node_id: str) -> None:
        held = await self._holdings(node_id)
        # The newest removals, if there are too many.
        removed = sorted(held.removed.items(), key=lambda item: item[1])[-MAX_REPORTED:]
        report = BackendsReportIn(
            boot_id=self._boot_id,
            backends=[_told(each) for each in held.installed[:MAX_REPORTED]],
            removed=dict(removed),
        )
        await self._control.report_backends(node_id, report)

    def _pace(self, interval_s: float) -> None:
        self.loop.plan = LoopPlan(name=self.name, interval_s=interval_s, jitter=0.2)


def _is_too_old(error: Exception) -> bool:
    """No such route. A node that is not known any more is another matter: its heartbeat sees to that."""
    return isinstance(error, NotFound) and error.slug != "node_not_found"


def _told(installed: InstalledBackend) -> InstalledIn:
    return InstalledIn(
        name=installed.name,
        meta=installed.meta,
        alias=installed.alias,
        version=installed.version,
        digest=installed.digest,
        uri=installed.uri,
        gallery=installed.gallery,
        generation=installed.generation,
        size_bytes=installed.size_bytes,
        previous_version=installed.previous_version,
        is_system=installed.is_system,
        installed_at=installed.installed_at,
    )
