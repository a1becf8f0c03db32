"""The request metrics of `/metrics`, rendered as text on demand.

Labels are bounded: known models, calls, classes of status, slugs of errors. There are no keys, no request ids, no node
names. `FAMILIES` is the list from which the reference page and the dashboard are made.

The text is rendered here and not by Prometheus' library, which makes an object of each of the thousands of numbers:
with forty models it would block every stream for tens of milliseconds at each scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from corral.insight.request_monitor import RequestMonitor
from corral.insight.tally import Histogram, TallyRow


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Describes one family of metrics in Prometheus' format: name, kind, labels and help text.

    `kind` is counter, gauge or histogram.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    sentence: str

    @property
    def header(self) -> str:
        return f"# HELP {self.name} {self.sentence}\n# TYPE {self.name} {self.kind}\n"

    def render_labels(self, values: Iterable[str]) -> str:
        """Render the labels as they stand between braces."""
        return ",".join(f'{name}="{_escape(value)}"' for name, value in zip(self.labels, values, strict=True))


_BY_CALL = ("model", "call")
REQUEST_SECONDS = MetricFamily(
    "corral_request_seconds",
    "histogram",
    _BY_CALL,
    "Time of requests that reached a replica, until the end of the response.",
)
FIRST_BYTE_SECONDS = MetricFamily(
    "corral_first_byte_seconds", "histogram", _BY_CALL, "Time until the first byte of the response (TTFT)."
)
INTER_TOKEN_SECONDS = MetricFamily(
    "corral_inter_token_seconds", "histogram", _BY_CALL, "Time between two events of a stream, the mean of each stream."
)
QUEUE_SECONDS = MetricFamily("corral_queue_seconds", "histogram", _BY_CALL, "Time until a replica was picked.")
REQUESTS = MetricFamily("corral_requests_total", "counter", (*_BY_CALL, "status"), "Requests that have ended.")
ERRORS = MetricFamily(
    "corral_errors_total", "counter", ("origin", "code"), "Requests that ended with an error, by who is to blame."
)
TOKENS = MetricFamily(
    "corral_tokens_total", "counter", ("model", "kind"), "Tokens; cached ones are among those of prompts."
)
REQUESTS_OPEN = MetricFamily("corral_requests_open", "gauge", (), "Requests under way.")
STREAMS_OPEN = MetricFamily("corral_streams_open", "gauge", (), "Streams under way.")
QUEUE_WAITING = MetricFamily("corral_queue_waiting", "gauge", ("model",), "Requests that wait for a replica.")
BREAKER_OPEN = MetricFamily(
    "corral_breaker_open", "gauge", ("model",), "Replicas that are left out because they failed."
)
SPOOL_LINES = MetricFamily("corral_usage_spool_lines", "gauge", (), "Requests whose usage is not in PostgreSQL yet.")
TRACES = MetricFamily("corral_traces_total", "counter", ("outcome",), "Requests whose spans were sent, or dropped.")

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
    """Renders a frontend's metrics of inference requests in Prometheus' text format, from memory.

    `spool_lines`: how many requests are not in PostgreSQL yet.
    """

    def __init__(self, insight: RequestMonitor, spool_lines: Callable[[], int] = int) -> None:
        self._insight = insight
        self._spool_lines = spool_lines

    def render(self) -> bytes:
        """Render all families in Prometheus' text format."""
        return "".join(self._render_blocks()).encode()

    def _render_blocks(self) -> Iterator[str]:
        insight = self._insight
        open_requests, totals, traces = insight.count_open(), insight.tally.compute_totals(), insight.traces
        yield _render_histograms(REQUEST_SECONDS, totals, lambda row: row.request)
        yield _render_histograms(FIRST_BYTE_SECONDS, totals, lambda row: row.first_byte)
        yield _render_histograms(INTER_TOKEN_SECONDS, totals, lambda row: row.inter_token)
        yield _render_histograms(QUEUE_SECONDS, totals, lambda row: row.queue)
        yield _render_values(REQUESTS, _count_by_status(totals))
        yield _render_values(ERRORS, insight.tally.count_errors().items())
        yield _render_values(TOKENS, _count_by_kind(totals).items())
        yield _render_values(REQUESTS_OPEN, [((), open_requests.requests)])
        yield _render_values(STREAMS_OPEN, [((), open_requests.streams)])
        yield _render_values(QUEUE_WAITING, (((model,), count) for model, count in open_requests.waiting.items()))
        yield _render_values(
            BREAKER_OPEN, (((model,), count) for model, count in insight.count_open_breakers().items())
        )
        yield _render_values(SPOOL_LINES, [((), self._spool_lines())])
        yield _render_values(TRACES, [(("sent",), traces.sent), (("dropped",), traces.dropped)] if traces else [])


def _render_values(family: MetricFamily, values: Iterable[tuple[tuple[str, ...], int]]) -> str:
    lines = [family.header]
    for labels, value in sorted(values):
        lines.append(
            f"{family.name}{{{family.render_labels(labels)}}} {value}\n" if labels else f"{family.name} {value}\n"
        )
    return "".join(lines)


def _render_histograms(
    family: MetricFamily, totals: Mapping[tuple[str, str], TallyRow], which: Callable[[TallyRow], Histogram]
) -> str:
    name, lines = family.name, [family.header]
    for labels, row in sorted(totals.items(), key=itemgetter(0)):
        histogram, pairs = which(row), family.render_labels(labels)
        bucket = f'{name}_bucket{{{pairs},le="'
        up_to = list(accumulate(histogram.counts))
        lines += [f'{bucket}{end}"}} {count}\n' for end, count in zip((*histogram.bounds, "+Inf"), up_to, strict=True)]
        lines.append(f"{name}_sum{{{pairs}}} {histogram.sum!r}\n{name}_count{{{pairs}}} {up_to[-1]}\n")
    return "".join(lines)


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _count_by_status(totals: Mapping[tuple[str, str], TallyRow]) -> Iterator[tuple[tuple[str, str, str], int]]:
    for (model, call), row in totals.items():
        for digit, count in enumerate(row.statuses):
            if count:
                yield (model, call, f"{digit}xx"), count


def _count_by_kind(totals: Mapping[tuple[str, str], TallyRow]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for (model, _), row in totals.items():
        sums[model, "prompt"] += row.prompt_tokens
        sums[model, "cached"] += row.cached_tokens
        sums[model, "completion"] += row.completion_tokens
    return sums
