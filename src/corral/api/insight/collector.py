"""The requests' part of `/metrics`, gathered when it is asked for.

Labels are bounded: models that are known, calls, classes of status, slugs of errors. There are no keys, no ids of
requests, no names of nodes. `FAMILIES` is the list that the reference page and the dashboard are made from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from corral.insight.histogram import Histogram
from corral.insight.insight import Insight
from corral.insight.tally import Row


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    kind: str
    labels: tuple[str, ...]
    sentence: str

    def new(self) -> Metric:
        """Without values."""
        made = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
        family: Metric = made[self.kind](self.name, self.sentence, labels=self.labels)
        return family


_BY_CALL = ("model", "call")
REQUEST_SECONDS = Family(
    "corral_request_seconds", "histogram", _BY_CALL, "Time of requests that reached a replica, until the answer's end."
)
FIRST_BYTE_SECONDS = Family(
    "corral_first_byte_seconds", "histogram", _BY_CALL, "Time until the first byte of the answer (TTFT)."
)
INTER_TOKEN_SECONDS = Family(
    "corral_inter_token_seconds", "histogram", _BY_CALL, "Time between two events of a stream, the mean of each stream."
)
QUEUE_SECONDS = Family("corral_queue_seconds", "histogram", _BY_CALL, "Time until a replica was picked.")
REQUESTS = Family("corral_requests_total", "counter", (*_BY_CALL, "status"), "Requests that have ended.")
ERRORS = Family(
    "corral_errors_total", "counter", ("origin", "code"), "Requests that ended with an error, by who is to blame."
)
TOKENS = Family("corral_tokens_total", "counter", ("model", "kind"), "Tokens; cached ones are among those of prompts.")
REQUESTS_OPEN = Family("corral_requests_open", "gauge", (), "Requests under way.")
STREAMS_OPEN = Family("corral_streams_open", "gauge", (), "Streams under way.")
QUEUE_WAITING = Family("corral_queue_waiting", "gauge", ("model",), "Requests that wait for a replica.")
BREAKER_OPEN = Family("corral_breaker_open", "gauge", ("model",), "Replicas that are left out because they failed.")
SPOOL_LINES = Family("corral_usage_spool_lines", "gauge", (), "Requests whose usage is not in PostgreSQL yet.")
TRACES = Family("corral_traces_total", "counter", ("outcome",), "Requests whose spans were sent, or dropped.")

FAMILIES = (
    REQUEST_SECONDS,
    FIRST_BYTE_SECONDS,
    INTER_TOKEN_SECONDS,
    QUEUE_SECONDS,
    REQUESTS,
    ERRORS,
    TOKENS,
    REQUESTS_OPEN,
    STREAMS_OPEN,
    QUEUE_WAITING,
    BREAKER_OPEN,
    SPOOL_LINES,
    TRACES,
)


class RequestCollector(Collector):
    """Everything is read from memory, at once. `spool_lines`: how many requests are not in PostgreSQL yet."""

    def __init__(self, insight: Insight, spool_lines: Callable[[], int] = int) -> None:
        self._insight = insight
        self._spool_lines = spool_lines

    def describe(self) -> Iterable[Metric]:
        return [family.new() for family in FAMILIES]

    def collect(self) -> Iterator[Metric]:
        insight = self._insight
        going, totals, traces = insight.going(), insight.tally.totals(), insight.traces
        yield _histograms(REQUEST_SECONDS, totals, lambda row: row.request)
        yield _histograms(FIRST_BYTE_SECONDS, totals, lambda row: row.first_byte)
        yield _histograms(INTER_TOKEN_SECONDS, totals, lambda row: row.inter_token)
        yield _histograms(QUEUE_SECONDS, totals, lambda row: row.queue)
        yield _values(REQUESTS, _by_status(totals))
        yield _values(ERRORS, insight.tally.errors().items())
        yield _values(TOKENS, _by_kind(totals).items())
        yield _values(REQUESTS_OPEN, [((), going.requests)])
        yield _values(STREAMS_OPEN, [((), going.streams)])
        yield _values(QUEUE_WAITING, (((model,), count) for model, count in going.waiting.items()))
        yield _values(BREAKER_OPEN, (((model,), count) for model, count in insight.open_breakers().items()))
        yield _values(SPOOL_LINES, [((), self._spool_lines())])
        yield _values(TRACES, [(("sent",), traces.sent), (("dropped",), traces.dropped)] if traces else [])


def _values(family: Family, values: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
    made = family.new()
    assert isinstance(made, CounterMetricFamily | GaugeMetricFamily)
    for labels, value in sorted(values):
        made.add_metric(labels, value)
    return made


def _histograms(
    family: Family, totals: Mapping[tuple[str, str], Row], which: Callable[[Row], Histogram]
) -> HistogramMetricFamily:
    made = family.new()
    assert isinstance(made, HistogramMetricFamily)
    for labels, row in sorted(totals.items()):
        histogram = which(row)
        ends = [*map(str, histogram.bounds), "+Inf"]
        buckets = list(zip(ends, accumulate(histogram.counts), strict=True))
        made.add_metric(labels, buckets, histogram.sum)
    return made


def _by_status(totals: Mapping[tuple[str, str], Row]) -> Iterator[tuple[tuple[str, str, str], int]]:
    for (model, call), row in totals.items():
        for digit, count in enumerate(row.statuses):
            if count:
                yield (model, call, f"{digit}xx"), count


def _by_kind(totals: Mapping[tuple[str, str], Row]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for (model, _), row in totals.items():
        sums[model, "prompt"] += row.prompt_tokens
        sums[model, "cached"] += row.cached_tokens
        sums[model, "completion"] += row.completion_tokens
    return sums
