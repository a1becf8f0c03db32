"""A histogram that is cheap per request: values are counted many at a time, by one sort and one search for each bound.

Limit: a quantile is as exact as the buckets are narrow. Not thread-safe: a histogram belongs to one event loop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

# Upper bounds of the buckets, in seconds. Each is about double the previous one, which is fine enough for charts.
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
# A warm request finds its replica within microseconds, so only real waits need buckets.
QUEUE_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
# The time between two tokens is about the speed at which people read, so these steps are narrower.
TOKEN_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)


class Histogram:
    """Counts values by buckets, many at a time, so cheaply that every request can be counted."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        # The last bucket counts the values above every bound.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, values: list[float]) -> None:
        """Count all these values. Sorts the list in place."""
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


def compute_quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Return the value that this share of all values is below, as exactly as the buckets allow; None without values.

    Within a bucket values are taken to be spread evenly. Above the last bound the result is that bound."""
    target = share * sum(counts)
    if not target:
        return None
    below = 0.0
    for position, count in enumerate(counts[: len(bounds)]):
        if count and below + count >= target:
            low = bounds[position - 1] if position else 0.0
            # Rounding may end slightly above the bucket.
            return min(bounds[position], low + (bounds[position] - low) * (target - below) / count)
        below += count
    return bounds[-1]
