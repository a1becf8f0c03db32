"""Bundles all observers of a frontend's requests: numbers, rates, access log, traces.

Open requests are counted on demand, in one pass over them; a request pays nothing for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from corral.domain.cluster import OutboxEvent
from corral.insight.access_log import AccessLog, AccessLogStyle
from corral.insight.load_tracer import LoadTracer
from corral.insight.recent_rates import RecentRates
from corral.insight.request_tracer import RequestTracer
from corral.insight.tally import RequestTally, TallyKey
from corral.ports.requests import RequestListener, SpanExporter
from corral.ports.runtime import Clock, IdGenerator


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStatus:
    """Says for metrics whether a replica's circuit breaker lets requests pass: `closed` is the good state."""

    model: str
    state: str


class FleetView(Protocol):
    """Interface that shows what this frontend serves now, from memory: models, circuit breakers, open requests."""

    def list_models(self) -> Collection[str]: ...

    def list_breakers(self) -> Mapping[str, BreakerStatus]:
        """Return the breaker of every served replica, by replica id."""
        ...

    def list_open_requests(self) -> Iterable[OpenRequest]: ...

    def is_leader(self) -> bool:
        """Return whether this frontend reports what all frontends see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMonitorOptions:
    """Options of a frontend's request monitor: how requests are logged and which share of traces is kept."""

    access_log: AccessLogStyle = AccessLogStyle.OFF
    # The share of the traces beginning here that is kept.
    trace_share: float = 1.0


class RequestMonitor:
    """Observes a frontend's inference requests: counts them, computes rates, writes the access log and traces."""

    def __init__(
        self,
        options: RequestMonitorOptions,
        fleet: FleetView,
        clock: Clock,
        ids: IdGenerator,
        spans: SpanExporter | None = None,
    ) -> None:
        self._exporter = spans
        self.fleet = fleet
        self.tally = RequestTally()
        self.recent = RecentRates(self.tally, clock)
        self.traces = RequestTracer(spans, ids, share=options.trace_share) if spans is not None else None
        self._load_tracer = LoadTracer(spans, ids, fleet.is_leader) if spans is not None else None
        self.listeners: list[RequestListener] = [self.tally]
        if self.traces is not None:
            self.listeners.append(self.traces)
        if options.access_log is not AccessLogStyle.OFF:
            self.listeners.append(AccessLog(options.access_log))

    def count_open(self) -> OpenRequestCounts:
        return count_open_requests(self.fleet.list_open_requests())

    def count_open_breakers(self) -> dict[str, int]:
        """Return how many replicas are left out, by model."""
        breakers = self.fleet.list_breakers().values()
        counts = dict.fromkeys((breaker.model for breaker in breakers), 0)
        for breaker in breakers:
            counts[breaker.model] += breaker.state != "closed"
        return counts

    async def tick(self) -> int:
        """Record snapshots of the sums, and forget models and replicas that are gone."""
        noted = self.recent.record_snapshots(self.count_open().events)
        self.tally.forget(self.fleet.list_models(), self.fleet.list_breakers().keys())
        return noted

    def follow(self, events: Sequence[OutboxEvent]) -> None:
        if self._load_tracer is not None:
            self._load_tracer.follow(events)

    async def send_traces(self) -> int:
        if self.traces is None or self._load_tracer is None:
            return 0
        return await self._load_tracer.tick() + await self.traces.tick()

    async def close(self) -> None:
        """Send the remaining spans."""
        if self._exporter is not None:
            try:
                await self.send_traces()
            finally:
                await self._exporter.close()


class OpenRequest(Protocol):
    """Interface of an inference request that has not ended, as far as it is counted."""

    @property
    def tally_key(self) -> tuple[str, str, str]: ...

    @property
    def is_streaming(self) -> bool: ...

    @property
    def events(self) -> int: ...


@dataclass(frozen=True, slots=True)
class OpenRequestCounts:
    """Counts a frontend's inference requests that have not ended: all, streams, and those that wait for a replica."""

    requests: int = 0
    streams: int = 0
    # The requests without a replica, by model.
    waiting: Counter[str] = field(default_factory=Counter)
    # The requests in flight, by replica.
    in_flight: Counter[str] = field(default_factory=Counter)
    # The events that were sent so far, by stream.
    events: Counter[TallyKey] = field(default_factory=Counter)
    # All open requests, by tally key.
    places: Counter[TallyKey] = field(default_factory=Counter)


def count_open_requests(requests: Iterable[OpenRequest]) -> OpenRequestCounts:
    """Count open requests. Thousands may be open, so the pass itself only counts, and the sums are computed after
    it."""
    counts: Counter[tuple[str, str, str]] = Counter()
    events: Counter[tuple[str, str, str]] = Counter()
    streams = 0
    for request in requests:
        tally_key = request.tally_key
        counts[tally_key] += 1
        if request.is_streaming:
            streams += 1
            events[tally_key] += request.events
    waiting: Counter[str] = Counter()
    in_flight: Counter[str] = Counter()
    for (model, _, replica_id), count in counts.items():
        if replica_id:
            in_flight[replica_id] += count
        else:
            waiting[model] += count
    return OpenRequestCounts(
        counts.total(), streams, waiting, in_flight, _with_tally_keys(events), _with_tally_keys(counts)
    )


def _with_tally_keys(counts: Counter[tuple[str, str, str]]) -> Counter[TallyKey]:
    return Counter({TallyKey(*tally_key): count for tally_key, count in counts.items()})
