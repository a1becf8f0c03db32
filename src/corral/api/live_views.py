"""The views that watchers get beside the changes: the live view, the numbers of nodes, and the last hour of both.

Guarantee: however many watch, each view is read and rendered once; without watchers, no view is made. A watcher that is
behind gets the newest version of each and skips those in between. Limits: the live view changes at most once a second,
nodes once in two; the history reads the nodes every five seconds, with or without watchers.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from corral.api.views import live_node_to_wire
from corral.domain.errors import StoreUnavailable, Unavailable
from corral.domain.node import NodeId
from corral.insight.history import HistoryKeeper, MetricsHistory, MomentValues
from corral.insight.traffic_aggregator import TrafficAggregator
from corral.ports.runtime import Clock
from corral.store import nodes as node_store
from corral.store.database import Database, Transaction
from corral.store.nodes import NodeReading
from corral.wire.live import LiveNodeOut, LiveNodesOut, LiveOut

WATCHERS_MAX = 500
NODES_INTERVAL_S = 2.0
# A younger view is not made again; a little less than the interval, which varies.
LIVE_AGE_MIN_S = 0.85
NODES_AGE_MIN_S = 1.7
# A history pass shortly after the nodes were read reuses them.
NODES_FRESH_S = 3.0
# Versions of the nodes' numbers that are kept for watchers that are behind.
FRAMES_KEPT_MAX = 8
# The requests in flight at each node; None: use the leases.
CountInFlight = Callable[[Transaction], Awaitable[Mapping[NodeId, int] | None]]


class _FrameSource(ABC):
    """Renders frames of something of which only the newest version counts, once for all watchers, and only while
    there is a watcher."""

    def __init__(self, clock: Clock, least_s: float) -> None:
        self.version = 0
        self._clock = clock
        self._least_s = least_s
        self._made_at: float | None = None
        self._refresh_lock = asyncio.Lock()
        self._changed = asyncio.Event()

    async def refresh(self) -> None:
        async with self._refresh_lock:
            if self.compute_age_s() < self._least_s:
                return
            if await self._refresh():
                self.version += 1
                moved, self._changed = self._changed, asyncio.Event()
                moved.set()
            self._made_at = self._clock.monotonic()

    def compute_age_s(self) -> float:
        return float("inf") if self._made_at is None else self._clock.monotonic() - self._made_at

    async def watch(self) -> AsyncGenerator[bytes, None]:
        """Yield the current frame, and then a frame whenever something has changed since this watcher's last one."""
        seen = 0
        await self.refresh()
        while True:
            moved = self._changed
            if self.version == seen:
                await moved.wait()
                continue
            frame, seen = self._render_frame(seen), self.version
            yield frame

    @abstractmethod
    async def _refresh(self) -> bool:
        """Read the view again. Return whether it has changed."""

    @abstractmethod
    def _render_frame(self, seen: int) -> bytes:
        """Render a frame for a watcher that has seen this version."""


class LiveFrameSource(_FrameSource):
    """Renders the live traffic of all models as events for the browsers that watch `GET /api/stream`."""

    def __init__(self, clock: Clock, read_live: Callable[[], Awaitable[LiveOut]]) -> None:
        super().__init__(clock, LIVE_AGE_MIN_S)
        self._read_live = read_live
        self._shown: LiveOut | None = None
        self._bytes = b""

    async def _refresh(self) -> bool:
        seen = await self._read_live()
        # A different time alone is not a change.
        if self._shown is not None and seen.model_copy(update={"at": self._shown.at}) == self._shown:
            return False
        self._shown = seen
        self._bytes = f"event: live\ndata: {seen.model_dump_json(exclude_defaults=True)}\n\n".encode()
        return True

    def _render_frame(self, _: int) -> bytes:
        return self._bytes


@dataclass(frozen=True, slots=True)
class _NodeRow:
    """Holds what was last shown of one node, and since which version."""

    version: int
    reading: NodeReading
    shown: LiveNodeOut


class NodeFrameSource(_FrameSource):
    """Renders the readings of nodes as events for watchers of `GET /api/stream`.

    Only nodes whose readings have changed are read whole.
    """

    def __init__(self, clock: Clock, database: Database, count_in_flight: CountInFlight) -> None:
        super().__init__(clock, NODES_AGE_MIN_S)
        self._database = database
        self._count_in_flight = count_in_flight
        self._rows: dict[NodeId, _NodeRow] = {}
        self._frames: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._readings: Sequence[NodeReading] = ()
        self._read_at: float | None = None

    async def list_readings(self) -> Sequence[NodeReading]:
        """Return the readings of all nodes, a few seconds old at most."""
        if self._read_at is None or self._clock.monotonic() - self._read_at > NODES_FRESH_S:
            async with self._database.transaction() as tx:
                await self._read(tx)
        return self._readings

    async def _read(self, tx: Transaction) -> None:
        readings = await node_store.list_readings(tx)
        busy = await self._count_in_flight(tx)
        if busy is not None:
            readings = [replace(one, in_flight=busy.get(one.id, 0)) for one in readings]
        self._readings = readings
        self._read_at = self._clock.monotonic()

    async def _refresh(self) -> bool:
        async with self._database.transaction() as tx:
            await self._read(tx)
            rows = {one.id: row for one in self._readings if (row := self._rows.get(one.id)) and row.reading == one}
            changed = {one.id: one for one in self._readings if one.id not in rows}
            nodes = await node_store.list_nodes(tx, only=changed) if changed else []
        version = self.version + 1
        self._rows = rows | {
            node.id: _NodeRow(version, changed[node.id], live_node_to_wire(node, changed[node.id].in_flight))
            for node in nodes
        }
        return bool(nodes) or not self.version

    def _render_frame(self, seen: int) -> bytes:
        step = (seen, self.version)
        if step not in self._frames:
            shown = LiveNodesOut(nodes=[row.shown for row in self._rows.values() if row.version > seen])
            self._frames[step] = f"event: nodes\ndata: {shown.model_dump_json()}\n\n".encode()
            if len(self._frames) > FRAMES_KEPT_MAX:
                self._frames.popitem(last=False)
        return self._frames[step]


class LiveViews:
    """Renders the numbers that watchers of `GET /api/stream` see: traffic, nodes, and the last hour of both.

    It also counts the watchers.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        traffic: TrafficAggregator,
        read_live: Callable[[], Awaitable[LiveOut]],
        count_in_flight: CountInFlight,
    ) -> None:
        self._clock = clock
        self.traffic = traffic
        self.live = LiveFrameSource(clock, read_live)
        self.nodes = NodeFrameSource(clock, database, count_in_flight)
        self.history = MetricsHistory()
        self.history_keeper = HistoryKeeper(database, clock, self.history)
        # The watchers of all streams, and of those with numbers.
        self.watchers = 0
        self._viewers = 0

    def check_room(self) -> None:
        if self.watchers >= WATCHERS_MAX:
            raise Unavailable(
                f"This frontend already has {self.watchers} watchers, which is its limit.",
                hint="Close unused pages, or connect to another frontend.",
                code="too_many_watchers",
            )

    @contextmanager
    def count_watcher(self, *, has_numbers: bool) -> Iterator[None]:
        self.watchers += 1
        self._viewers += has_numbers
        try:
            yield
        finally:
            self.watchers -= 1
            self._viewers -= has_numbers

    async def tick(self) -> int:
        """Publish this frontend's numbers, and refresh the live view. Return how many rows were published."""
        if self._viewers:
            self.traffic.note_watcher()
        published = await self.traffic.tick()
        if self._viewers:
            await self.live.refresh()
        return published

    async def tick_nodes(self) -> bool:
        if self._viewers:
            await self.nodes.refresh()
        return bool(self._viewers)

    async def record_history(self) -> bool:
        """Add one moment to the history. Return whether it includes the nodes."""
        nodes: Sequence[NodeReading] | None = None
        # Without PostgreSQL the curves of nodes have a gap; those of requests go on.
        with suppress(StoreUnavailable):
            await self.history_keeper.restore()
            nodes = await self.nodes.list_readings()
        cluster = self._read_requests() | (_sum_memory(nodes) if nodes is not None else {})
        of_nodes: dict[str, MomentValues] = {node.id: _to_values(node) for node in nodes or ()}
        self.history.add(self._clock.wall().timestamp(), cluster, None if nodes is None else of_nodes)
        return nodes is not None

    def _read_requests(self) -> dict[str, float | None]:
        summed = self.traffic.compute_totals()
        pace = summed.total.compute_pace()
        return {
            "tokens_per_s": pace.tokens_per_s,
            "requests_per_s": pace.requests_per_s,
            "errors_per_s": pace.errors_per_s,
            "first_byte_p50_s": pace.first_byte_s.p50,
            "first_byte_p95_s": pace.first_byte_s.p95,
            "queue_p95_s": pace.queue_s.p95,
            "waiting": summed.waiting,
            "in_flight": summed.in_flight,
        }


def _sum_memory(nodes: Sequence[NodeReading]) -> dict[str, float | None]:
    present_nodes = [node for node in nodes if node.is_present]
    known = [
        (one.total_vram, _compute_used(one.total_vram, one.available_vram)) for one in present_nodes if one.total_vram
    ]
    if not known:
        # A cluster without a GPU has no such curve, rather than one at zero.
        return {"vram_used": None, "vram_total": None}
    return {"vram_used": sum(used or 0 for _, used in known), "vram_total": sum(total for total, _ in known)}


def _to_values(node: NodeReading) -> MomentValues:
    """Return the values of a node; unknown for a node that is offline."""
    if not node.is_present:
        return {}
    return {
        "vram_used": _compute_used(node.total_vram, node.available_vram),
        "ram_used": _compute_used(node.total_ram, node.available_ram),
        "disk_free": node.available_disk,
        "in_flight": node.in_flight,
        "models": node.models,
    }


def _compute_used(total: int | None, available: int | None) -> int | None:
    return None if total is None or available is None else max(0, total - available)
