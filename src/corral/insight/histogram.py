"""A histogram that a request can afford: values are counted many at a time, by one sort and one search for each bound.

Limit: a quantile is as exact as the buckets are narrow. Not safe between threads: it belongs to one event loop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

# Upper ends of the buckets, in seconds. A step is about the double: the eye sees no finer difference.
REQUEST_BOUNDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
)
# A warm request finds its replica within microseconds; what counts is whether it waited at all.
QUEUE_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
# Between two tokens it is about the speed at which people read, so here the steps are narrower.
TOKEN_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)


class Histogram:
    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        # The last one counts what is above every bound.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, values: list[float]) -> None:
        """All of these; the list is put in order."""
        if not values:
            return
        values.sort()
        counts, below = self.counts, 0
        for position, bound in enumerate(self.bounds):
            upto = bisect_right(values, bound, below)
            counts[position] += upto - below
            below = upto
            if below == len(values):
                break
        counts[-1] += len(values) - below
        self.sum += sum(values)

    def add(self, other: Histogram) -> None:
        assert self.bounds == other.bounds, "histograms of different buckets have no sum"
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The value that this share of all values is below, as far as buckets tell; None if there are no values.

    Within a bucket values are taken to be spread evenly. Above the last bound nothing is known but that bound.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    below = 0.0
    for position, count in enumerate(counts[: len(bounds)]):
        if count and below + count >= wanted:
            low = bounds[position - 1] if position else 0.0
            # Rounding may end a hair above the bucket.
            return min(bounds[position], low + (bounds[position] - low) * (wanted - below) / count)
        below += count
    return bounds[-1]
