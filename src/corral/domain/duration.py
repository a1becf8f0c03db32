"""Durations as people write them: `250ms`, `30s`, `5m`, `1h`, `7d`, or a number of seconds."""

from __future__ import annotations

import re

# Longer than any sensible duration, so that a typing mistake does not become "never".
DURATION_MAX_S = 10 * 365 * 86400.0
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d)?", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def find_seconds(text: str) -> float | None:
    """Return the seconds of a duration, or None if the text is none. Zero and very long ones are not refused here."""
    match = _DURATION.fullmatch(text)
    return float(match["number"]) * _UNIT_S[match["unit"] or "s"] if match else None


def parse_duration_s(value: object) -> float:
    """Parse a duration or a plain number into seconds. Raises `ValueError` with a sentence that has no subject; zero,
    negative durations and more than ten years are refused."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("is not a duration: write 30s, 5m, 1h or a number of seconds")  # noqa: TRY004 - pydantic collects ValueError only
    text = str(value).strip()
    if text.startswith("-"):
        raise ValueError(f"is negative ({text}): a duration is longer than zero")
    seconds = find_seconds(text)
    if seconds is None:
        raise ValueError(f"is not a duration ({text!r}): write 30s, 5m, 1h or a number of seconds")
    if seconds <= 0:
        raise ValueError("is zero: a duration is longer than zero")
    if seconds > DURATION_MAX_S:
        raise ValueError(f"is longer than ten years ({text})")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest text for a duration that parses to the same number."""
    for unit in ("d", "h", "m"):
        if seconds >= _UNIT_S[unit] and seconds % _UNIT_S[unit] == 0:
            return f"{seconds / _UNIT_S[unit]:.0f}{unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
