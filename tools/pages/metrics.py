"""Renders `metrics.md`: the metrics of `GET /metrics` of a frontend."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from corral.api.metric_families import FAMILIES, MetricFamily
from corral.api.metrics import FrontendMetrics
from tools.markdown import format_code, format_page, format_table

_INTRODUCTION = """\
`GET /metrics` of a frontend, in Prometheus' text format. It holds aggregates only, no names of nodes or people, and
needs no key. Counters start at zero with each process. `model` is a model's own name, or `other` for requests
without a model and for deleted models; `call` is the kind of request: `chat`, `completions`, `embeddings`, …

[Monitor a cluster](../how-to/watch.md) says how to use them; [corral.json](../grafana/corral.json) is a dashboard for
Grafana."""


def render() -> str:
    rows = [
        (format_code(one.name), one.kind, ", ".join(map(format_code, one.labels)) or "-", one.sentence)
        for one in list_metrics().values()
    ]
    return format_page(
        "Metrics", _INTRODUCTION, format_table(["metric", "kind", "labels", "what it counts"], sorted(rows))
    )


def list_metrics() -> dict[str, MetricFamily]:
    """Return every metric by its name."""
    found = {family.name: family for family in FAMILIES}
    for metric in vars(FrontendMetrics()).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            (described,) = metric.describe()
            name = f"{described.name}_total" if described.type == "counter" else described.name
            labels = tuple(metric._labelnames)  # noqa: SLF001 - has no public name
            found[name] = MetricFamily(name, described.type, labels, described.documentation)
    return found
