"""`metrics.md`: what `GET /metrics` of a frontend has."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from corral.api.insight.families import FAMILIES, Family
from corral.api.metrics import Metrics
from tools.markdown import code, page, table

_INTRODUCTION = """\
`GET /metrics` of a frontend, in Prometheus' text format. It holds aggregates only, no names of nodes or people, and
needs no key. Counters start at zero with each process. `model` is a model's own name, or `other` for what was asked of
none and for models that have gone; `call` is what was asked: `chat`, `completions`, `embeddings`, …

[Watch a cluster](../how-to/watch.md) says how to use them; [corral.json](../grafana/corral.json) is a dashboard of them
for Grafana."""


def render() -> str:
    rows = [
        (code(one.name), one.kind, ", ".join(map(code, one.labels)) or "-", one.sentence) for one in known().values()
    ]
    return page("Metrics", _INTRODUCTION, table(["metric", "kind", "labels", "what it counts"], sorted(rows)))


def known() -> dict[str, Family]:
    """Every metric by its name."""
    found = {family.name: family for family in FAMILIES}
    for metric in vars(Metrics()).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            (described,) = metric.describe()
            name = f"{described.name}_total" if described.type == "counter" else described.name
            labels = tuple(metric._labelnames)  # noqa: SLF001 - has no public name
            found[name] = Family(name, described.type, labels, described.documentation)
    return found
