"""Windows of rules: when they are open, and what a rule asks for now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, RuleWindow
from corral.policy.placing.windows import check_windows, compute_effective_rule, is_open

BERLIN = "Europe/Berlin"


def a_window(cron: str, minutes: int = 60, least: int = 2, most: int | None = None) -> RuleWindow:
    return RuleWindow(cron=cron, duration_s=minutes * 60, min_replicas=least, max_replicas=most)


def a_rule(*windows: RuleWindow, **changes: object) -> Rule:
    rule = Rule(model="m", selector={}, windows=windows)
    return replace(rule, **changes)  # type: ignore[arg-type]  # by name


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "inside", "outside"),
    [
        ("0 8 * * 1-5", "2026-01-05 08:30", "2026-01-04 08:30"),  # a Monday, a Sunday
        ("0 8 * * mon-fri", "2026-01-05 08:00", "2026-01-05 09:00"),
        ("*/20 * * * *", "2026-01-05 13:59", ""),
        ("0 8 * * 0", "2026-01-04 08:00", "2026-01-05 08:00"),
        ("0 8 * * 7", "2026-01-04 08:00", "2026-01-05 08:00"),
        ("0 8 * * 5-7", "2026-01-04 08:00", "2026-01-05 08:00"),
        ("0 8 1,15 * *", "2026-01-15 08:59", "2026-01-14 08:59"),
        ("0 8 13 * fri", "2026-01-13 08:00", "2026-01-14 08:00"),  # a Tuesday the 13th: either will do
        ("0 8 13 * fri", "2026-01-09 08:00", "2026-01-10 08:00"),  # and a Friday
        ("30 22-23 31 dec *", "2026-12-31 23:30", "2026-12-31 22:29"),
        ("0 0 29 2 *", "2028-02-29 00:59", "2028-03-01 00:00"),
        ("0 10/6 * * *", "2026-01-05 16:10", "2026-01-05 11:00"),
    ],
)
def test_window_is_open_from_the_minutes_that_its_pattern_names(cron: str, inside: str, outside: str) -> None:
    window = a_window(cron)
    assert is_open(window, "UTC", at(inside))
    if outside:
        assert not is_open(window, "UTC", at(outside))


def test_window_is_open_for_exactly_its_duration_also_over_midnight() -> None:
    window = a_window("0 22 * * *", minutes=8 * 60)
    assert not is_open(window, "UTC", at("2026-01-05 21:59:59"))
    assert is_open(window, "UTC", at("2026-01-05 22:00"))
    assert is_open(window, "UTC", at("2026-01-06 05:59:59"))
    assert not is_open(window, "UTC", at("2026-01-06 06:00"))


@pytest.mark.behaviour("WIN-2")
def test_time_is_that_of_the_rules_zone_in_summer_and_winter() -> None:
    window = a_window("0 8 * * *")
    assert is_open(window, BERLIN, at("2026-01-05 07:00"))
    assert is_open(window, BERLIN, at("2026-07-05 06:00"))
    assert not is_open(window, BERLIN, at("2026-07-05 07:00"))
    midnight = a_window("0 0 * * *")
    assert is_open(midnight, "Asia/Kathmandu", at("2026-07-05 18:15")), "where it is tomorrow already"
    assert is_open(midnight, "America/New_York", at("2026-07-05 04:00")), "where it was yesterday until now"
    elsewhere = at("2026-07-05 06:30").astimezone(timezone(timedelta(hours=9)))
    assert is_open(window, BERLIN, elsewhere), "the time zone of the query does not matter"


@pytest.mark.behaviour("WIN-2")
def test_time_that_clocks_skip_begins_as_much_later_as_they_jumped() -> None:
    """On 2026-03-29 Berlin goes from 02:00 to 03:00, at 01:00 UTC."""
    window = a_window("30 2 * * *", minutes=30)
    assert not is_open(window, BERLIN, at("2026-03-29 01:29"))
    assert is_open(window, BERLIN, at("2026-03-29 01:30"))
    assert not is_open(window, BERLIN, at("2026-03-29 02:00"))


@pytest.mark.behaviour("WIN-2")
def test_window_begins_once_when_clocks_go_back() -> None:
    """On 2026-10-25 Berlin goes from 03:00 back to 02:00, at 01:00 UTC."""
    window = a_window("30 2 * * *", minutes=30)
    assert is_open(window, BERLIN, at("2026-10-25 00:30"))
    assert not is_open(window, BERLIN, at("2026-10-25 01:00"))
    assert not is_open(window, BERLIN, at("2026-10-25 01:30"))


def test_open_window_asks_for_more_and_never_for_less() -> None:
    inside, outside = at("2026-01-05 08:30"), at("2026-01-05 10:30")
    rule = a_rule(a_window("0 8 * * *", least=3), min_replicas=1, max_replicas=2)
    assert compute_effective_rule(rule, outside) == rule
    assert (compute_effective_rule(rule, inside).min_replicas, compute_effective_rule(rule, inside).max_replicas) == (
        3,
        3,
    )
    more = replace(rule, windows=(*rule.windows, a_window("0 8 * * *", least=0, most=7)))
    assert (compute_effective_rule(more, inside).min_replicas, compute_effective_rule(more, inside).max_replicas) == (
        3,
        7,
    )
    less = replace(rule, min_replicas=5, max_replicas=9)
    assert (compute_effective_rule(less, inside).min_replicas, compute_effective_rule(less, inside).max_replicas) == (
        5,
        9,
    )


def test_rule_without_a_limit_keeps_none_in_its_window() -> None:
    inside = at("2026-01-05 08:30")
    assert compute_effective_rule(a_rule(a_window("0 8 * * *", least=3), min_replicas=1), inside).max_replicas == 0
    only_then = compute_effective_rule(a_rule(a_window("0 8 * * *", least=3)), inside)
    assert (only_then.min_replicas, only_then.max_replicas) == (3, 3), "a rule that asks for nothing else"


def test_window_without_a_limit_lifts_that_of_its_rule() -> None:
    rule = a_rule(a_window("0 8 * * *", least=1, most=0), min_replicas=1, max_replicas=2)
    assert compute_effective_rule(rule, at("2026-01-05 08:30")).max_replicas == 0


def test_stored_window_that_cannot_be_read_here_counts_as_closed() -> None:
    rule = a_rule(a_window("0 8 * * *", least=3), min_replicas=1, time_zone="Mars/Olympus")
    assert compute_effective_rule(rule, at("2026-01-05 08:30")) == rule


@pytest.mark.parametrize(("cron", "words"), [("0 8 * *", "4 fields"), ("0 0 31 2 *", "a day that never comes")])
def test_pattern_that_means_nothing_is_refused_on_the_way_in(cron: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_windows(a_rule(a_window(cron)))
    assert words in refused.value.message
    assert refused.value.hint
    assert refused.value.slug == "bad_window"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "Europe", "/etc/localtime", "a\x00b"])
def test_time_zone_that_does_not_exist_is_refused_on_the_way_in(zone: str) -> None:
    with pytest.raises(InvalidRequest):
        check_windows(a_rule(time_zone=zone))


def test_windows_that_contradict_their_rule_are_refused_on_the_way_in() -> None:
    for rule in (
        a_rule(a_window("0 8 * * *"), spreads=True),
        a_rule(a_window("0 8 * * *", minutes=0)),
        a_rule(a_window("0 8 * * *", minutes=8 * 24 * 60)),
        a_rule(a_window("0 8 * * *", least=3, most=2)),
    ):
        with pytest.raises(InvalidRequest):
            check_windows(rule)
    check_windows(a_rule(a_window("0 8 * * *"), time_zone=BERLIN))
