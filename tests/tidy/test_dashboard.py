"""The dashboard for Grafana asks for nothing that is not there, and leaves nothing about requests out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from corral.api.metric_families import FAMILIES
from tools.pages import dashboard
from tools.pages.metrics import list_metrics

# Labels that Prometheus adds itself.
_ADDED = {"instance", "job", "le"}
_NAME = re.compile(r"corral_\w+")
_SUFFIX = re.compile(r"_(?:bucket|count|sum)$")
_SELECTOR = re.compile(r"(corral_\w+)\{([^}]*)\}")
_BY = re.compile(r"by \(([^)]*)\)")
SHOWN = json.loads(dashboard.render())
PANELS = [panel for panel in SHOWN["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = [one["query"]["query"] for one in SHOWN["templating"]["list"] if one["type"] == "query"]


def metric_of(name: str) -> str:
    return name if name in list_metrics() else _SUFFIX.sub("", name)


@pytest.mark.parametrize("query", [*QUERIES, *VARIABLES])
def test_every_query_names_metrics_and_labels_that_there_are(query: str) -> None:
    metrics = {metric_of(name) for name in _NAME.findall(query)}
    assert metrics
    assert metrics <= list_metrics().keys()
    (metric,) = metrics
    labels = {*list_metrics()[metric].labels, *_ADDED}
    for _, selector in _SELECTOR.findall(query):
        assert {part.split("=")[0] for part in selector.split(",")} <= labels
    for names in _BY.findall(query):
        assert {name.strip() for name in names.split(",")} <= labels


@pytest.mark.parametrize("query", QUERIES)
def test_counters_and_buckets_are_looked_at_as_rates_and_gauges_as_they_are(query: str) -> None:
    (name,) = set(_NAME.findall(query))
    grows = list_metrics()[metric_of(name)].kind in {"counter", "histogram"} or name == "corral_loop_failures"
    assert grows == ("$__rate_interval" in query)
    assert name.endswith("_bucket") == ("histogram_quantile" in query)
    assert query.count("(") == query.count(")")


def test_every_metric_of_requests_is_on_it() -> None:
    queried = {metric_of(name) for query in QUERIES for name in _NAME.findall(query)}
    assert {family.name for family in FAMILIES} <= queried


def test_legend_shows_labels_that_its_query_keeps() -> None:
    for target in (target for panel in PANELS for target in panel["targets"]):
        kept = {name.strip() for names in _BY.findall(target["expr"]) for name in names.split(",")}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    numbers = [panel["id"] for panel in SHOWN["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in SHOWN["panels"]:
        cells = set(_cells(panel["gridPos"]))
        assert not cells & taken
        assert max(x for x, _ in cells) < dashboard.WIDTH
        taken |= cells


def _cells(place: dict[str, Any]) -> list[tuple[int, int]]:
    return [(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])]
