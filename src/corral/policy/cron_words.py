"""Says a cron pattern in words: `Monday to Friday at 08:00`.

Limit: where words would be longer than useful, the pattern itself is the answer.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from corral.policy.cron import CronSchedule, parse_cron

# More times a day are easier to read as a pattern.
_TIMES_MAX = 4
_STEP = re.compile(r"\*/([0-9]+)")
_DAYS_OF_MONTH, _DAYS_OF_WEEK, _MONTHS = 31, 7, 12
# Three days in a row read as `Monday to Wednesday`, two as `Monday and Tuesday`.
_ROW_MIN = 3


@lru_cache(maxsize=1024)
def describe_cron(pattern: str) -> str:
    """Return the words for a normalised pattern. Raises `InvalidSchedule` for anything that `parse_cron` refuses."""
    cron = parse_cron(pattern)
    days, times = _describe_days(cron), _describe_times(pattern, cron)
    if days is None or times is None:
        return pattern
    if times.startswith("at "):
        return f"{days} {times}"
    return times if days == "every day" else f"{times}, {days}"


def _describe_times(pattern: str, cron: CronSchedule) -> str | None:
    """Return `every 15 minutes`, `every hour`, or `at 09:00 and 17:00`; None if words would be too long."""
    minute, hour = pattern.split()[:2]
    minutes = sorted({one for _, one in cron.times})
    if hour == "*":
        return _describe_minutes(minute, minutes)
    step = _find_step(hour)
    if step > 1 and len(minutes) == 1 and 24 % step == 0:
        return f"every {step} hours{_describe_offset(minutes[0])}"
    if len(cron.times) > _TIMES_MAX:
        return None
    return f"at {_join([f'{one:02}:{other:02}' for one, other in cron.times])}"


def _describe_minutes(minute: str, minutes: Sequence[int]) -> str | None:
    if minute == "*":
        return "every minute"
    step = _find_step(minute)
    if step:
        if 60 % step:
            return None
        return "every minute" if step == 1 else f"every {step} minutes"
    return f"every hour{_describe_offset(minutes[0])}" if len(minutes) == 1 else None


def _find_step(field: str) -> int:
    match = _STEP.fullmatch(field)
    return int(match[1]) if match else 0


def _describe_offset(minute: int) -> str:
    return f" at minute {minute}" if minute else ""


def _describe_days(cron: CronSchedule) -> str | None:
    """Return `every day`, `Monday to Friday`, or `on day 1 of the month`; None if words would be too long."""
    if cron.is_either:
        return None
    months = [calendar.month_name[one] for one in sorted(cron.months)]
    when = "" if len(months) == _MONTHS else f" in {_join(months)}"
    has_all_weekdays = len(cron.weekdays) == _DAYS_OF_WEEK
    if len(cron.days) == _DAYS_OF_MONTH:
        return f"{'every day' if has_all_weekdays else _describe_weekdays(cron.weekdays)}{when}"
    if not has_all_weekdays or len(cron.days) > _TIMES_MAX:
        return None
    numbers = _join([str(day) for day in sorted(cron.days)])
    if len(months) == 1:
        return f"on {numbers} {months[0]}"
    return f"on {'day' if len(cron.days) == 1 else 'days'} {numbers}{when or ' of the month'}"


def _describe_weekdays(days: Iterable[int]) -> str:
    numbers = sorted(days)
    names = [calendar.day_name[one - 1] for one in numbers]
    if len(numbers) >= _ROW_MIN and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{names[0]} to {names[-1]}"
    return f"every {names[0]}" if len(names) == 1 else _join(names)


def _join(words: Sequence[str]) -> str:
    """Join words as an English sentence does: `a`, `a and b`, `a, b, and c`."""
    if len(words) <= 2:
        return " and ".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"
