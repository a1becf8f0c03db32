"""Rules as text: what is read, what is refused, and that reading and writing agree."""

from __future__ import annotations

from typing import Any

import pytest

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, RuleWindow
from corral.policy.models.rules import from_mapping, to_mapping

FULL: dict[str, Any] = {
    "model": "a/b#c",
    "selector": "gpu.vendor=nvidia,zone=b",
    "min_replicas": 1,
    "max_replicas": 4,
    "windows": [{"cron": "0 8 * * 1-5", "duration": "10h", "min_replicas": 2}],
    "time_zone": "Europe/Berlin",
    "route_policy": "round_robin",
}


def test_rule_is_read_back_as_it_was_written():
    rule = from_mapping(FULL)
    assert rule.selector == {"gpu.vendor": "nvidia", "zone": "b"}
    assert rule.windows == (RuleWindow(cron="0 8 * * 1-5", duration_s=36000.0, min_replicas=2),)
    assert from_mapping(to_mapping(rule)) == rule
    assert to_mapping(Rule(model="a", selector={})) == {"model": "a"}
    everywhere = from_mapping({"model": "a", "replicas": "all"})
    assert everywhere.spreads
    assert from_mapping(to_mapping(everywhere)) == everywhere


def test_rule_accepts_the_field_names_of_localai():
    rule = from_mapping({"model_name": "a", "node_selector": {"zone": "b"}, "spread_all": True})
    assert (rule.model, rule.selector, rule.spreads) == ("a", {"zone": "b"}, True)


def test_routing_is_kept_when_it_is_not_spoken_of():
    before = from_mapping(FULL)
    assert from_mapping({"model": "a/b#c"}, keeps=before).route_policy == "round_robin"
    assert from_mapping({"model": "a/b#c", "route_policy": ""}, keeps=before).route_policy == ""
    assert from_mapping({"model": "a/b#c"}, keeps=before).min_replicas == 0


@pytest.mark.behaviour("NODE-57")
@pytest.mark.parametrize(
    ("rule", "sentence", "hint"),
    [
        ({"route_policy": "prefixcache"}, "route_policy has 'prefixcache'", "Did you mean prefix_cache?"),
        ({"min_replica": 1}, "'min_replica' is not a setting", "Did you mean min_replicas?"),
        ({"min_replicas": 3, "max_replicas": 2}, "the minimum 3 is more than the maximum 2", None),
        ({"min_replicas": -1}, "min_replicas is not a whole number", None),
        ({"replicas": "all", "min_replicas": 1}, "one replica on every node", "Leave out"),
        ({"spread_all": True, "max_replicas": 1}, "one replica on every node", "Leave out"),
        ({"replicas": 3}, "only `all` can be written there", "min_replicas and max_replicas"),
        ({"replicas": "three"}, "only `all` can be written there", "min_replicas and max_replicas"),
        ({"selector": "zone"}, "not key=value", None),
        ({"selector": ["zone"]}, "A selector is an object", None),
        ({"windows": [{"cron": "0 8 * *", "duration": "1h"}]}, "four|4 fields", None),
        ({"windows": [{"cron": "0 8 * * *"}]}, "duration is missing", None),
        ({"windows": [{"cron": "0 8 * * *", "duration": "8d"}]}, "seven days", None),
        ({"windows": [{"cron": "0 8 * * *", "duration": "1h"}], "replicas": "all"}, "spreads over all nodes", None),
        ({"time_zone": "Mars/Olympus"}, "not a known time zone", None),
    ],
)
def test_rule_that_is_wrong_says_what_and_what_was_meant(rule: dict[str, Any], sentence: str, hint: str | None):
    with pytest.raises(InvalidRequest) as caught:
        from_mapping({"model": "a"} | rule)
    assert any(part in caught.value.message for part in sentence.split("|")), caught.value.message
    assert hint is None or hint in str(caught.value.hint)
    assert "a" in caught.value.message


def test_rule_says_which_model_it_is_for():
    with pytest.raises(InvalidRequest, match="model is missing"):
        from_mapping({"min_replicas": 1})
    with pytest.raises(InvalidRequest, match="is expected"):
        from_mapping({"model": "a"}, model="b")
    assert from_mapping({}, model="b").model == "b"
