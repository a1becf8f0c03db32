"""The last hour, in memory: a number for each of some names every five seconds, for the whole and for each node.

Guarantee: what it takes is bounded, whatever there is: one hour, and so many nodes (`NODES_MAX`), some 16 KiB for each.
What was not known at a moment is a gap there, and never zero. Limit: it is what this frontend has seen since its start.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan, nan

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

    def add(self, at: float, cluster: Reading, nodes: Mapping[str, Reading] | None) -> None:
        """One moment. Without nodes nobody knows how they are; those that are missing among others are gone."""
        slot = self._next
        self._at[slot] = at
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
        return self._past(self._cluster, since)

    def node(self, node_id: str, since: float) -> Past:
        """Of a node that nothing is known of, moments without values."""
        return self._past(self._nodes.get(node_id) or _Columns(NODE), since)

    def _past(self, columns: _Columns, since: float) -> Past:
        first = self._next - self._count
        slots = [slot % MOMENTS for slot in range(first, self._next) if self._at[slot % MOMENTS] >= since]
        return Past(
            at=[round(self._at[slot], 1) for slot in slots],
            series={name: [_told(values[slot]) for slot in slots] for name, values in columns.values.items()},
        )


def _told(value: float) -> float | None:
    # Single precision says 0.1 as 0.10000000149: nobody needs more than the digits that it has.
    return None if isnan(value) else float(f"{value:.7g}")
