"""Removes unused files from the folders of backends and models, once a day.

A removal and a finished installation clean up after themselves; this is for what is left: downloads that were not
continued, and files that a failing disk did not let go. Files that jobs use are never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.loop import Loop, LoopOptions
from corral.worker.job_ports import BackendInstaller, ModelFiles

log = structlog.get_logger(__name__)

EVERY_S = 24 * 3600.0


class DailyGarbageCollector:
    """Removes unused files of engine backends and models from a worker's disk once a day. A service."""

    name = "collection"

    def __init__(
        self,
        collectors: tuple[BackendInstaller | ModelFiles, ...],
        clock: Clock,
        rng: Random,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._collectors = collectors
        self.loop = Loop(LoopOptions(name=self.name, interval_s=EVERY_S), self.tick, clock, rng, on_crash=on_crash)

    async def start(self) -> None:
        await self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    async def tick(self) -> None:
        outcomes = [await attempt(collector.collect_garbage) for collector in self._collectors]
        for outcome in outcomes:
            if isinstance(outcome, AttemptSuccess) and outcome.value.items:
                found = outcome.value
                log.info("unused files were removed", count=len(found.items), freed_bytes=found.size_bytes)
        failed = next((outcome for outcome in outcomes if isinstance(outcome, AttemptFailure)), None)
        if failed is not None:
            raise failed.error
