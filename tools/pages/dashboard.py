"""Renders `grafana/corral.json`: a dashboard for Grafana, from a list of panels so that all of them look alike.

The dashboard needs only a Prometheus that reads `/metrics` of every frontend. A test compares every query with the
existing metrics and labels.
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
class PanelQuery:
    """A Prometheus query of a panel, with its legend."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class DashboardPanel:
    """Describes a panel of the Grafana dashboard."""

    title: str
    # What a reader should conclude from the panel.
    sentence: str
    # The unit as Grafana names it: s, reqps, short.
    unit: str
    queries: tuple[PanelQuery, ...]
    is_stacked: bool = False


def _sum_rate(metric: str, by: str, where: str = _MODEL) -> str:
    return f"sum by ({by}) (rate({metric}{{{where}}}{_RATE}))"


def _quantiles(metric: str) -> tuple[PanelQuery, ...]:
    """Return the queries for p50 and p95, by model."""
    rate = f"sum by (le, model) (rate({metric}_bucket{{{_MODEL}}}{_RATE}))"
    return tuple(
        PanelQuery(f"histogram_quantile({share}, {rate})", f"{{{{model}}}} p{share * 100:.0f}") for share in (0.5, 0.95)
    )


def _gauge(metric: str, by: str = "", where: str = _WHERE) -> str:
    return f"sum by ({by}) ({metric}{{{where}}})" if by else f"sum({metric}{{{where}}})"


REQUESTS = (
    DashboardPanel(
        "Requests",
        "Requests by model. A model that is missing here gets none.",
        "reqps",
        (PanelQuery(_sum_rate("corral_requests_total", "model"), "{{model}}"),),
        is_stacked=True,
    ),
    DashboardPanel(
        "Errors",
        "By origin and reason. Look into `engine` and `gateway`; `client` errors are made by callers.",
        "reqps",
        (PanelQuery(_sum_rate("corral_errors_total", "origin, code", _WHERE), "{{origin}}: {{code}}"),),
        is_stacked=True,
    ),
    DashboardPanel(
        "In flight",
        "Requests and streams now, over all frontends shown.",
        "short",
        (
            PanelQuery(_gauge("corral_requests_open"), "requests"),
            PanelQuery(_gauge("corral_streams_open"), "streams"),
        ),
    ),
    DashboardPanel(
        "Time to the first byte",
        "The delay that people notice. It grows with long prompts and with full replicas.",
        "s",
        _quantiles("corral_first_byte_seconds"),
    ),
    DashboardPanel(
        "Time between tokens",
        "The mean of each stream. Above 0.1 s people read faster than the model writes.",
        "s",
        _quantiles("corral_inter_token_seconds"),
    ),
    DashboardPanel("Time of whole responses", "Until the last byte.", "s", _quantiles("corral_request_seconds")),
    DashboardPanel(
        "Time in the queue",
        "Until a replica was picked. If it stays above zero, add replicas.",
        "s",
        _quantiles("corral_queue_seconds"),
    ),
    DashboardPanel(
        "Waiting",
        "Requests without a replica: the model is being loaded, or all replicas are full.",
        "short",
        (PanelQuery(_gauge("corral_queue_waiting", "model", _MODEL), "{{model}}"),),
        is_stacked=True,
    ),
    DashboardPanel(
        "Tokens",
        "Prompt and completion tokens per second; cached tokens are part of the prompt tokens.",
        "short",
        (PanelQuery(_sum_rate("corral_tokens_total", "kind"), "{{kind}}"),),
    ),
    DashboardPanel(
        "Responses by status",
        "By the class of the HTTP status: 2xx, 4xx, 5xx.",
        "reqps",
        (PanelQuery(_sum_rate("corral_requests_total", "status"), "{{status}}"),),
        is_stacked=True,
    ),
    DashboardPanel(
        "Replicas left out",
        "Replicas that get no requests because their calls failed; they are retried from time to time.",
        "short",
        (PanelQuery(_gauge("corral_breaker_open", "model", _MODEL), "{{model}}"),),
        is_stacked=True,
    ),
    DashboardPanel(
        "Completion tokens by model",
        "Completion tokens per second.",
        "short",
        (PanelQuery(_sum_rate("corral_tokens_total", "model", f'{_MODEL},kind="completion"'), "{{model}}"),),
        is_stacked=True,
    ),
)
CLUSTER = (
    DashboardPanel(
        "Bus and leader",
        "Each frontend should be on the bus; exactly one leads.",
        "short",
        (
            PanelQuery(_gauge("corral_bus_connected", "instance"), "{{instance}} on the bus"),
            PanelQuery(_gauge("corral_leader"), "leaders"),
        ),
    ),
    DashboardPanel(
        "Nodes",
        "By status, as of the last request for the cluster's state.",
        "short",
        (PanelQuery(f"max by (status) (corral_nodes{{{_WHERE}}})", "{{status}}"),),
        is_stacked=True,
    ),
    DashboardPanel(
        "Usage not in PostgreSQL yet",
        "Falls to zero every few seconds, unless PostgreSQL is unreachable.",
        "short",
        (PanelQuery(_gauge("corral_usage_spool_lines", "instance"), "{{instance}}"),),
    ),
    DashboardPanel(
        "Operations",
        "Running and failed operations of the whole cluster.",
        "short",
        (PanelQuery(f"max by (state) (corral_operations{{{_WHERE}}})", "{{state}}"),),
    ),
    DashboardPanel(
        "Failed passes of loops",
        "Grows while a background task of a frontend keeps failing.",
        "short",
        (PanelQuery(f"sum by (loop) (increase(corral_loop_failures{{{_WHERE}}}{_RATE}))", "{{loop}}"),),
    ),
    DashboardPanel(
        "Traces",
        "Spans sent per second, and spans that no collector accepted.",
        "reqps",
        (PanelQuery(_sum_rate("corral_traces_total", "outcome", _WHERE), "{{outcome}}"),),
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


def _panel(panel: DashboardPanel, number: int, position: int, top: int) -> dict[str, Any]:
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
