"""All that is seen of a frontend's requests, in one piece: numbers, rates, access log, traces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from corral.domain.cluster import Event
from corral.insight.access_log import AccessLog, AccessLogStyle
from corral.insight.going import Going, UnderWay, look
from corral.insight.load_traces import LoadTraces
from corral.insight.recent import Recent
from corral.insight.tally import Tally
from corral.insight.traces import Traces
from corral.ports.answers import Listener
from corral.ports.runtime import Clock, Ids
from corral.ports.traces import Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Whether a replica is given requests: `closed` is the good state."""

    model: str
    state: str


class Fleet(Protocol):
    """What is served now, from memory."""

    def models(self) -> Collection[str]: ...

    def breakers(self) -> Mapping[str, Breaker]:
        """By replica; every one that is served is there."""
        ...

    def under_way(self) -> Iterable[UnderWay]: ...

    def leads(self) -> bool:
        """Whether this frontend is the one that tells what all of them see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightOptions:
    access_log: AccessLogStyle = AccessLogStyle.OFF
    # How many of the traces that begin here are kept.
    trace_share: float = 1.0


class Insight:
    def __init__(
        self, options: InsightOptions, fleet: Fleet, clock: Clock, ids: Ids, spans: Spans | None = None
    ) -> None:
        self._spans = spans
        self.fleet = fleet
        self.tally = Tally()
        self.recent = Recent(self.tally, clock)
        self.traces = Traces(spans, ids, share=options.trace_share) if spans is not None else None
        self._loads = LoadTraces(spans, ids, fleet.leads) if spans is not None else None
        self.listeners: list[Listener] = [self.tally]
        if self.traces is not None:
            self.listeners.append(self.traces)
        if options.access_log is not AccessLogStyle.OFF:
            self.listeners.append(AccessLog(options.access_log))

    def going(self) -> Going:
        return look(self.fleet.under_way())

    def open_breakers(self) -> dict[str, int]:
        """By model, how many replicas are left out."""
        breakers = self.fleet.breakers().values()
        counts = dict.fromkeys((breaker.model for breaker in breakers), 0)
        for breaker in breakers:
            counts[breaker.model] += breaker.state != "closed"
        return counts

    async def tick(self) -> int:
        """Note what there is, and let go of what is gone."""
        noted = self.recent.note(self.going().events)
        self.tally.forget(self.fleet.models(), self.fleet.breakers().keys())
        return noted

    def follow(self, events: Sequence[Event]) -> None:
        if self._loads is not None:
            self._loads.follow(events)

    async def send_traces(self) -> int:
        if self.traces is None or self._loads is None:
            return 0
        return await self._loads.tick() + await self.traces.tick()

    async def close(self) -> None:
        """Send what is left."""
        if self._spans is not None:
            try:
                await self.send_traces()
            finally:
                await self._spans.close()
