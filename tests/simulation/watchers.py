"""A browser tab: follows the events, loses its frontend, goes to another and resumes where it was.

It writes down what it saw. `gaps` are the places where the stream required it to read the state anew instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.domain.errors import Unavailable
from corral.events.feed import Feed, QuietNotice, ResetNotice
from tests.simulation.clock import SimClock
from tests.simulation.frontends import SimFrontend
from tests.simulation.worlds import SimulationDeps

QUIET_S = 15.0
RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Describes what was not seen: after `start`, up to `end`."""

    start: OutboxPosition
    end: OutboxPosition


@dataclass(slots=True)
class SeenEvents:
    began: OutboxPosition | None = None
    position: OutboxPosition | None = None
    events: list[OutboxEvent] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


class Watcher:
    def __init__(self, name: str, around: SimulationDeps, frontends: Sequence[SimFrontend]) -> None:
        self.name = name
        self.seen = SeenEvents()
        self._around = around
        self._rng = around.rng(name)
        self._clock = SimClock(around.loop)
        self._frontends = frontends

    async def watch(self) -> None:
        """Watch for ever: a while at one frontend, then a while away, then at another."""
        while True:
            frontend = self._rng.choice(list(self._frontends))
            if frontend.is_well and frontend.core is not None:
                stay_s = self._rng.expovariate(1 / 60)
                streaming = frontend.machine.run(self._stream(frontend.core.feed), name=f"stream to {self.name}")
                await asyncio.wait([streaming], timeout=stay_s)
                streaming.cancel()
                # A frozen frontend keeps the stream without sending; the tab was closed all the same.
                await asyncio.wait([streaming], timeout=RETRY_S)
            away_s = 100.0 if self._rng.random() < 0.1 else RETRY_S
            await self._clock.sleep(self._rng.expovariate(1 / away_s))

    async def _stream(self, feed: Feed) -> None:
        if self.seen.position is None:
            # What `hello` tells at the beginning of a stream.
            self.seen.began = self.seen.position = feed.position
        mine = object()
        self._current = mine
        try:
            async for item in feed.watch(self.seen.position, QUIET_S):
                if self._current is not mine:
                    return
                self._take(item)
        except Unavailable as error:
            self._around.trace.add(f"{self.name} loses its stream: {error.slug}")

    def _take(self, item: OutboxEvent | ResetNotice | QuietNotice) -> None:
        if isinstance(item, QuietNotice):
            return
        if isinstance(item, ResetNotice):
            assert self.seen.position is not None, "a reset before the beginning"
            self._around.trace.add(f"{self.name} gets a reset")
            self.seen.gaps.append(Gap(start=self.seen.position, end=item.position))
        else:
            self.seen.events.append(item)
        self.seen.position = item.position
