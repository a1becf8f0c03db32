"""Windows of rules: what cron means, what clocks do to it, and what a rule asks for now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, RuleWindow
from corral.policy.placing.windows import check_windows, compute_effective_rule, is_open, parse_cron

MINUTE = timedelta(minutes=1)
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
def test_a_window_is_open_from_the_minutes_that_its_pattern_names(cron: str, inside: str, outside: str) -> None:
    window = a_window(cron)
    assert is_open(window, "UTC", at(inside))
    if outside:
        assert not is_open(window, "UTC", at(outside))


def test_a_window_is_open_for_exactly_its_duration_also_over_midnight() -> None:
    window = a_window("0 22 * * *", minutes=8 * 60)
    assert not is_open(window, "UTC", at("2026-01-05 21:59:59"))
    assert is_open(window, "UTC", at("2026-01-05 22:00"))
    assert is_open(window, "UTC", at("2026-01-06 05:59:59"))
    assert not is_open(window, "UTC", at("2026-01-06 06:00"))


@pytest.mark.behaviour("WIN-2")
def test_the_time_is_that_of_the_rules_zone_in_summer_and_winter() -> None:
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
def test_a_time_that_clocks_skip_begins_as_much_later_as_they_jumped() -> None:
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


def test_an_open_window_asks_for_more_and_never_for_less() -> None:
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


def test_a_rule_without_a_limit_keeps_none_in_its_window() -> None:
    inside = at("2026-01-05 08:30")
    assert compute_effective_rule(a_rule(a_window("0 8 * * *", least=3), min_replicas=1), inside).max_replicas == 0
    only_then = compute_effective_rule(a_rule(a_window("0 8 * * *", least=3)), inside)
    assert (only_then.min_replicas, only_then.max_replicas) == (3, 3), "a rule that asks for nothing else"


def test_a_window_without_a_limit_lifts_that_of_its_rule() -> None:
    rule = a_rule(a_window("0 8 * * *", least=1, most=0), min_replicas=1, max_replicas=2)
    assert compute_effective_rule(rule, at("2026-01-05 08:30")).max_replicas == 0


def test_a_stored_window_that_cannot_be_read_here_counts_as_closed() -> None:
    rule = a_rule(a_window("0 8 * * *", least=3), min_replicas=1, time_zone="Mars/Olympus")
    assert compute_effective_rule(rule, at("2026-01-05 08:30")) == rule


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("", "0 fields"),
        ("0 8 * *", "4 fields"),
        ("60 8 * * *", "'60' is not a minute"),
        ("0 24 * * *", "'24' is not a hour"),
        ("0 8 0 * *", "'0' is not a day "),
        ("0 8 * 13 *", "'13' is not a month"),
        ("0 8 * * 8", "'8' is not a day of the week"),
        ("0 8 * * fry", "'fry' is not a day of the week"),
        ("mon 8 * * *", "'mon' is not a minute"),
        ("5-1 8 * * *", "'5-1' is not a minute"),
        ("*/0 8 * * *", "'*/0' is not a minute"),
        ("*-5 8 * * *", "'*-5' is not a minute"),
        ("1,,2 8 * * *", "'' is not a minute"),
        ("0 0 31 2 *", "a day that never comes"),
        ("@daily", "1 fields"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused_on_the_way_in(cron: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_windows(a_rule(a_window(cron)))
    assert words in refused.value.message
    assert refused.value.hint
    assert refused.value.slug == "bad_window"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "Europe", "/etc/localtime", "a\x00b"])
def test_a_time_zone_that_does_not_exist_is_refused_on_the_way_in(zone: str) -> None:
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


steps = st.sampled_from(["*", "*/15", "0", "30", "0,45", "10-20", "5/25"])
hours = st.sampled_from(["*", "*/6", "0", "2", "1-3", "8,20", "23"])
days = st.sampled_from(["*", "1", "29", "13-15", "*/2"])
weekdays = st.sampled_from(["*", "1-5", "0", "sat,sun", "3"])
crons = st.tuples(steps, hours, days, st.sampled_from(["*", "3,10", "oct-dec"]), weekdays).map(" ".join)
zones = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
# Half of them around a change of clocks, where things go wrong.
minutes_after = st.integers(0, 50 * 24 * 60)
moments = st.tuples(st.sampled_from([at("2026-03-01"), at("2026-10-01")]), minutes_after).map(
    lambda pair: pair[0] + pair[1] * MINUTE + timedelta(seconds=pair[1] % 60)
)


def _naive_beginnings(cron: str, zone: ZoneInfo, first: date, days_on: int) -> list[datetime]:
    """Every local minute of some days, one after the other, checked against the fields as they are written."""
    fields = cron.split()
    begins = []
    local = datetime.combine(first, time())
    for _ in range(days_on * 24 * 60):
        if _means(fields, local):
            begins.append(local.replace(tzinfo=zone).astimezone(UTC))
        local += MINUTE
    return begins


def _means(fields: list[str], local: datetime) -> bool:
    minute, hour, month = (_is_in(fields[0], local.minute, 59), _is_in(fields[1], local.hour, 23),
                           _is_in(fields[3].replace("oct-dec", "10-12"), local.month, 12))  # fmt: skip
    week = fields[4].replace("sat", "6").replace("sun", "0")
    by_date, by_week = _is_in(fields[2], local.day, 31, least=1), _is_in(week, local.isoweekday() % 7, 6)
    either = fields[2][0] != "*" and fields[4][0] != "*"
    return minute and hour and month and ((by_date or by_week) if either else (by_date and by_week))


def _is_in(field: str, value: int, most: int, least: int = 0) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = least if first == "*" else int(first)
        high = int(last) if last else most if first == "*" or step else low
        if low <= value <= high and (value - low) % int(step or 1) == 0:
            return True
    return False


@settings(deadline=None)
@given(cron=crons, zone=zones, now=moments, minutes=st.integers(1, 2000))
def test_windows_agree_with_a_look_at_every_single_minute(cron: str, zone: str, now: datetime, minutes: int) -> None:
    window = a_window(cron, minutes=minutes)
    lasts = timedelta(minutes=minutes)
    first = (now - lasts).astimezone(ZoneInfo(zone)).date() - timedelta(days=2)
    begins = _naive_beginnings(cron, ZoneInfo(zone), first, lasts.days + 5)
    expected = any(begin <= now < begin + lasts for begin in begins)
    assert is_open(window, zone, now) == expected


def test_reading_a_pattern_gives_times_in_order() -> None:
    assert parse_cron("30,0 8-9 * * *").times == ((8, 0), (8, 30), (9, 0), (9, 30))
