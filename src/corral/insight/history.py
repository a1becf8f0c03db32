"""Keeps the last hour in memory: one value per name every five seconds, for the cluster and for each node.

Guarantee: memory is bounded: one hour, and at most `NODES_MAX` nodes, some 16 KiB for each. A value that was unknown at
a moment is a gap there, and never zero. Limit: the history is what this frontend has seen since its start, and before
that what was saved, a value a minute.

`HistoryKeeper` keeps the curves in PostgreSQL, so that a restart of a frontend does not end them. The leader writes one
moment a minute; every frontend reads what there is once, when PostgreSQL first answers. Guarantee: what is kept is
bounded by an hour of minutes. Limits: the last minute before a restart may be missing. Without PostgreSQL nothing is
kept; the frontend's own memory goes on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

from corral.ports.runtime import Clock
from corral.store import history as store
from corral.store.database import Database
from corral.store.history import HistoryMoment

STEP_S = 5.0
KEPT_S = 3600.0
# Passes are a little early now and then, so an hour may have more of them.
MOMENTS = 800
NODES_MAX = 2000
CLUSTER_NAMES = (
    "tokens_per_s",
    "requests_per_s",
    "errors_per_s",
    "first_byte_p50_s",
    "first_byte_p95_s",
    "queue_p95_s",
    "waiting",
    "in_flight",
    "vram_used",
    "vram_total",
)
NODE_NAMES = ("vram_used", "ram_used", "disk_free", "in_flight", "models")
MomentValues = Mapping[str, float | None]
SAVE_INTERVAL_S = 60.0
# Rows are about a minute apart, so an hour has no more rows than this.
_ROWS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySeries:
    """Measurements as curves for charts: times as seconds since 1970, and as many values for each name."""

    at: list[float]
    series: dict[str, list[float | None]]


class _Columns:
    """Holds a ring of values for each name, in single precision."""

    __slots__ = ("values",)

    def __init__(self, names: Iterable[str]) -> None:
        self.values = {name: array("f", [nan]) * MOMENTS for name in names}

    def put(self, slot: int, reading: MomentValues) -> None:
        for name, values in self.values.items():
            value = reading.get(name)
            values[slot] = nan if value is None else value


class MetricsHistory:
    """Keeps the last hour of a cluster's measurements in a frontend's memory, for charts.

    For the cluster and for each node, one moment every five seconds.
    """

    def __init__(self) -> None:
        self._at = array("d", [0.0]) * MOMENTS
        self._next = 0
        self._count = 0
        self._cluster = _Columns(CLUSTER_NAMES)
        self._nodes: dict[str, _Columns] = {}
        # Moments from before the start of this frontend, the oldest first; forgotten after an hour.
        self._restored: tuple[HistoryMoment, ...] = ()

    def restore(self, moments: Sequence[HistoryMoment]) -> None:
        """Restore saved moments. What this frontend has seen itself takes precedence."""
        self._restored = tuple(moments)

    def summarise(self, since: float) -> HistoryMoment | None:
        """Return one moment for the time since then: means of the cluster, and the last reading of each node; None
        without any."""
        slots = self._find_slots(since)
        if not slots:
            return None
        last = slots[-1]
        return HistoryMoment(
            at=self._at[last],
            cluster={
                name: _compute_mean([values[slot] for slot in slots]) for name, values in self._cluster.values.items()
            },
            names=NODE_NAMES,
            nodes={
                node: [_to_value(columns.values[name][last]) for name in NODE_NAMES]
                for node, columns in self._nodes.items()
            },
        )

    def add(self, at: float, cluster: MomentValues, nodes: Mapping[str, MomentValues] | None) -> None:
        """Add one moment. Without `nodes`, their values are unknown; nodes that are missing among others are gone."""
        slot = self._next
        self._at[slot] = at
        if self._restored and self._restored[-1].at < at - KEPT_S:
            self._restored = ()
        self._cluster.put(slot, cluster)
        if nodes is not None:
            self._nodes = {node: columns for node, columns in self._nodes.items() if node in nodes}
            for node in nodes:
                if node not in self._nodes and len(self._nodes) < NODES_MAX:
                    self._nodes[node] = _Columns(NODE_NAMES)
        for node, columns in self._nodes.items():
            columns.put(slot, nodes[node] if nodes is not None else {})
        self._next = (slot + 1) % MOMENTS
        self._count = min(self._count + 1, MOMENTS)

    def read_cluster(self, since: float) -> HistorySeries:
        return self._make_series(self._cluster, since, [(one.at, one.cluster) for one in self._list_restored(since)])

    def read_node(self, node_id: str, since: float) -> HistorySeries:
        """Return the curves of a node; of an unknown node, times without values."""
        before = [(one.at, one.get_node_values(node_id)) for one in self._list_restored(since)]
        return self._make_series(self._nodes.get(node_id) or _Columns(NODE_NAMES), since, before)

    def _find_slots(self, since: float) -> list[int]:
        first = self._next - self._count
        return [slot % MOMENTS for slot in range(first, self._next) if self._at[slot % MOMENTS] >= since]

    def _list_restored(self, since: float) -> list[HistoryMoment]:
        """Return the restored moments that are older than all that this frontend has seen itself."""
        own = self._at[(self._next - self._count) % MOMENTS] if self._count else inf
        return [one for one in self._restored if since <= one.at < own]

    def _make_series(
        self, columns: _Columns, since: float, before: Sequence[tuple[float, MomentValues]]
    ) -> HistorySeries:
        slots = self._find_slots(since)
        return HistorySeries(
            at=[*(round(at, 1) for at, _ in before), *(round(self._at[slot], 1) for slot in slots)],
            series={
                name: [*(reading.get(name) for _, reading in before), *(_to_value(values[slot]) for slot in slots)]
                for name, values in columns.values.items()
            },
        )


def _compute_mean(values: Sequence[float]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [value for value in values if not isnan(value)]
    return _to_value(sum(known) / len(known)) if known else None


def _to_value(value: float) -> float | None:
    # Single precision stores 0.1 as 0.10000000149, so only its significant digits are kept.
    return None if isnan(value) else float(f"{value:.7g}")


class HistoryKeeper:
    """Saves the last hour of measurements in PostgreSQL, so that charts survive a restart of a frontend.

    `tick` is for the leader, `restore` for every frontend.
    """

    def __init__(self, database: Database, clock: Clock, history: MetricsHistory) -> None:
        self._database = database
        self._clock = clock
        self._history = history
        self._is_restored = False

    async def tick(self) -> bool:
        """Save the last minute. Return whether there was something to save, and no other frontend had saved it."""
        moment = self._history.summarise(self._clock.wall().timestamp() - SAVE_INTERVAL_S)
        if moment is None:
            return False
        async with self._database.transaction() as tx:
            return await store.add_moment(tx, moment, kept_s=KEPT_S)

    async def restore(self) -> None:
        """Restore what was saved before this frontend started. Done once: afterwards its own memory is more
        complete."""
        if self._is_restored:
            return
        async with self._database.transaction() as tx:
            moments = await store.list_moments(tx, kept_s=KEPT_S, most=_ROWS_MAX)
        self._history.restore(moments)
        self._is_restored = True
