"""Once a day, what takes room in the folders of backends and of models and is of no use is thrown away.

A removal and a finished installation clean up after themselves; this is for what is left: downloads that nobody has
continued, and what a disk in trouble did not let go. What jobs are at is never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.ports.runtime import Clock
from corral.runtime.guard import Done, Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.worker.work import Files, Installer

log = structlog.get_logger(__name__)

EVERY_S = 24 * 3600.0


class DailyCollection:
    """A service."""

    name = "collection"

    def __init__(
        self,
        collectors: tuple[Installer | Files, ...],
        clock: Clock,
        rng: Random,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._collectors = collectors
        self.loop = Loop(LoopPlan(name=self.name, interval_s=EVERY_S), self.tick, clock, rng, on_crash=on_crash)

    async def start(self) -> None:
        await self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    async def tick(self) -> None:
        outcomes = [await attempt(collector.collect) for collector in self._collectors]
        for outcome in outcomes:
            if isinstance(outcome, Done) and outcome.value.items:
                found = outcome.value
                log.info("unused files were thrown away", count=len(found.items), freed_bytes=found.size_bytes)
        failed = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
        if failed is not None:
            raise failed.error
