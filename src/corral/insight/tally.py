"""Counts requests: the one source of the numbers of `/metrics` and of `corral top`.

Guarantee: every request that has ended is counted once, a sum never falls, and memory is bounded by the existing models
and replicas: the sums of a removed replica are added to its model's, and those of a removed model to a row without a
name. Ended requests are noted at once and counted some requests later, or when the numbers are read. Limit: the numbers
are of this process since its start. Not thread-safe: a tally belongs to one event loop.

A histogram is cheap per request: values are counted many at a time, by one sort and one search for each bound. Limit: a
quantile is as exact as the buckets are narrow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from corral.domain.agent import AGENT_PREFIX
from corral.domain.usage import ErrorOrigin, RequestRecord

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
    """Counts response times by buckets so cheaply that every request can be counted, for metrics."""

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


# The name under which all other rows are counted together.
OTHER = "other"
# More rows than a cluster has replicas; requests beyond this limit are counted together.
ROWS_MAX = 10_000
# This many requests are counted together, so that the counting code is in the processor's cache: loading it is most of
# the time that counting takes.
COUNTED_TOGETHER = 128
# Error codes are our own slugs, but an engine's own can be any text.
CODES_MAX = 200
_OURS = (ErrorOrigin.GATEWAY, ErrorOrigin.ENGINE)


class TallyKey(NamedTuple):
    """Names what inference requests are counted by: model, API call and replica.

    Without a replica: none was reached.
    """

    model: str
    call: str
    replica_id: str = ""


class TallyRow:
    """Sums of all inference requests of one model, API call and replica, for metrics."""

    __slots__ = (
        "cached_tokens",
        "completion_tokens",
        "errors",
        "first_byte",
        "inter_token",
        "prompt_tokens",
        "queue",
        "request",
        "statuses",
        "written",
    )

    def __init__(self) -> None:
        self.request = Histogram(REQUEST_BOUNDS)
        self.first_byte = Histogram(REQUEST_BOUNDS)
        self.inter_token = Histogram(TOKEN_BOUNDS)
        self.queue = Histogram(QUEUE_BOUNDS)
        # Requests by the first digit of the status.
        self.statuses = [0] * 10
        # Errors that the client did not cause, including responses that began well and were cut.
        self.errors = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        # Tokens as they were relayed: the events of streams, the tokens of other responses.
        self.written = 0

    @property
    def requests(self) -> int:
        return sum(self.statuses)

    def count(self, records: list[RequestRecord]) -> None:
        statuses = self.statuses
        for record in records:
            statuses[record.status // 100] += 1
        self.errors += sum([record.origin in _OURS for record in records])
        # Refused requests are left out, because their times would blur the times of responses.
        tried = [record for record in records if record.attempts]
        self.request.observe([record.total_s for record in tried])
        self.queue.observe([record.queue_s for record in tried])
        self.first_byte.observe([record.first_byte_s for record in tried if record.first_byte_s is not None])
        self.inter_token.observe(
            [
                (record.total_s - record.first_byte_s) / (record.events - 1)
                for record in tried
                if record.events > 1 and record.first_byte_s is not None
            ]
        )
        self.prompt_tokens += sum([record.prompt_tokens or 0 for record in tried])
        self.cached_tokens += sum([record.cached_tokens or 0 for record in tried])
        self.completion_tokens += sum([record.completion_tokens or 0 for record in tried])
        self.written += sum([record.events if record.is_stream else record.completion_tokens or 0 for record in tried])

    def add(self, other: TallyRow) -> None:
        self.request.add(other.request)
        self.first_byte.add(other.first_byte)
        self.inter_token.add(other.inter_token)
        self.queue.add(other.queue)
        self.statuses = [mine + its for mine, its in zip(self.statuses, other.statuses, strict=True)]
        self.errors += other.errors
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.written += other.written


class RequestTally:
    """Counts every inference request that has ended, by model, API call and replica. Implements `RequestListener`."""

    def __init__(self) -> None:
        # Requests that have ended and are not counted yet.
        self._uncounted_records: list[RequestRecord] = []
        self._rows_by_key: dict[tuple[str, str, str], TallyRow] = {}
        # The sums of removed replicas, by model and call.
        self._removed_rows: defaultdict[tuple[str, str], TallyRow] = defaultdict(TallyRow)
        self._errors: Counter[tuple[str, str]] = Counter()

    def on_requests_ended(self, *records: RequestRecord) -> None:
        self._uncounted_records += records
        if len(self._uncounted_records) >= COUNTED_TOGETHER:
            self._count()

    def _count(self) -> None:
        noted, self._uncounted_records = self._uncounted_records, []
        alike: defaultdict[tuple[str, str, str], list[RequestRecord]] = defaultdict(list)
        for record in noted:
            alike[record.model, record.call, record.replica_id].append(record)
            if record.error_code:
                self._count_error(record.origin.value, record.error_code)
        for key, records in alike.items():
            (self._rows_by_key.get(key) or self._ensure_row(TallyKey(*key))).count(records)

    @property
    def _rows(self) -> dict[tuple[str, str, str], TallyRow]:
        """Return all rows, after counting the requests that have ended."""
        if self._uncounted_records:
            self._count()
        return self._rows_by_key

    def iter_rows(self) -> Iterator[tuple[TallyKey, TallyRow]]:
        """Yield the rows of existing models and replicas."""
        return ((TallyKey(*key), row) for key, row in self._rows.items())

    def compute_totals(self) -> dict[tuple[str, str], TallyRow]:
        """Return the sums by model and call since the start. The caller owns the result."""
        sums: defaultdict[tuple[str, str], TallyRow] = defaultdict(TallyRow)
        rows = self._rows
        for (model, call), row in self._removed_rows.items():
            sums[model, call].add(row)
        for (model, call, _), row in rows.items():
            sums[model or OTHER, call].add(row)
        return dict(sums)

    def count_errors(self) -> dict[tuple[str, str], int]:
        """Return the number of errors by origin and code since the start."""
        self._count()
        return dict(self._errors)

    def forget(self, models: Collection[str], replica_ids: Collection[str]) -> None:
        """Keep the rows of these models and replicas, and add up those of all others."""
        rows = self._rows
        for key in list(rows):
            model, call, replica_id = key
            if (model and model not in models) or (replica_id and replica_id not in replica_ids):
                self._removed_rows[model or OTHER, call].add(rows.pop(key))
        for model, call in list(self._removed_rows):
            if model != OTHER and model not in models:
                self._removed_rows[OTHER, call].add(self._removed_rows.pop((model, call)))

    def _ensure_row(self, key: TallyKey) -> TallyRow:
        # The names of agents are their owners' own, and metrics are read by others.
        if len(self._rows_by_key) >= ROWS_MAX or key.model.startswith(AGENT_PREFIX):
            key = TallyKey("", key.call)
        return self._rows_by_key.setdefault(key, TallyRow())

    def _count_error(self, origin: str, code: str) -> None:
        if len(self._errors) >= CODES_MAX and (origin, code) not in self._errors:
            code = OTHER
        self._errors[origin, code] += 1
