"""Reads cron patterns, and finds the latest or the next time at which one starts something, in a time zone.

    *      a      a-b      */n      a-b/n      a,b,c      jan…dec      sun…sat      (0 and 7 are both Sunday)

The five fields are minute, hour, day of the month, month and day of the week. As in cron, a day of the month and a day
of the week that are both restricted mean either of them. Guarantee: each local minute that a pattern names starts once.
When clocks go back over it, the first of the two counts; when they go forward over it, it starts as much later as they
jumped. Limit: the search backwards goes day by day, so its caller bounds it; the search forwards ends within 41 years,
because every pattern names a day that comes. Why this is no library: `docs/adr/0053-own-cron-patterns.md`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

# A 29th of February that is a Sunday (`0 0 29 2 */7`) may be forty years away.
_YEARS_AHEAD = 41
_DAY = timedelta(days=1)
# No clock is moved by more than a day; most by an hour.
_CLOCKS_MOVE_DAYS = 1
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {
    "month": {name: number for number, name in enumerate(_MONTHS, start=1)},
    "day of the week": {name: number for number, name in enumerate(_WEEKDAYS)},
}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_PART = re.compile(r"(?P<first>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,2}))?")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_HINT = "Minute, hour, day, month, day of the week: 0 8 * * 1-5 is eight o'clock on working days."


class InvalidSchedule(ValueError):
    """Raised for a cron pattern that cannot be parsed, or an unknown time zone.

    Callers turn it into an error with their own code.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """Holds a parsed cron pattern. Days of the week are those of `date.isoweekday`: Monday is 1, Sunday 7."""

    times: tuple[tuple[int, int], ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    # Both kinds of days are restricted: either will do.
    is_either: bool

    def is_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_week = day.day in self.days, day.isoweekday() in self.weekdays
        return (by_date or by_week) if self.is_either else (by_date and by_week)


def normalise_cron(text: str) -> str:
    """Return a pattern with one space between its fields, and descriptors such as @daily written out."""
    return _DESCRIPTORS.get(text.strip().lower(), " ".join(text.split()))


@lru_cache(maxsize=4096)
def parse_cron(text: str) -> CronSchedule:
    """Parse a cron pattern. Raises `InvalidSchedule` for anything that cron would not take, and for days that never
    come."""
    fields = text.lower().split()
    if len(fields) != len(_FIELDS):
        raise InvalidSchedule(f"{text[:80]!r} has {len(fields)} fields, a cron pattern five.", _HINT)
    minutes, hours, days, months, weekdays = (
        _parse_numbers(field, name, least, most) for field, (name, least, most) in zip(fields, _FIELDS, strict=True)
    )
    cron = CronSchedule(
        times=tuple((hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=frozenset(day or 7 for day in weekdays),
        is_either=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )
    # The years from here contain every date on every weekday.
    first = date(2024, 1, 1)
    if not any(cron.is_on(first + _DAY * number) for number in range(366 * _YEARS_AHEAD)):
        raise InvalidSchedule(f"{text[:80]!r} names a day that never comes.", _HINT)
    return cron


def _parse_numbers(field: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _make_error(part, name, f"from {least} to {most}, such as *, 5, 1-5 or */2")
        step = int(match["step"] or 1)
        if match["first"] == "*":
            first, last = least, most
            is_wrong = match["last"] is not None
        else:
            first = _parse_number(match["first"], name)
            last = _parse_number(match["last"], name) if match["last"] else most if match["step"] else first
            is_wrong = not least <= first <= last <= most
        if is_wrong or step < 1:
            raise _make_error(part, name, f"from {least} to {most}, the smaller one first")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _parse_number(text: str, name: str) -> int:
    if text.isdecimal():
        return int(text)
    known = _NAMES.get(name, {})
    if text not in known:
        raise _make_error(text, name, f"a number or one of {', '.join(known)}" if known else "a number")
    return known[text]


def _make_error(part: str, name: str, what: str) -> InvalidSchedule:
    return InvalidSchedule(f"{part[:40]!r} is not a {name} of a cron pattern.", f"It is {what}. {_HINT}")


@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo:
    """Return the time zone of this name. Raises `InvalidSchedule` if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidSchedule(
            f"{name[:64]!r} is not a known time zone.",
            "Write it as in the IANA database: UTC, Europe/Berlin, America/New_York.",
        ) from error


def find_latest_start(cron: str, zone: ZoneInfo, now: datetime, *, since: datetime) -> datetime | None:
    """Return the latest start of a pattern after `since` and not after `now`, in UTC; None if there is none. `now` and
    `since` know their time zones; which ones they are does not matter."""
    last_day = now.astimezone(zone).date() + _DAY * _CLOCKS_MOVE_DAYS
    days = (last_day - since.astimezone(zone).date()).days + _CLOCKS_MOVE_DAYS
    schedule = parse_cron(cron)
    best: datetime | None = None
    for number in range(days + 1):
        day = last_day - _DAY * number
        if best is not None and day < best.astimezone(zone).date() - _DAY * _CLOCKS_MOVE_DAYS:
            break
        starts = _list_starts(cron, zone, day) if schedule.is_on(day) else ()
        index = bisect_right(starts, now)
        if index and starts[index - 1] > since and (best is None or starts[index - 1] > best):
            best = starts[index - 1]
    return best


def find_next_start(cron: str, zone: ZoneInfo, after: datetime) -> datetime:
    """Return the first start of a pattern after this moment, in UTC."""
    schedule = parse_cron(cron)
    # Clocks that jump forward move a start to a later day at most by this much.
    day = after.astimezone(zone).date() - _DAY * _CLOCKS_MOVE_DAYS
    best: datetime | None = None
    for number in range(366 * _YEARS_AHEAD):
        current = day + _DAY * number
        if best is not None and current > best.astimezone(zone).date() + _DAY * _CLOCKS_MOVE_DAYS:
            return best
        starts = _list_starts(cron, zone, current) if schedule.is_on(current) else ()
        index = bisect_right(starts, after)
        if index < len(starts) and (best is None or starts[index] < best):
            best = starts[index]
    assert best is not None, "a pattern that was parsed names a day that comes"
    return best


def list_next_starts(cron: str, zone: ZoneInfo, after: datetime, count: int) -> list[datetime]:
    """Return the first `count` starts of a pattern after this moment, in UTC. Raises `InvalidSchedule`."""
    starts: list[datetime] = []
    for _ in range(count):
        starts.append(find_next_start(cron, zone, starts[-1] if starts else after))
    return starts


@lru_cache(maxsize=128)
def _list_starts(cron: str, zone: ZoneInfo, day: date) -> tuple[datetime, ...]:
    """Return the starts of a day in the order of time, which is not that of the clock on a day when clocks change.

    Of two equal local times, `fold=0` is the first; one that is skipped gets the offset from before the jump.
    """
    return tuple(sorted(datetime.combine(day, time(*at), tzinfo=zone).astimezone(UTC) for at in parse_cron(cron).times))
