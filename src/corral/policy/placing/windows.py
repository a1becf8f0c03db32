"""Evaluates times of the week in which a rule asks for more: whether one is open, what the rule asks for, when that
changes.

A window begins at every local minute that its pattern names, in the rule's time zone, and lasts `duration_s`. Each such
minute begins once: the first of two when clocks go back; when they go forward over it, as much later as they jumped.

The pattern is cron's, with five fields: minute, hour, day of the month, month, day of the week.

    *      a      a-b      */n      a-b/n      a,b,c      jan…dec      sun…sat      (0 and 7 are both Sunday)

As in cron, a day of the month and a day of the week that are both restricted mean either of them. Written here and not
taken from a library because it is 60 lines, decisions use the standard library only, and what is needed is the latest
beginning *before* now in a time zone, which the libraries either lack or answer differently when clocks change.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, RuleWindow

CODE = "bad_window"
DURATION_MAX_S = 7 * 86400.0
# The 29th of February may be eight years away.
_YEARS_AHEAD = 9
_DAY = timedelta(days=1)
# No clock is moved by more than a day; most by an hour.
_CLOCKS_MOVE_DAYS = 1
# A window that begins again before it ends is followed so often; after that, the answer is "look again then".
_CHAIN_MAX = 500
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {
    "month": {name: number for number, name in enumerate(_MONTHS, start=1)},
    "day of the week": {name: number for number, name in enumerate(_WEEKDAYS)},
}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_PART = re.compile(r"(?P<first>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,2}))?")
_HINT = "Minute, hour, day, month, day of the week: 0 8 * * 1-5 is eight o'clock on working days."


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


@lru_cache(maxsize=4096)
def parse_cron(text: str) -> CronSchedule:
    """Parse a cron pattern. Raises for anything that cron would not take, and for days that never come."""
    fields = text.lower().split()
    if len(fields) != len(_FIELDS):
        raise InvalidRequest(f"{text[:80]!r} has {len(fields)} fields, a cron pattern five.", hint=_HINT, code=CODE)
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
    # Eight years from here contain every date, on whatever weekday.
    first = date(2024, 1, 1)
    if not any(cron.is_on(first + _DAY * number) for number in range(366 * _YEARS_AHEAD)):
        raise InvalidRequest(f"{text[:80]!r} names a day that never comes.", hint=_HINT, code=CODE)
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


def _make_error(part: str, name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{part[:40]!r} is not a {name} of a cron pattern.", hint=f"It is {what}. {_HINT}", code=CODE)


@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidRequest(
            f"{name[:64]!r} is not a time zone that this machine knows.",
            hint="Write it as in the IANA database: UTC, Europe/Berlin, America/New_York.",
            code=CODE,
        ) from error


def check_windows(rule: Rule) -> None:
    """Raise for any problem with a rule's windows when the rule is saved, and not at night."""
    find_zone(rule.time_zone)
    if rule.windows and rule.spreads:
        raise InvalidRequest(
            f"The rule of {rule.model} spreads over all nodes, and windows ask for a number.",
            hint="Leave out one of them.",
            code=CODE,
        )
    for window in rule.windows:
        parse_cron(window.cron)
        if not 60 <= window.duration_s <= DURATION_MAX_S:
            raise InvalidRequest("A window lasts between a minute and seven days.", code=CODE)
        if window.max_replicas and window.max_replicas < window.min_replicas:
            raise InvalidRequest(
                f"A window's maximum {window.max_replicas} is below its minimum {window.min_replicas}.", code=CODE
            )


def compute_effective_rule(rule: Rule, now: datetime) -> Rule:
    """Return the rule as it counts now: the most that it or an open window asks for. A window never asks for less.

    A window without a maximum keeps the rule's, raised to its own minimum. Every input is checked; a window that
    this machine cannot read all the same (it lacks the time zone) counts as closed, and does not stop the others.
    """
    open_windows = [window for window in rule.windows if _is_known_open(window, rule.time_zone, now)]
    if not open_windows:
        return rule
    least = max(rule.min_replicas, *(window.min_replicas for window in open_windows))
    is_limited = bool(rule.max_replicas) or rule.min_replicas == 0
    limits = [window.max_replicas for window in open_windows if window.max_replicas is not None]
    most = max(rule.max_replicas, least, *limits) if is_limited and 0 not in limits else 0
    return replace(rule, min_replicas=least, max_replicas=most)


def is_open(window: RuleWindow, time_zone: str, now: datetime) -> bool:
    """Whether the window has begun and not ended. `now` knows its time zone; which one it is does not matter."""
    began = _find_latest_beginning(window, find_zone(time_zone), now)
    return began is not None


def _is_known_open(window: RuleWindow, time_zone: str, now: datetime) -> bool:
    try:
        return is_open(window, time_zone, now)
    except InvalidRequest:
        return False


def _find_latest_beginning(window: RuleWindow, zone: ZoneInfo, now: datetime) -> datetime | None:
    """Return the latest beginning of a window that is still open."""
    earliest = now - timedelta(seconds=window.duration_s)
    last_day = now.astimezone(zone).date() + _DAY * _CLOCKS_MOVE_DAYS
    days = (last_day - earliest.astimezone(zone).date()).days + _CLOCKS_MOVE_DAYS
    cron = parse_cron(window.cron)
    best: datetime | None = None
    for number in range(days + 1):
        day = last_day - _DAY * number
        if best is not None and day < best.astimezone(zone).date() - _DAY * _CLOCKS_MOVE_DAYS:
            break
        begins = _list_beginnings(window.cron, zone, day) if cron.is_on(day) else ()
        index = bisect_right(begins, now)
        if index and begins[index - 1] > earliest and (best is None or begins[index - 1] > best):
            best = begins[index - 1]
    return best


@lru_cache(maxsize=128)
def _list_beginnings(cron: str, zone: ZoneInfo, day: date) -> tuple[datetime, ...]:
    """Return the beginnings in the order of time, which is not that of the clock on a day when clocks change.

    Of two equal local times, `fold=0` is the first; one that is skipped gets the offset from before the jump.
    """
    return tuple(sorted(datetime.combine(day, time(*at), tzinfo=zone).astimezone(UTC) for at in parse_cron(cron).times))
