"""Tells the control plane what is installed here (`pushing.py` has the guarantee)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in

from corral.domain.backend import InstalledBackend
from corral.ports.runtime import Clock
from corral.wire.backends import BackendsReportIn, InstalledIn
from corral.worker.control import ControlPlane
from corral.worker.jobs.runner import Holdings
from corral.worker.pushing import Pushing

EVERY_S = 60.0
# What a report may hold; the route takes no more.
MAX_REPORTED = 1000


class BackendReports(Pushing):
    """A service."""

    def __init__(
        self,
        control: ControlPlane,
        holdings: Callable[[str], Awaitable[Holdings]],
        *,
        boot_id: str,
        clock: Clock,
        rng: Random,
    ) -> None:
        super().__init__("installed backends", self._report, every_s=EVERY_S, clock=clock, rng=rng)
        self._control = control
        self._holdings = holdings
        self._boot_id = boot_id

    async def _report(self, node_id: str) -> None:
        held = await self._holdings(node_id)
        # The newest removals, if there are too many.
        removed = sorted(held.removed.items(), key=lambda item: item[1])[-MAX_REPORTED:]
        report = BackendsReportIn(
            boot_id=self._boot_id,
            backends=[_told(each) for each in held.installed[:MAX_REPORTED]],
            removed=dict(removed),
        )
        await self._control.report_backends(node_id, report)


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
