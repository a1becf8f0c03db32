"""`grafana/corral.json`: a dashboard for Grafana, made from a list of panels so that all of them look alike.

It asks for nothing but a Prometheus that reads `/metrics` of every frontend. A test holds every query to the metrics
and labels that there are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

WIDTH = 24
HEIGHT = 8
PER_ROW = 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_RATE = "[$__rate_interval]"
_WHERE = 'instance=~"$instance"'
_MODEL = f'{_WHERE},model=~"$model"'


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    # What a reader should make of it.
    sentence: str
    # As Grafana names it: s, reqps, short.
    unit: str
    queries: tuple[Query, ...]
    is_stacked: bool = False


def _sum_rate(metric: str, by: str, where: str = _MODEL) -> str:
    return f"sum by ({by}) (rate({metric}{{{where}}}{_RATE}))"


def _quantiles(metric: str) -> tuple[Query, ...]:
    """Half and nineteen of twenty, by model."""
    rate = f"sum by (le, model) (rate({metric}_bucket{{{_MODEL}}}{_RATE}))"
    return tuple(
        Query(f"histogram_quantile({share}, {rate})", f"{{{{model}}}} p{share * 100:.0f}") for share in (0.5, 0.95)
    )


def _gauge(metric: str, by: str = "", where: str = _WHERE) -> str:
    return f"sum by ({by}) ({metric}{{{where}}})" if by else f"sum({metric}{{{where}}})"


REQUESTS = (
    Panel(
        "Requests",
        "What is asked, by model. A model that is missing here is asked for nothing.",
        "reqps",
        (Query(_sum_rate("corral_requests_total", "model"), "{{model}}"),),
        is_stacked=True,
    ),
    Panel(
        "Errors",
        "By who is to blame and why. `engine` and `gateway` are yours to look at, `client` is not.",
        "reqps",
        (Query(_sum_rate("corral_errors_total", "origin, code", _WHERE), "{{origin}}: {{code}}"),),
        is_stacked=True,
    ),
    Panel(
        "Under way",
        "Requests and streams now, over all frontends shown.",
        "short",
        (
            Query(_gauge("corral_requests_open"), "requests"),
            Query(_gauge("corral_streams_open"), "streams"),
        ),
    ),
    Panel(
        "Time to the first byte",
        "What people feel as speed. It grows with long prompts and with full replicas.",
        "s",
        _quantiles("corral_first_byte_seconds"),
    ),
    Panel(
        "Time between tokens",
        "The mean of each stream. Above 0.1 s people read faster than the model writes.",
        "s",
        _quantiles("corral_inter_token_seconds"),
    ),
    Panel("Time of whole answers", "Until the last byte.", "s", _quantiles("corral_request_seconds")),
    Panel(
        "Time in the queue",
        "Until a replica was picked. More than nothing for long means that replicas are missing.",
        "s",
        _quantiles("corral_queue_seconds"),
    ),
    Panel(
        "Waiting",
        "Requests without a replica: the model is being loaded, or all replicas are full.",
        "short",
        (Query(_gauge("corral_queue_waiting", "model", _MODEL), "{{model}}"),),
        is_stacked=True,
    ),
    Panel(
        "Tokens",
        "Read and written in a second; cached ones are among those of prompts.",
        "short",
        (Query(_sum_rate("corral_tokens_total", "kind"), "{{kind}}"),),
    ),
    Panel(
        "Answers by status",
        "The first digit of the status that clients got.",
        "reqps",
        (Query(_sum_rate("corral_requests_total", "status"), "{{status}}"),),
        is_stacked=True,
    ),
    Panel(
        "Replicas left out",
        "Their calls failed; they are tried again now and then.",
        "short",
        (Query(_gauge("corral_breaker_open", "model", _MODEL), "{{model}}"),),
        is_stacked=True,
    ),
    Panel(
        "Answers written by model",
        "Tokens of answers in a second.",
        "short",
        (Query(_sum_rate("corral_tokens_total", "model", f'{_MODEL},kind="completion"'), "{{model}}"),),
        is_stacked=True,
    ),
)
CLUSTER = (
    Panel(
        "Bus and leader",
        "Each frontend should be on the bus; exactly one leads.",
        "short",
        (
            Query(_gauge("corral_bus_connected", "instance"), "{{instance}} on the bus"),
            Query(_gauge("corral_leader"), "leaders"),
        ),
    ),
    Panel(
        "Nodes",
        "By status, as of the last time that somebody looked at the cluster.",
        "short",
        (Query(f"max by (status) (corral_nodes{{{_WHERE}}})", "{{status}}"),),
        is_stacked=True,
    ),
    Panel(
        "Usage not in PostgreSQL yet",
        "Falls to nothing every few seconds, unless PostgreSQL is away.",
        "short",
        (Query(_gauge("corral_usage_spool_lines", "instance"), "{{instance}}"),),
    ),
    Panel(
        "Operations",
        "What is under way in the whole cluster, and what has failed.",
        "short",
        (Query(f"max by (state) (corral_operations{{{_WHERE}}})", "{{state}}"),),
    ),
    Panel(
        "Failed passes of loops",
        "Grows while something that a frontend does in the background does not work.",
        "short",
        (Query(f"sum by (loop) (increase(corral_loop_failures{{{_WHERE}}}{_RATE}))", "{{loop}}"),),
    ),
    Panel(
        "Traces",
        "Requests whose spans were sent in a second, and those that no collector took.",
        "reqps",
        (Query(_sum_rate("corral_traces_total", "outcome", _WHERE), "{{outcome}}"),),
    ),
)


def render() -> str:
    numbers = count(1)
    sections = (("Requests", REQUESTS), ("Cluster", CLUSTER))
    panels: list[dict[str, Any]] = []
    top = 0
    for title, members in sections:
        panels.append(_section(title, next(numbers), top))
        top += 1
        panels += [_panel(panel, next(numbers), position, top) for position, panel in enumerate(members)]
        top += -(-len(members) // PER_ROW) * HEIGHT
    return json.dumps(_dashboard(panels), indent=2) + "\n"


def _dashboard(panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uid": "corral",
        "title": "Corral",
        "description": "Requests, tokens and times of an inference cluster. Written by `make docs`.",
        "tags": ["corral"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                _variable("instance", "Frontend", "label_values(corral_requests_open, instance)"),
                _variable("model", "Model", "label_values(corral_requests_total, model)"),
            ]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _section(title: str, number: int, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, number: int, position: int, top: int) -> dict[str, Any]:
    width = WIDTH // PER_ROW
    line, column = divmod(position, PER_ROW)
    stacking = {"mode": "normal" if panel.is_stacked else "none", "group": "A"}
    style = {"fillOpacity": 20 if panel.is_stacked else 5, "lineWidth": 1, "showPoints": "never", "stacking": stacking}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.sentence,
        "datasource": _SOURCE,
        "gridPos": {"h": HEIGHT, "w": width, "x": column * width, "y": top + line * HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": style}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "editorMode": "code",
                "range": True,
            }
            for place, query in enumerate(panel.queries)
        ],
    }
