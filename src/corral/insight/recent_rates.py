"""Computes rates and times of the last seconds from sums that only grow.

Every two seconds a snapshot of the sums is kept; a rate is the difference between now and an earlier snapshot. A
request pays nothing for it, and neither does an idle replica. Long responses count while they are being written: the
caller passes how many events have been sent so far. Limit: the numbers are of this frontend alone. Before the first
snapshot there are no rates.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, sub
from typing import TypeVar

from corral.insight.tally import (
    QUEUE_BOUNDS,
    REQUEST_BOUNDS,
    TOKEN_BOUNDS,
    RequestTally,
    TallyKey,
    TallyRow,
    compute_quantile,
)
from corral.ports.runtime import Clock

INTERVAL_S = 2.0
# Rates use a short window; times to the first byte need more requests, so their window is longer.
RATE_WINDOW_S = 10.0
TIME_WINDOW_S = 60.0
Group = TypeVar("Group")
_SNAPSHOTS_MAX = int(TIME_WINDOW_S / INTERVAL_S) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantilePair:
    """Median and 95th percentile of response times of inference requests. None without values."""

    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPace:
    """Says how fast inference requests go now: rates per second and quantiles of response times."""

    requests_per_s: float = 0.0
    errors_per_s: float = 0.0
    prompt_tokens_per_s: float = 0.0
    # Tokens as they are written, including those of responses that have not ended.
    tokens_per_s: float = 0.0
    first_byte_s: QuantilePair = field(default_factory=QuantilePair)
    inter_token_s: QuantilePair = field(default_factory=QuantilePair)
    queue_s: QuantilePair = field(default_factory=QuantilePair)


@dataclass(frozen=True, slots=True, kw_only=True)
class TallySnapshot:
    """Sums of one row of the request counts as they were at some moment, to compute rates."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    written: int = 0
    first_byte: Sequence[int] = (0,) * (len(REQUEST_BOUNDS) + 1)
    inter_token: Sequence[int] = (0,) * (len(TOKEN_BOUNDS) + 1)
    queue: Sequence[int] = (0,) * (len(QUEUE_BOUNDS) + 1)

    @classmethod
    def from_row(cls, row: TallyRow, written: int) -> TallySnapshot:
        return cls(
            requests=row.requests,
            errors=row.errors,
            prompt_tokens=row.prompt_tokens,
            written=written,
            first_byte=tuple(row.first_byte.counts),
            inter_token=tuple(row.inter_token.counts),
            queue=tuple(row.queue.counts),
        )


_NOTHING = TallySnapshot()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFlow:
    """Rates and response times of inference requests in a form that can be added up over frontends.

    The median of two frontends is not the mean of their medians, so buckets are added up, and quantiles are computed
    from the sum.
    """

    requests_per_s: float = 0.0
    errors_per_s: float = 0.0
    prompt_tokens_per_s: float = 0.0
    tokens_per_s: float = 0.0
    first_byte: Sequence[int] = _NOTHING.first_byte
    inter_token: Sequence[int] = _NOTHING.inter_token
    queue: Sequence[int] = _NOTHING.queue

    def compute_pace(self) -> RequestPace:
        return RequestPace(
            requests_per_s=self.requests_per_s,
            errors_per_s=self.errors_per_s,
            prompt_tokens_per_s=self.prompt_tokens_per_s,
            tokens_per_s=self.tokens_per_s,
            first_byte_s=_compute_quantiles(REQUEST_BOUNDS, self.first_byte),
            inter_token_s=_compute_quantiles(TOKEN_BOUNDS, self.inter_token),
            queue_s=_compute_quantiles(QUEUE_BOUNDS, self.queue),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimedSnapshots:
    """Holds the snapshots of all tally rows at one moment."""

    at: float
    sums: Mapping[TallyKey, TallySnapshot]


class RecentRates:
    """Computes request rates and response times of the last seconds for a frontend's live views.

    From the sums of the tally. Callers pass how many events have gone out of open streams.
    """

    def __init__(self, tally: RequestTally, clock: Clock) -> None:
        self._tally = tally
        self._clock = clock
        self._notes: deque[_TimedSnapshots] = deque(maxlen=_SNAPSHOTS_MAX)

    def record_snapshots(self, open_events: Mapping[TallyKey, int]) -> int:
        """Keep the current sums, and return how many there are."""
        self._notes.append(self._take_snapshots(open_events))
        return len(self._notes[-1].sums)

    def open_window(self, open_events: Mapping[TallyKey, int]) -> RateWindow:
        now = self._take_snapshots(open_events)
        return RateWindow(
            now, self._find_snapshots(now.at - RATE_WINDOW_S, now), self._find_snapshots(now.at - TIME_WINDOW_S, now)
        )

    def _take_snapshots(self, open_events: Mapping[TallyKey, int]) -> _TimedSnapshots:
        """Take a snapshot. A row that has not changed since the last one is the very same object and takes neither
        memory nor time."""
        last = self._notes[-1].sums if self._notes else {}
        sums: dict[TallyKey, TallySnapshot] = {}
        for tally_key, row in self._tally.iter_rows():
            known, written = last.get(tally_key), row.written + open_events.get(tally_key, 0)
            is_same = known is not None and known.requests == row.requests and known.written == written
            sums[tally_key] = known if known is not None and is_same else TallySnapshot.from_row(row, written)
        for tally_key, events in open_events.items():
            # No request of this row has ended yet.
            sums.setdefault(tally_key, TallySnapshot(written=events))
        return _TimedSnapshots(at=self._clock.monotonic(), sums=sums)

    def _find_snapshots(self, moment: float, now: _TimedSnapshots) -> _TimedSnapshots:
        """Return the youngest snapshots that are older than `moment`; else the oldest ones."""
        return next(
            (note for note in reversed(self._notes) if note.at <= moment), self._notes[0] if self._notes else now
        )


class RateWindow:
    """Computes inference request rates and response times by comparing present sums with earlier ones.

    For rates the earlier sums are a short while old, for times older.
    """

    def __init__(self, now: _TimedSnapshots, lately: _TimedSnapshots, longer: _TimedSnapshots) -> None:
        self._now = now
        self._lately = lately
        self._longer = longer

    def compute_flows(self, group: Callable[[TallyKey], Group]) -> dict[Group, RequestFlow]:
        growths: defaultdict[Group, _WindowGrowth] = defaultdict(_WindowGrowth)
        for tally_key, sums in self._now.sums.items():
            lately, longer = self._lately.sums.get(tally_key, _NOTHING), self._longer.sums.get(tally_key, _NOTHING)
            if longer is not sums:
                growths[group(tally_key)].add(sums, lately, longer)
        elapsed_s = self._now.at - self._lately.at
        return {name: growth.compute_flow(elapsed_s) for name, growth in growths.items()}


class _WindowGrowth:
    """Adds up by how much several tally rows have grown: numbers in the short window, times in the long one."""

    def __init__(self) -> None:
        self.requests = self.errors = self.prompt_tokens = self.written = 0
        self.first_byte, self.inter_token, self.queue = _NOTHING.first_byte, _NOTHING.inter_token, _NOTHING.queue

    def add(self, now: TallySnapshot, lately: TallySnapshot, longer: TallySnapshot) -> None:
        self.requests += now.requests - lately.requests
        self.errors += now.errors - lately.errors
        self.prompt_tokens += now.prompt_tokens - lately.prompt_tokens
        self.written += now.written - lately.written
        self.first_byte = _add_growth(self.first_byte, now.first_byte, longer.first_byte)
        self.inter_token = _add_growth(self.inter_token, now.inter_token, longer.inter_token)
        self.queue = _add_growth(self.queue, now.queue, longer.queue)

    def compute_flow(self, elapsed_s: float) -> RequestFlow:
        def rate(count: int) -> float:
            # The difference may be negative: a response was cut, and its final count differs from the events seen.
            return max(0, count) / elapsed_s if elapsed_s > 0 else 0.0

        return RequestFlow(
            requests_per_s=rate(self.requests),
            errors_per_s=rate(self.errors),
            prompt_tokens_per_s=rate(self.prompt_tokens),
            tokens_per_s=rate(self.written),
            first_byte=self.first_byte,
            inter_token=self.inter_token,
            queue=self.queue,
        )


def _add_growth(sums: Sequence[int], now: Sequence[int], then: Sequence[int]) -> Sequence[int]:
    # All lists have one length. A busy frontend adds thousands of rows a second, so this avoids a Python loop.
    return list(map(add, sums, map(sub, now, then)))


def _compute_quantiles(bounds: Sequence[float], counts: Sequence[int]) -> QuantilePair:
    return QuantilePair(p50=compute_quantile(bounds, counts, 0.5), p95=compute_quantile(bounds, counts, 0.95))
