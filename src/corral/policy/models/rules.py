"""Rules as YAML and JSON: where a model may run and how many replicas it is to have.

    model: chat
    selector: {gpu.vendor: nvidia}      (or gpu.vendor=nvidia)
    min_replicas: 1
    max_replicas: 4                     (0: no limit)
    replicas: all                       (one on every node that matches; instead of a minimum and a maximum)
    windows: [{cron: 0 8 * * 1-5, duration: 10h, min_replicas: 2}]
    time_zone: Europe/Berlin

`to_mapping` writes what `from_mapping` reads to the same rule. The ancestor's names are read too: `model_name`,
`node_selector`, `spread_all`.
"""

from __future__ import annotations

from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, Window
from corral.policy.labels import parse_selector
from corral.policy.models.configuration import check_name
from corral.policy.models.reading import Reader
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
    """Read what a person wrote. `keeps` is the rule so far: its routing stays when it is not spoken of."""
    reader = Reader(value, "The rule", CODE)
    said = reader.value.get("model", reader.value.get("model_name"))
    if model and said not in (None, model):
        raise reader.wrong(f"the model in it is {str(said)[:80]!r}, but {model[:80]!r} is meant")
    if not model and not isinstance(said, str):
        raise reader.wrong("model is missing")
    name = check_name(model or str(said))
    reader = Reader(value, f"The rule of {name}", CODE)
    reader.allow(_KEYS)
    spreads = _spreads(reader)
    least = reader.whole("min_replicas", least=0, most=REPLICAS_MAX) or 0
    most = reader.whole("max_replicas", least=0, most=REPLICAS_MAX) or 0
    if spreads and (least or most):
        raise reader.wrong(
            "it asks for one replica on every node, and for a minimum or a maximum as well",
            "Leave out min_replicas and max_replicas, or `replicas: all`.",
        )
    if most and least > most:
        raise reader.wrong(f"the minimum {least} is more than the maximum {most}")
    route = reader.value.get("route_policy")
    rule = Rule(
        model=name,
        selector=_selector(reader),
        min_replicas=least,
        max_replicas=most,
        spreads=spreads,
        windows=_windows(reader),
        time_zone=reader.text("time_zone", longest=64) or "UTC",
        route_policy=keeps.route_policy
        if route is None and keeps
        else reader.one_of("route_policy", ROUTE_POLICIES, ""),
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
        "windows": [_window_mapping(window) for window in rule.windows],
        "time_zone": "" if rule.time_zone == "UTC" else rule.time_zone,
        "route_policy": rule.route_policy,
    }
    return {key: value for key, value in written.items() if value not in ("", [], {}, 0)}


def is_same(one: Rule, other: Rule) -> bool:
    """Whether two say the same, whatever became of them."""
    return to_mapping(one) == to_mapping(other)


def _spreads(reader: Reader) -> bool:
    """`replicas: all` and `spread_all: true`. A number there is a mistake that is worth a sentence."""
    found = reader.value.get("replicas")
    if found is None or found is False or found in ("", "auto"):
        return reader.flag("spread_all", default=False)
    if found is True or found == "all":
        return True
    raise reader.wrong(
        f"replicas is {str(found)[:40]!r}, and only `all` can be written there",
        "For a number write min_replicas and max_replicas.",
    )


def _selector(reader: Reader) -> dict[str, str]:
    found = reader.value.get("selector", reader.value.get("node_selector"))
    try:
        return parse_selector({} if found is None else found)
    except InvalidRequest as error:
        raise InvalidRequest(f"{reader.where}: {error.message}", hint=error.hint, code=error.slug) from error


def _windows(reader: Reader) -> tuple[Window, ...]:
    items = reader.items("windows")
    if len(items) > WINDOWS_MAX:
        raise reader.wrong(f"windows has more than {WINDOWS_MAX} items")
    return tuple(_window(reader, item, number) for number, item in enumerate(items, start=1))


def _window(outer: Reader, item: object, number: int) -> Window:
    reader = Reader(item, f"{outer.where}: window {number}", CODE)
    reader.allow(("cron", "duration", "min_replicas", "max_replicas"))
    duration_s = reader.seconds("duration")
    if duration_s is None:
        raise reader.wrong("duration is missing", "For example 10h.")
    return Window(
        cron=" ".join(reader.text("cron", required=True, longest=200).split()),
        duration_s=duration_s,
        min_replicas=reader.whole("min_replicas", least=0, most=REPLICAS_MAX) or 0,
        max_replicas=reader.whole("max_replicas", least=1, most=REPLICAS_MAX),
    )


def _window_mapping(window: Window) -> dict[str, Any]:
    seconds = window.duration_s
    written: dict[str, Any] = {"cron": window.cron, "duration": int(seconds) if seconds == int(seconds) else seconds}
    if window.min_replicas:
        written["min_replicas"] = window.min_replicas
    return written | ({} if window.max_replicas is None else {"max_replicas": window.max_replicas})
