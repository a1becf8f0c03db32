"""`metrics.md`: what `GET /metrics` of a frontend has."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from corral.api.metrics import Metrics
from tools.markdown import code, page, table

_INTRODUCTION = """\
`GET /metrics` of a frontend, in Prometheus' text format. It holds aggregates only, no names of nodes or people, and
needs no key. Counters start at zero with each process."""


def render() -> str:
    rows = []
    for metric in vars(Metrics()).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            (family,) = metric.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = ", ".join(code(label) for label in metric._labelnames)  # noqa: SLF001 - has no public name
            rows.append((code(name), family.type, labels or "-", family.documentation))
    return page("Metrics", _INTRODUCTION, table(["metric", "kind", "labels", "what it counts"], sorted(rows)))
