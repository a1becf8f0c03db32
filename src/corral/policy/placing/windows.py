"""Evaluates times of the week in which a rule asks for more: whether one is open, and what the rule asks for now.

A window begins at every local minute that its cron pattern names (`policy/cron.py`), in the rule's time zone, and lasts
`duration_s`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule, RuleWindow
from corral.policy.cron import InvalidSchedule, find_latest_start, find_zone, parse_cron

CODE = "bad_window"
DURATION_MAX_S = 7 * 86400.0


def check_windows(rule: Rule) -> None:
    """Raise for any problem with a rule's windows when the rule is saved, and not at night."""
    try:
        _check_all(rule)
    except InvalidSchedule as error:
        raise InvalidRequest(error.message, hint=error.hint, code=CODE) from error


def _check_all(rule: Rule) -> None:
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
    """Return whether the window has begun and not ended. `now` knows its time zone; which one it is does not matter."""
    since = now - timedelta(seconds=window.duration_s)
    return find_latest_start(window.cron, find_zone(time_zone), now, since=since) is not None


def _is_known_open(window: RuleWindow, time_zone: str, now: datetime) -> bool:
    try:
        return is_open(window, time_zone, now)
    except InvalidSchedule:
        return False
