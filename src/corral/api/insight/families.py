"""The requests' part of `/metrics`: written as text at once, when it is asked for.

Labels are bounded: models that are known, calls, classes of status, slugs of errors. There are no keys, no ids of
requests, no names of nodes. `FAMILIES` is the list that the reference page and the dashboard are made from.

The text is written here and not by Prometheus' library, which makes an object of each of the thousands of numbers: with
forty models it would hold up every stream for tens of milliseconds at each scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from corral.insight.histogram import Histogram
from corral.insight.insight import Insight
from corral.insight.tally import Row


@dataclass(frozen=True, slots=True)
class Family:
    """`kind` is counter, gauge or histogram."""

    name: str
    kind: str
    labels: tuple[str, ...]
    sentence: str

    @property
    def head(self) -> str:
        return f"# HELP {self.name} {self.sentence}\n# TYPE {self.name} {self.kind}\n"

    def pairs(self, values: Iterable[str]) -> str:
        """Labels as they stand between braces."""
        return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(self.labels, values, strict=True))


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


class RequestMetrics:
    """Everything is read from memory, at once. `spool_lines`: how many requests are not in PostgreSQL yet."""

    def __init__(self, insight: Insight, spool_lines: Callable[[], int] = int) -> None:
        self._insight = insight
        self._spool_lines = spool_lines

    def render(self) -> bytes:
        """In Prometheus' text format."""
        return "".join(self._blocks()).encode()

    def _blocks(self) -> Iterator[str]:
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


def _values(family: Family, values: Iterable[tuple[tuple[str, ...], int]]) -> str:
    lines = [family.head]
    for labels, value in sorted(values):
        lines.append(f"{family.name}{{{family.pairs(labels)}}} {value}\n" if labels else f"{family.name} {value}\n")
    return "".join(lines)


def _histograms(family: Family, totals: Mapping[tuple[str, str], Row], which: Callable[[Row], Histogram]) -> str:
    name, lines = family.name, [family.head]
    for labels, row in sorted(totals.items(), key=itemgetter(0)):
        histogram, pairs = which(row), family.pairs(labels)
        bucket = f'{name}_bucket{{{pairs},le="'
        up_to = list(accumulate(histogram.counts))
        lines += [f'{bucket}{end}"}} {count}\n' for end, count in zip((*histogram.bounds, "+Inf"), up_to, strict=True)]
        lines.append(f"{name}_sum{{{pairs}}} {histogram.sum!r}\n{name}_count{{{pairs}}} {up_to[-1]}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


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
