"""Cron patterns: what they name, what is refused, and what changes of clocks do to them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.policy.cron import (
    InvalidSchedule,
    find_latest_start,
    find_next_start,
    find_zone,
    list_next_starts,
    parse_cron,
)

MINUTE = timedelta(minutes=1)
BERLIN = "Europe/Berlin"
LORD_HOWE = "Australia/Lord_Howe"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def latest(cron: str, now: str, zone: str = "UTC", *, days: int = 3) -> str:
    """Return the latest start as it is written in UTC, or nothing."""
    found = find_latest_start(cron, find_zone(zone), at(now), since=at(now) - timedelta(days=days))
    return f"{found:%Y-%m-%d %H:%M}" if found else ""


def test_cron_pattern_gives_its_times_in_order() -> None:
    assert parse_cron("30,0 8-9 * * *").times == ((8, 0), (8, 30), (9, 0), (9, 30))


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
def test_cron_pattern_that_means_nothing_is_refused_with_a_reason_and_a_hint(cron: str, words: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_cron(cron)
    assert words in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "Europe", "/etc/localtime", "a\x00b"])
def test_time_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule):
        find_zone(zone)


@pytest.mark.parametrize(
    ("cron", "now", "expected"),
    [
        ("0 8 * * 1-5", "2026-01-05 08:30", "2026-01-05 08:00"),  # a Monday
        ("0 8 * * 1-5", "2026-01-04 08:30", "2026-01-02 08:00"),  # a Sunday: the Friday before it
        ("0 8 * * 7", "2026-01-05 07:00", "2026-01-04 08:00"),
        ("0 8 * * 0", "2026-01-05 07:00", "2026-01-04 08:00"),
        ("0 8 * * 5-7", "2026-01-04 08:00", "2026-01-04 08:00"),
        ("0 8 13 * fri", "2026-01-13 08:00", "2026-01-13 08:00"),  # a Tuesday the 13th: either will do
        ("0 8 13 * fri", "2026-01-10 08:00", "2026-01-09 08:00"),  # and a Friday
        ("30 22-23 31 dec *", "2027-01-01 05:00", "2026-12-31 23:30"),
        ("0 0 29 2 *", "2028-03-01 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2027-03-01 00:00", ""),
        ("0 10/6 * * *", "2026-01-05 21:59", "2026-01-05 16:00"),
        ("*/20 * * * *", "2026-01-05 13:59", "2026-01-05 13:40"),
    ],
)
def test_latest_start_is_the_last_minute_that_the_pattern_names(cron: str, now: str, expected: str) -> None:
    assert latest(cron, now) == expected


def test_start_at_the_moment_of_the_query_counts_and_one_at_its_beginning_does_not() -> None:
    start = at("2026-01-05 08:00")
    assert find_latest_start("0 8 * * *", find_zone("UTC"), start, since=start - MINUTE) == start
    assert find_latest_start("0 8 * * *", find_zone("UTC"), start + MINUTE, since=start) is None


@pytest.mark.behaviour("WIN-2")
@pytest.mark.parametrize(
    ("cron", "zone", "now", "expected"),
    [
        # On 2026-03-29 Berlin goes from 02:00 to 03:00, at 01:00 UTC.
        ("30 2 * * *", BERLIN, "2026-03-29 01:29", "2026-03-28 01:30"),
        ("30 2 * * *", BERLIN, "2026-03-29 01:30", "2026-03-29 01:30"),
        ("30 2 * * *", BERLIN, "2026-03-29 12:00", "2026-03-29 01:30"),
        ("30 2 * * *", BERLIN, "2026-03-30 12:00", "2026-03-30 00:30"),
        ("0 3 * * *", BERLIN, "2026-03-29 12:00", "2026-03-29 01:00"),
        ("*/30 * * * *", BERLIN, "2026-03-29 01:29", "2026-03-29 01:00"),
        # On 2026-10-04 Lord Howe goes from 02:00 to 02:30, at 15:30 UTC of the day before.
        ("15 2 * * *", LORD_HOWE, "2026-10-03 15:44", "2026-10-02 15:45"),
        ("15 2 * * *", LORD_HOWE, "2026-10-03 15:45", "2026-10-03 15:45"),
        # On 2026-04-23 Cairo has no midnight: at 22:00 UTC its clocks go from 00:00 to 01:00 of the 24th.
        ("0 0 * * *", "Africa/Cairo", "2026-04-24 12:00", "2026-04-23 22:00"),
        # Samoa left out a whole day, the 30th of December 2011.
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-31 12:00", "2011-12-30 22:00"),
    ],
)
def test_start_that_clocks_skip_is_as_much_later_as_they_jumped(cron: str, zone: str, now: str, expected: str) -> None:
    assert latest(cron, now, zone) == expected


@pytest.mark.behaviour("WIN-2")
@pytest.mark.parametrize(
    ("cron", "zone", "now", "expected"),
    [
        # On 2026-10-25 Berlin goes from 03:00 back to 02:00, at 01:00 UTC.
        ("30 2 * * *", BERLIN, "2026-10-25 00:29", "2026-10-24 00:30"),
        ("30 2 * * *", BERLIN, "2026-10-25 00:30", "2026-10-25 00:30"),
        ("30 2 * * *", BERLIN, "2026-10-25 01:45", "2026-10-25 00:30"),
        ("30 2 * * *", BERLIN, "2026-10-26 12:00", "2026-10-26 01:30"),
        ("*/15 * * * *", BERLIN, "2026-10-25 01:50", "2026-10-25 00:45"),
        ("0 3 * * *", BERLIN, "2026-10-25 12:00", "2026-10-25 02:00"),
        # On 2026-04-05 Lord Howe goes from 02:00 back to 01:30, at 15:00 UTC of the day before.
        ("45 1 * * *", LORD_HOWE, "2026-04-04 15:20", "2026-04-04 14:45"),
    ],
)
def test_start_that_clocks_repeat_counts_once(cron: str, zone: str, now: str, expected: str) -> None:
    assert latest(cron, now, zone) == expected


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
def test_latest_start_agrees_with_a_look_at_every_single_minute(
    cron: str, zone: str, now: datetime, minutes: int
) -> None:
    since = now - timedelta(minutes=minutes)
    first = since.astimezone(ZoneInfo(zone)).date() - timedelta(days=2)
    starts = _naive_beginnings(cron, ZoneInfo(zone), first, (now - since).days + 5)
    expected = max((start for start in starts if since < start <= now), default=None)
    assert find_latest_start(cron, ZoneInfo(zone), now, since=since) == expected


def following(cron: str, after: str, zone: str = "UTC") -> str:
    """Return the next start as it is written in UTC."""
    return f"{find_next_start(cron, find_zone(zone), at(after)):%Y-%m-%d %H:%M}"


@pytest.mark.behaviour("TASK-9")
@pytest.mark.parametrize(
    ("cron", "after", "zone", "expected"),
    [
        ("0 9 * * *", "2026-01-05 07:59", "Europe/Rome", "2026-01-05 08:00"),
        ("0 9 * * *", "2026-01-05 08:00", "Europe/Rome", "2026-01-06 08:00"),
        # On 2026-03-29 Rome goes from 02:00 to 03:00, and 09:00 is at 07:00 UTC from then on.
        ("0 9 * * *", "2026-03-28 08:00", "Europe/Rome", "2026-03-29 07:00"),
        ("30 2 * * *", "2026-03-28 12:00", "Europe/Rome", "2026-03-29 01:30"),
        ("30 2 * * *", "2026-03-29 01:30", "Europe/Rome", "2026-03-30 00:30"),
        # On 2026-10-25 Rome goes from 03:00 back to 02:00: the second 02:30 starts nothing.
        ("0 9 * * *", "2026-10-24 07:00", "Europe/Rome", "2026-10-25 08:00"),
        ("30 2 * * *", "2026-10-25 00:29", "Europe/Rome", "2026-10-25 00:30"),
        ("30 2 * * *", "2026-10-25 00:30", "Europe/Rome", "2026-10-26 01:30"),
        ("0 12 30 12 *", "2011-12-29 00:00", "Pacific/Apia", "2011-12-30 22:00"),
        ("0 0 29 2 *", "2028-03-01 00:00", "UTC", "2032-02-29 00:00"),
        ("0 8 13 * fri", "2026-01-10 09:00", "UTC", "2026-01-13 08:00"),
    ],
)
def test_next_start_is_the_first_minute_that_the_pattern_names(cron: str, after: str, zone: str, expected: str) -> None:
    assert following(cron, after, zone) == expected


@settings(deadline=None)
@given(cron=crons, zone=zones, now=moments)
def test_next_start_agrees_with_the_latest_start_at_every_moment(cron: str, zone: str, now: datetime) -> None:
    found = find_next_start(cron, ZoneInfo(zone), now)
    assert found > now
    assert find_latest_start(cron, ZoneInfo(zone), found, since=now) == found
    assert find_latest_start(cron, ZoneInfo(zone), found - timedelta(seconds=1), since=now) is None


def test_next_starts_follow_each_other_in_the_time_zone() -> None:
    starts = list_next_starts("30 2 * * *", find_zone(BERLIN), at("2026-03-28 12:00"), 2)
    assert [f"{one:%Y-%m-%d %H:%M}" for one in starts] == ["2026-03-29 01:30", "2026-03-30 00:30"]


def test_next_start_that_is_decades_away_is_found() -> None:
    # 29 February is a Sunday in 2032, 2060 and 2088, and again 40 years after that: 2100 has no leap day.
    starts = list_next_starts("0 0 29 2 */7", find_zone("UTC"), at("2026-11-19 00:00"), 4)
    assert [one.year for one in starts] == [2032, 2060, 2088, 2128]
