"""The last hour, in memory: a number for each of some names every five seconds, for the whole and for each node.

Guarantee: what it takes is bounded, whatever there is: one hour, and so many nodes (`NODES_MAX`), some 16 KiB for each.
What was not known at a moment is a gap there, and never zero. Limit: it is what this frontend has seen since its start,
and before that what was kept (`history_keeper.py`), a value a minute.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

from corral.store.history import HistoryMoment

STEP_S = 5.0
KEPT_S = 3600.0
# Passes are a little early now and then: room for an hour of those.
MOMENTS = 800
NODES_MAX = 2000
CLUSTER = (
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
NODE = ("vram_used", "ram_used", "disk_free", "in_flight", "models")
Reading = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Times as seconds since 1970, and as many values for each name."""

    at: list[float]
    series: dict[str, list[float | None]]


class _Columns:
    """A ring for each name. Single precision has seven digits, which is more than a curve shows."""

    __slots__ = ("values",)

    def __init__(self, names: Iterable[str]) -> None:
        self.values = {name: array("f", [nan]) * MOMENTS for name in names}

    def put(self, slot: int, reading: Reading) -> None:
        for name, values in self.values.items():
            value = reading.get(name)
            values[slot] = nan if value is None else value


class History:
    def __init__(self) -> None:
        self._at = array("d", [0.0]) * MOMENTS
        self._next = 0
        self._count = 0
        self._cluster = _Columns(CLUSTER)
        self._nodes: dict[str, _Columns] = {}
        # From before the start of this frontend, the oldest first; forgotten when it is more than an hour ago.
        self._restored: tuple[HistoryMoment, ...] = ()

    def restore(self, moments: Sequence[HistoryMoment]) -> None:
        """Take what was kept from before. Where this frontend has seen something itself, that counts instead."""
        self._restored = tuple(moments)

    def summary(self, since: float) -> HistoryMoment | None:
        """Return one moment for all since then: means of the cluster, and the last reading of each node; None if there
        was none."""
        slots = self._slots(since)
        if not slots:
            return None
        last = slots[-1]
        return HistoryMoment(
            at=self._at[last],
            cluster={name: _mean([values[slot] for slot in slots]) for name, values in self._cluster.values.items()},
            names=NODE,
            nodes={node: [_told(columns.values[name][last]) for name in NODE] for node, columns in self._nodes.items()},
        )

    def add(self, at: float, cluster: Reading, nodes: Mapping[str, Reading] | None) -> None:
        """One moment. Without nodes nobody knows how they are; those that are missing among others are gone."""
        slot = self._next
        self._at[slot] = at
        if self._restored and self._restored[-1].at < at - KEPT_S:
            self._restored = ()
        self._cluster.put(slot, cluster)
        if nodes is not None:
            self._nodes = {node: columns for node, columns in self._nodes.items() if node in nodes}
            for node in nodes:
                if node not in self._nodes and len(self._nodes) < NODES_MAX:
                    self._nodes[node] = _Columns(NODE)
        for node, columns in self._nodes.items():
            columns.put(slot, nodes[node] if nodes is not None else {})
        self._next = (slot + 1) % MOMENTS
        self._count = min(self._count + 1, MOMENTS)

    def cluster(self, since: float) -> Past:
        return self._past(self._cluster, since, [(one.at, one.cluster) for one in self._before(since)])

    def node(self, node_id: str, since: float) -> Past:
        """Of a node that nothing is known of, moments without values."""
        before = [(one.at, one.node(node_id)) for one in self._before(since)]
        return self._past(self._nodes.get(node_id) or _Columns(NODE), since, before)

    def _slots(self, since: float) -> list[int]:
        first = self._next - self._count
        return [slot % MOMENTS for slot in range(first, self._next) if self._at[slot % MOMENTS] >= since]

    def _before(self, since: float) -> list[HistoryMoment]:
        """Return the restored moments that are older than all that this frontend has seen itself."""
        own = self._at[(self._next - self._count) % MOMENTS] if self._count else inf
        return [one for one in self._restored if since <= one.at < own]

    def _past(self, columns: _Columns, since: float, before: Sequence[tuple[float, Reading]]) -> Past:
        slots = self._slots(since)
        return Past(
            at=[*(round(at, 1) for at, _ in before), *(round(self._at[slot], 1) for slot in slots)],
            series={
                name: [*(reading.get(name) for _, reading in before), *(_told(values[slot]) for slot in slots)]
                for name, values in columns.values.items()
            },
        )


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of what was known; None if nothing was."""
    known = [value for value in values if not isnan(value)]
    return _told(sum(known) / len(known)) if known else None


def _told(value: float) -> float | None:
    # Single precision says 0.1 as 0.10000000149: nobody needs more than the digits that it has.
    return None if isnan(value) else float(f"{value:.7g}")
