"""Reads and writes rules as YAML and JSON: where a model may run and how many replicas it is to have.

    model: chat
    selector: {gpu.vendor: nvidia}      (or gpu.vendor=nvidia)
    min_replicas: 1
    max_replicas: 4                     (0: no limit)
    replicas: all                       (one on every node that matches; instead of a minimum and a maximum)
    windows: [{cron: 0 8 * * 1-5, duration: 10h, min_replicas: 2}]
    time_zone: Europe/Berlin

`to_mapping` writes what `from_mapping` reads to the same rule. LocalAI's names are read too: `model_name`,
`node_selector`, `spread_all`.
"""

from __future__ import annotations

from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, RuleWindow
from corral.policy.labels import parse_selector
from corral.policy.models.configuration import check_name
from corral.policy.models.mapping_reader import MappingReader
from corral.policy.placing.windows import check_windows

CODE = "bad_rule"
REPLICAS_MAX = 10_000
WINDOWS_MAX = 50
ROUTE_POLICIES = ("", "round_robin", "prefix_cache")
_KEYS = (
    "model", "model_name", "selector", "node_selector", "min_replicas", "max_replicas", "replicas", "spread_all",
    "windows", "time_zone", "route_policy",
)  # fmt: skip


def from_mapping(value: object, *, model: str = "", keeps: Rule | None = None) -> Rule:
    """Parse a rule that a person wrote. `keeps` is the current rule: its routing stays when the value does not
    mention it."""
    reader = MappingReader(value, "The rule", CODE)
    given_model = reader.value.get("model", reader.value.get("model_name"))
    if model and given_model not in (None, model):
        raise reader.make_error(f"the model in it is {str(given_model)[:80]!r}, but {model[:80]!r} is expected")
    if not model and not isinstance(given_model, str):
        raise reader.make_error("model is missing")
    name = check_name(model or str(given_model))
    reader = MappingReader(value, f"The rule of {name}", CODE)
    reader.check_keys(_KEYS)
    spreads = _read_spreads(reader)
    least = reader.read_integer("min_replicas", least=0, most=REPLICAS_MAX) or 0
    most = reader.read_integer("max_replicas", least=0, most=REPLICAS_MAX) or 0
    if spreads and (least or most):
        raise reader.make_error(
            "it asks for one replica on every node, and for a minimum or a maximum as well",
            "Leave out min_replicas and max_replicas, or `replicas: all`.",
        )
    if most and least > most:
        raise reader.make_error(f"the minimum {least} is more than the maximum {most}")
    route = reader.value.get("route_policy")
    rule = Rule(
        model=name,
        selector=_read_selector(reader),
        min_replicas=least,
        max_replicas=most,
        spreads=spreads,
        windows=_read_windows(reader),
        time_zone=reader.read_text("time_zone", longest=64) or "UTC",
        route_policy=keeps.route_policy
        if route is None and keeps
        else reader.read_choice("route_policy", ROUTE_POLICIES, ""),
    )
    try:
        check_windows(rule)
    except InvalidRequest as error:
        raise InvalidRequest(f"{reader.where}: {error.message}", hint=error.hint, code=error.slug) from error
    return rule


def to_mapping(rule: Rule) -> dict[str, Any]:
    written: dict[str, Any] = {
        "model": rule.model,
        "selector": dict(sorted(rule.selector.items())),
        "min_replicas": rule.min_replicas,
        "max_replicas": rule.max_replicas,
        "replicas": "all" if rule.spreads else "",
        "windows": [_make_window_mapping(window) for window in rule.windows],
        "time_zone": "" if rule.time_zone == "UTC" else rule.time_zone,
        "route_policy": rule.route_policy,
    }
    return {key: value for key, value in written.items() if value not in ("", [], {}, 0)}


def is_same_rule(one: Rule, other: Rule) -> bool:
    """Return whether two rules ask for the same, apart from their backoff."""
    return to_mapping(one) == to_mapping(other)


def _read_spreads(reader: MappingReader) -> bool:
    """Read `replicas: all` and `spread_all: true`. A number there is a mistake that deserves a helpful error."""
    found = reader.value.get("replicas")
    if found is None or found is False or found in ("", "auto"):
        return reader.read_flag("spread_all", default=False)
    if found is True or found == "all":
        return True
    raise reader.make_error(
        f"replicas is {str(found)[:40]!r}, and only `all` can be written there",
        "For a number write min_replicas and max_replicas.",
    )


def _read_selector(reader: MappingReader) -> dict[str, str]:
    found = reader.value.get("selector", reader.value.get("node_selector"))
    try:
        return parse_selector({} if found is None else found)
    except InvalidRequest as error:
        raise InvalidRequest(f"{reader.where}: {error.message}", hint=error.hint, code=error.slug) from error


def _read_windows(reader: MappingReader) -> tuple[RuleWindow, ...]:
    items = reader.read_items("windows")
    if len(items) > WINDOWS_MAX:
        raise reader.make_error(f"windows has more than {WINDOWS_MAX} items")
    return tuple(_read_window(reader, item, number) for number, item in enumerate(items, start=1))


def _read_window(outer: MappingReader, item: object, number: int) -> RuleWindow:
    reader = MappingReader(item, f"{outer.where}: window {number}", CODE)
    reader.check_keys(("cron", "duration", "min_replicas", "max_replicas"))
    duration_s = reader.read_seconds("duration")
    if duration_s is None:
        raise reader.make_error("duration is missing", "For example 10h.")
    return RuleWindow(
        cron=" ".join(reader.read_text("cron", required=True, longest=200).split()),
        duration_s=duration_s,
        min_replicas=reader.read_integer("min_replicas", least=0, most=REPLICAS_MAX) or 0,
        max_replicas=reader.read_integer("max_replicas", least=1, most=REPLICAS_MAX),
    )


def _make_window_mapping(window: RuleWindow) -> dict[str, Any]:
    seconds = window.duration_s
    written: dict[str, Any] = {"cron": window.cron, "duration": int(seconds) if seconds == int(seconds) else seconds}
    if window.min_replicas:
        written["min_replicas"] = window.min_replicas
    return written | ({} if window.max_replicas is None else {"max_replicas": window.max_replicas})
