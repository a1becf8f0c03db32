"""Traces of loads: how long a worker took for the files and for the engine of a replica.

    corral.load ──┬── corral.load.files     until all files are on the node
                  └── corral.load.engine    until the engine says that it is ready

Spans are made from the events of replicas, which have the database's time. The trace's id is the replica's, so that one
finds the other. Every frontend follows the events, and the leader sends the spans. Limit: a load that began before this
frontend started, or of which an event was missed, has no trace.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.domain.cluster import OutboxEvent
from corral.domain.replica import ReplicaState
from corral.ports.requests import SpanExporter, TraceSpan
from corral.ports.runtime import IdGenerator

# More than a fleet loads at a time; beyond it the oldest are forgotten.
OPEN_MAX = 1_000
WAITING_MAX = 3_000
_NS = 1_000_000_000


@dataclass(slots=True)
class _OpenLoad:
    """Tracks one load of a replica until it has ended."""

    model: str
    node_id: str
    began_at: datetime
    has_files_at: datetime | None = None


class LoadTracer:
    """Makes OpenTelemetry traces of model loads from the events of replicas, and sends them."""

    def __init__(self, exporter: SpanExporter, ids: IdGenerator, is_leader: Callable[[], bool]) -> None:
        self._exporter = exporter
        self._ids = ids
        self._is_leader = is_leader
        self._open: OrderedDict[str, _OpenLoad] = OrderedDict()
        self._waiting: deque[TraceSpan] = deque(maxlen=WAITING_MAX)

    def follow(self, events: Sequence[OutboxEvent]) -> None:
        for event in events:
            replica_id = event.data.get("id")
            if isinstance(replica_id, str) and event.kind in ("replica.changed", "replica.removed"):
                self._apply_event(replica_id, event)

    async def tick(self) -> int:
        """Send the waiting spans and return how many there were. Spans that cannot be sent are dropped."""
        spans = list(self._waiting)
        self._waiting.clear()
        if spans:
            await self._exporter.send(spans)
        return len(spans)

    def _apply_event(self, replica_id: str, event: OutboxEvent) -> None:
        state = event.data.get("state")
        if state == ReplicaState.STAGING:
            self._open[replica_id] = _OpenLoad(event.key, str(event.data.get("node_id", "")), event.at)
            if len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        elif replica_id in self._open and state == ReplicaState.LOADING:
            self._open[replica_id].has_files_at = event.at
        elif replica_id in self._open:
            load, is_loaded = self._open.pop(replica_id), state == ReplicaState.LOADED
            if self._is_leader():
                self._add_spans(replica_id, load, event.at, "" if is_loaded else "load_failed")

    def _add_spans(self, replica_id: str, load: _OpenLoad, ended_at: datetime, error: str) -> None:
        trace_id, whole_id = replica_id.replace("-", ""), self._make_span_id()
        attributes = {"corral.model": load.model, "corral.node_id": load.node_id, "corral.replica": replica_id}

        def span(name: str, begin: datetime, end: datetime, *, span_id: str, parent_id: str = "") -> TraceSpan:
            return TraceSpan(
                name=name,
                trace_id=trace_id,
                span_id=span_id,
                parent_id=parent_id,
                begin_ns=_to_ns(begin),
                end_ns=_to_ns(end),
                attributes=attributes,
                error=error if end == ended_at else "",
            )

        files_at = load.has_files_at or ended_at
        self._waiting.append(span("corral.load", load.began_at, ended_at, span_id=whole_id))
        self._waiting.append(
            span("corral.load.files", load.began_at, files_at, span_id=self._make_span_id(), parent_id=whole_id)
        )
        if load.has_files_at is not None:
            self._waiting.append(
                span(
                    "corral.load.engine", load.has_files_at, ended_at, span_id=self._make_span_id(), parent_id=whole_id
                )
            )

    def _make_span_id(self) -> str:
        return self._ids.new_id().replace("-", "")[16:]


def _to_ns(moment: datetime) -> int:
    return int(moment.timestamp() * _NS)
